#pragma once

// MPI as a transport.

#include <mpi.h>

#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ranks/transport.hpp"

namespace rota::mpi {

/// Throws Error{io} naming `call` unless `code` is MPI_SUCCESS.
void check(int code, std::string_view call);

/// All its calls but `split` are non-blocking ones of MPI.
class MpiTransport final : public ranks::Transport {
 public:
  enum class Ownership { owned, borrowed };
  /// An `owned` communicator is freed.
  explicit MpiTransport(MPI_Comm comm, Ownership ownership = Ownership::owned);
  ~MpiTransport() override;

  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_; }

  Begun reduce(std::span<std::int64_t> values, ranks::Reduction how) override;
  Begun sum(std::span<double> values) override;
  Begun broadcast(std::span<std::byte> bytes, int from) override;
  Begun exchange(ranks::Parts<const std::byte> outgoing, ranks::Parts<std::byte> incoming) override;
  Begun duplicate(std::unique_ptr<Transport>& made) override;
  Begun split(std::span<const int> members, std::unique_ptr<Transport>& made) override;
  void post(int to, std::string_view text) override;
  std::optional<ranks::Mail> take() override;
  /// Not by a program's own, which could take such a message for one of its.
  [[nodiscard]] bool may_ask() const noexcept override { return ownership_ == Ownership::owned; }

 private:
  struct Posted;  // a text, and what MPI still reads of it

  MPI_Comm comm_;
  Ownership ownership_;
  std::list<std::shared_ptr<Posted>> posted_;
};

}  // namespace rota::mpi
