#include "mpi/transport.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <utility>

#include "core/failure.hpp"
#include "mpi/handles.hpp"
#include "ranks/messages.hpp"
#include "rota/mpi.hpp"

namespace rota::mpi {
namespace {

using ranks::Reduction;

/// The kinds of messages, so that none is taken for another.
enum Tag : int { kPostTag = 32'000, kExchangeTag };

constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of one call of MPI

int to_count(std::size_t n) {
  if (n > INT_MAX) throw internal::failure(ErrorCode::out_of_range, "pass {} elements in one MPI call", n);
  return static_cast<int>(n);
}

MPI_Op op_of(Reduction how) {
  if (how == Reduction::sum) return MPI_SUM;
  return how == Reduction::minimum ? MPI_MIN : MPI_MAX;
}

class Requests final : public ranks::Call {
 public:
  // What was not received by now will not be: the memory for it may go. MPI cannot cancel anything else.
  ~Requests() override {
    if (receives_ == 0 || !is_running()) return;
    for (MPI_Request& request : std::span(requests_).first(receives_)) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
  }

  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  void end_of_receives() noexcept { receives_ = requests_.size(); }

  bool advance(bool /*may_rest*/) override {
    int done = 0;
    check(MPI_Testall(to_count(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE),
          "MPI_Testall");
    return done != 0;
  }

 private:
  std::vector<MPI_Request> requests_;
  std::size_t receives_ = 0;
};

template <typename T>
ranks::Transport::Begun reduce_over(MPI_Comm comm, std::span<T> values, MPI_Datatype type, MPI_Op op) {
  auto call = std::make_unique<Requests>();
  check(MPI_Iallreduce(MPI_IN_PLACE, values.data(), to_count(values.size()), type, op, comm, call->add()),
        "MPI_Iallreduce");
  return call;
}

// Calls `post` for each piece of what goes to or comes from each rank.
template <typename Byte, typename Post>
void in_pieces(const ranks::Parts<Byte>& parts, int self, Post&& post) {
  for (int rank = 0; rank < static_cast<int>(parts.size()); ++rank) {
    auto rest = parts[static_cast<std::size_t>(rank)];
    while (rank != self && !rest.empty()) {
      const auto piece = rest.first(std::min(kMostBytes, rest.size()));
      post(piece.data(), static_cast<int>(piece.size()), rank);
      rest = rest.subspan(piece.size());
    }
  }
}

class Duplication final : public ranks::Call {
 public:
  Duplication(MPI_Comm comm, std::unique_ptr<ranks::Transport>& made) : made_(&made) {
    check(MPI_Comm_idup(comm, copy_.get(), requests_.add()), "MPI_Comm_idup");
  }
  ~Duplication() override {  // MPI may write to it
    if (*copy_ == MPI_COMM_NULL) ranks::keep_for_ever(copy_);
  }

  bool advance(bool /*may_rest*/) override {
    if (!requests_.advance(false)) return false;
    *made_ = std::make_unique<MpiTransport>(*copy_);
    return true;
  }

 private:
  std::shared_ptr<MPI_Comm> copy_ = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  std::unique_ptr<ranks::Transport>* made_;
  Requests requests_;
};

}  // namespace

void check(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw internal::failure(ErrorCode::io, "{}: {}", call,
                          std::string_view(text.data(), static_cast<std::size_t>(length)));
}

struct MpiTransport::Posted {
  std::string text;
  MPI_Request request = MPI_REQUEST_NULL;
};

MpiTransport::MpiTransport(MPI_Comm comm, Ownership ownership)
    : Transport(world(comm).rank, world(comm).size, &mpi::has_ended), comm_(comm), ownership_(ownership) {
  if (ownership == Ownership::owned) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

MpiTransport::~MpiTransport() {
  for (auto& posted : posted_) ranks::keep_for_ever(std::move(posted));
  if (ownership_ == Ownership::owned && !is_leaked() && is_running()) MPI_Comm_free(&comm_);
}

ranks::Transport::Begun MpiTransport::reduce(std::span<std::int64_t> values, Reduction how) {
  return reduce_over(comm_, values, MPI_INT64_T, op_of(how));
}

ranks::Transport::Begun MpiTransport::sum(std::span<double> values) {
  return reduce_over(comm_, values, MPI_DOUBLE, MPI_SUM);
}

ranks::Transport::Begun MpiTransport::broadcast(std::span<std::byte> bytes, int from) {
  auto call = std::make_unique<Requests>();
  check(MPI_Ibcast(bytes.data(), to_count(bytes.size()), MPI_BYTE, from, comm_, call->add()), "MPI_Ibcast");
  return call;
}

ranks::Transport::Begun MpiTransport::exchange(ranks::Parts<const std::byte> outgoing,
                                               ranks::Parts<std::byte> incoming) {
  auto call = std::make_unique<Requests>();
  in_pieces(incoming, rank(), [&](std::byte* bytes, int count, int from) {
    check(MPI_Irecv(bytes, count, MPI_BYTE, from, kExchangeTag, comm_, call->add()), "MPI_Irecv");
  });
  call->end_of_receives();
  in_pieces(outgoing, rank(), [&](const std::byte* bytes, int count, int to) {
    check(MPI_Isend(bytes, count, MPI_BYTE, to, kExchangeTag, comm_, call->add()), "MPI_Isend");
  });
  return call;
}

ranks::Transport::Begun MpiTransport::duplicate(std::unique_ptr<Transport>& made) {
  return std::make_unique<Duplication>(comm_, made);
}

ranks::Transport::Begun MpiTransport::split(std::span<const int> members, std::unique_ptr<Transport>& made) {
  MPI_Comm part = MPI_COMM_NULL;
  const int color = members.size() > 1 ? members.front() : MPI_UNDEFINED;
  check(MPI_Comm_split(comm_, color, rank(), &part), "MPI_Comm_split");
  if (part != MPI_COMM_NULL) made = std::make_unique<MpiTransport>(part);
  return std::make_unique<Requests>();
}

// Nobody knows whether the other rank takes it before this one frees the communicator; one that is made later
// could take it for its own.
void MpiTransport::post(int to, std::string_view text) {
  leak();
  Posted& posted = *posted_.emplace_back(std::make_shared<Posted>(Posted{.text = std::string(text)}));
  check(MPI_Isend(posted.text.data(), to_count(text.size()), MPI_BYTE, to, kPostTag, comm_, &posted.request),
        "MPI_Isend");
}

std::optional<ranks::Mail> MpiTransport::take() {
  std::erase_if(posted_, [](const std::shared_ptr<Posted>& posted) {
    int is_done = 0;
    check(MPI_Test(&posted->request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    return is_done != 0;
  });
  int has_come = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  for (int look = 0; look < 2 && has_come == 0; ++look) {  // the first may fetch what the second then finds
    check(MPI_Improbe(MPI_ANY_SOURCE, kPostTag, comm_, &has_come, &message, &status), "MPI_Improbe");
  }
  if (has_come == 0) return std::nullopt;
  int count = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
  ranks::Mail mail{.from = status.MPI_SOURCE, .text = std::string(static_cast<std::size_t>(count), '\0')};
  check(MPI_Mrecv(mail.text.data(), count, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
  return mail;
}

}  // namespace rota::mpi
