#pragma once

// What carries the calls of a communicator: MPI (src/mpi), torch.distributed (python/src), threads (tests).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rota::ranks {

/// A call of all ranks that was begun. *One thread.*
class Call {
 public:
  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  virtual ~Call() = default;
  /// Moves it on; whether it is complete. It may wait for that some milliseconds, where `may_rest` and that
  /// costs less than to be asked again and again. Throws Error{io}, RankLost.
  virtual bool advance(bool may_rest) = 0;
};

/// A call cannot be completed, for a rank has gone.
struct RankLost {
  std::vector<int> ranks = {};  // as far as this one can tell; what an Exchange throws has them
};

enum class Reduction { sum, minimum, maximum };

/// A message beside the calls.
struct Mail {
  int from = 0;
  std::string text;
};

/// What is sent to each rank, or comes from it; nothing where it is empty.
template <typename Byte>
using Parts = std::vector<std::span<Byte>>;

/// Primitives of a group of several ranks. All ranks begin the calls in the same order, with parts of the
/// same sizes. What a call reads and writes must stay until it is complete, and for ever where it is given
/// up. *One thread*; destroyed before what it runs on ends, if it is to free anything. Functions throw
/// Error{io}.
class Transport {
 public:
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  using Begun = std::unique_ptr<Call>;
  /// Element-wise over all ranks, in place. Sums wrap around.
  virtual Begun reduce(std::span<std::int64_t> values, Reduction how) = 0;
  virtual Begun sum(std::span<double> values) = 0;
  /// What rank `from` has, in place.
  virtual Begun broadcast(std::span<std::byte> bytes, int from) = 0;
  /// A part to and from each rank but this one.
  virtual Begun exchange(Parts<const std::byte> outgoing, Parts<std::byte> incoming) = 0;

  /// The same ranks once more, in `made` when the call is complete. `made` must stay as the rest.
  virtual Begun duplicate(std::unique_ptr<Transport>& made) = 0;
  /// The same of `members` alone: ranks of this group, the caller among them, who pass the same; null where
  /// it is alone. Every rank calls it, where all are known to be there.
  virtual Begun split(std::span<const int> members, std::unique_ptr<Transport>& made) = 0;

  /// Messages beside the calls: `post` waits for nobody, `take` gives the next that has come.
  virtual void post(int to, std::string_view text) = 0;
  virtual std::optional<Mail> take() = 0;
  /// Whether a rank may get one that it does not take for long.
  [[nodiscard]] virtual bool may_ask() const noexcept { return true; }
  /// The first of what ranks of the job said to this, by whichever group, if that is known: this one's else.
  virtual std::string first_said(std::string_view mine) { return std::string(mine); }
  /// After RankLost: the ranks that have gone, as far as this one can tell.
  virtual std::vector<int> lost() { return {}; }

  /// Whether what it runs on has ended in this process, for ever.
  [[nodiscard]] bool has_ended() const noexcept { return has_ended_ != nullptr && has_ended_(); }
  using HasEnded = bool (*)() noexcept;
  [[nodiscard]] HasEnded end() const noexcept { return has_ended_; }
  /// Something may be under way on it for ever: what that needs is not freed when it is destroyed.
  void leak() noexcept { is_leaked_ = true; }

 protected:
  Transport(int rank, int size, HasEnded ended = nullptr) : rank_(rank), size_(size), has_ended_(ended) {}
  [[nodiscard]] bool is_leaked() const noexcept { return is_leaked_; }

 private:
  int rank_;
  int size_;
  HasEnded has_ended_;
  bool is_leaked_ = false;
};

}  // namespace rota::ranks
