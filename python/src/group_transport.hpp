#pragma once

// Ranks of another library as a transport, by an object of Python that knows it: rota._torch_ranks.Group.

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "lifetime.hpp"
#include "ranks/transport.hpp"
#include "rota/world.hpp"

namespace rota::python {

/// `group` has `rank`, `size`, `close()`, and the methods of a Transport, which return calls: objects with
/// `advance(may_rest)`, which says True where a call is complete, and None where a rank has gone; those of
/// `split` have `made` then. They get memory as memoryviews.
class GroupTransport final : public ranks::Transport {
 public:
  /// With the GIL.
  explicit GroupTransport(const py::object& group);
  ~GroupTransport() override;

  Begun reduce(std::span<std::int64_t> values, ranks::Reduction how) override;
  Begun sum(std::span<double> values) override;
  Begun broadcast(std::span<std::byte> bytes, int from) override;
  Begun exchange(ranks::Parts<const std::byte> outgoing, ranks::Parts<std::byte> incoming) override;
  Begun duplicate(std::unique_ptr<Transport>& made) override;
  Begun split(std::span<const int> members, std::unique_ptr<Transport>& made) override;
  void post(int to, std::string_view text) override;
  std::optional<ranks::Mail> take() override;
  std::string first_said(std::string_view mine) override;
  std::vector<int> lost() override;

 private:
  Shared group_;
  int maker_ = internal::this_process();
};

}  // namespace rota::python
