#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "core/option.hpp"
#include "core/owned.hpp"
#include "mpi/collectives.hpp"
#include "mpi/exchange.hpp"

namespace rota::mpi {
namespace {

[[noreturn]] void refuse(std::string_view what, std::string_view why) {
  throw internal::failure(ErrorCode::invalid_argument, "{}: {}", what, why);
}

// Others abort the job inside MPI, or have ranks that do not read together.
void require_intra(MPI_Comm comm, std::string_view what) {
  if (!is_running()) refuse(what, "MPI does not run; call MPI_Init first, or make a Session");
  if (comm == MPI_COMM_NULL) {
    refuse(what,
           "it is MPI_COMM_NULL, which MPI_Comm_split gives for MPI_UNDEFINED; this rank takes no part, and "
           "must skip this call");
  }
  int is_inter = 0;
  check(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter");
  if (is_inter != 0) {
    refuse(what,
           "it is an intercommunicator; pass the communicator of one of its groups, or merge them with "
           "MPI_Intercomm_merge");
  }
}

// **Collective**, by the deadline of `meeting`.
std::unique_ptr<Exchange> duplicate_of(Exchange& meeting, std::chrono::milliseconds deadline) {
  constexpr internal::OptionCheck kCheck("duplicate a communicator");
  kCheck.in_range("deadline", deadline, internal::kUnboundedTime, "0 = none");
  const auto copy = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  Operation operation("duplicate a communicator", copy, [copy](MPI_Comm comm, Requests& requests) {
    check(MPI_Comm_idup(comm, copy.get(), &requests.emplace_back()), "MPI_Comm_idup");
  });
  if (meeting.size() == 1) check(MPI_Comm_dup(meeting.comm(), copy.get()), "MPI_Comm_dup");
  if (meeting.size() > 1) meeting.finish(operation);  // which begins nothing for one rank
  MPI_Comm_set_errhandler(*copy, MPI_ERRORS_RETURN);
  return std::make_unique<Exchange>(*copy, deadline);
}

std::unique_ptr<Exchange> duplicate_of(MPI_Comm comm, std::chrono::milliseconds deadline) {
  require_intra(comm, "duplicate a communicator");
  Exchange meeting(comm, deadline, Exchange::Ownership::borrowed);
  return duplicate_of(meeting, deadline);
}

}  // namespace

void check(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw internal::failure(ErrorCode::io, "{}: {}", call,
                          std::string_view(text.data(), static_cast<std::size_t>(length)));
}

bool is_running() noexcept {
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  return is_initialized != 0 && !has_ended();
}

bool has_ended() noexcept {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  return is_finalized != 0;
}

World world(MPI_Comm comm) {
  require_intra(comm, "ask a communicator for its world");
  World world;
  check(MPI_Comm_rank(comm, &world.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &world.size), "MPI_Comm_size");
  return world;
}

Communicator of_fortran(int handle, std::chrono::milliseconds deadline) {
  return Communicator(MPI_Comm_f2c(handle), deadline);
}

World job_world() { return is_running() ? world(MPI_COMM_WORLD) : World{}; }

Communicator::Communicator() noexcept = default;
Communicator::Communicator(MPI_Comm comm, std::chrono::milliseconds deadline)
    : Communicator(duplicate_of(comm, deadline)) {}
Communicator::Communicator(std::unique_ptr<Exchange> exchange)
    : rank_(exchange->rank()),
      size_(exchange->size()),
      world_{.rank = rank_, .size = size_},
      exchange_(std::move(exchange)) {}
Communicator::~Communicator() = default;

Communicator::Communicator(Communicator&& other) noexcept
    : rank_(std::exchange(other.rank_, 0)),
      size_(std::exchange(other.size_, 0)),
      world_(std::exchange(other.world_, World{.size = 0})),
      exchange_(std::move(other.exchange_)) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  Communicator taken(std::move(other));  // and so leaves `other` moved from
  std::swap(rank_, taken.rank_);
  std::swap(size_, taken.size_);
  std::swap(world_, taken.world_);
  std::swap(exchange_, taken.exchange_);
  return *this;
}

MPI_Comm Communicator::get() const noexcept { return exchange_ ? exchange_->comm() : MPI_COMM_NULL; }

Communicator Communicator::duplicate() const {
  require_ranks(*this);
  return duplicate(exchange_ ? exchange_->deadline() : kDeadline);
}

Communicator Communicator::duplicate(std::chrono::milliseconds deadline) const {
  require_ranks(*this);
  Communicator copy = exchange_ ? Communicator(duplicate_of(*exchange_, deadline)) : Communicator();
  copy.world_ = world_;
  return copy;
}

void Communicator::abandon() const noexcept {
  if (exchange_) exchange_->abandon();
}

Exchange& exchange_of(const Communicator& comm) {
  require_ranks(comm);
  return *comm.exchange_;
}

void require_ranks(const Communicator& comm) {
  if (comm.size() == 0) internal::refuse_empty("a communicator");
  if (comm.exchange_) comm.exchange_->require_maker();
}

bool needs_mpi(const Communicator& comm) noexcept { return comm.get() != MPI_COMM_NULL; }

bool is_alone(const Communicator& comm) {
  require_ranks(comm);
  return comm.size() == 1;
}

Communicator data_parallel(const Communicator& comm, int rank) {
  const std::vector<std::int64_t> said = all_gather(comm, std::int64_t{rank});
  const auto refuse = [&](const std::string& what) {
    throw internal::failure(
        ErrorCode::invalid_argument,
        "share data among {} processes: {}; all data-parallel ranks from 0 on need as many processes",
        comm.size(), what);
  };
  std::map<std::int64_t, std::int64_t> times;
  for (const std::int64_t r : said) ++times[r];
  std::int64_t next = 0;
  for (const auto& [r, count] : times) {
    if (r < 0) refuse(fmt::format("data-parallel rank {} is below 0", r));
    if (r != next)
      refuse(fmt::format("none of them has data-parallel rank {}, and {} have rank {}", next, count, r));
    if (count != times[0]) {
      refuse(fmt::format("{} of them have data-parallel rank 0, and {} have rank {}", times[0], count, r));
    }
    ++next;
  }
  const auto before = std::span(said).first(static_cast<std::size_t>(comm.rank()));
  Communicator made = comm.duplicate();
  made.world_ = {.rank = rank,
                 .size = static_cast<int>(times.size()),
                 .replica = static_cast<int>(std::ranges::count(before, std::int64_t{rank}))};
  return made;
}

}  // namespace rota::mpi
