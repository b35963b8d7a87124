#include "rota/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "core/option.hpp"
#include "core/owned.hpp"
#include "ranks/access.hpp"
#include "ranks/collectives.hpp"
#include "ranks/exchange.hpp"

namespace rota {

namespace ranks {

Communicator make_communicator(std::unique_ptr<Transport> transport, std::chrono::milliseconds deadline) {
  return CommunicatorAccess::of(std::make_unique<Exchange>(std::move(transport), deadline));
}

Exchange& exchange_of(const Communicator& comm) {
  require_ranks(comm);
  return *CommunicatorAccess::exchange(comm);
}

void require_ranks(const Communicator& comm) {
  if (comm.size() == 0) internal::refuse_empty("a communicator");
  if (const Exchange* exchange = CommunicatorAccess::exchange(comm)) exchange->require_maker();
}

Transport::HasEnded end_of(const Communicator& comm) noexcept {
  const Exchange* exchange = CommunicatorAccess::exchange(comm);
  return exchange == nullptr ? nullptr : exchange->transport().end();
}

bool is_alone(const Communicator& comm) {
  require_ranks(comm);
  return comm.size() == 1;
}

void require_deadline(std::chrono::milliseconds deadline) {
  constexpr internal::OptionCheck kCheck("make a communicator");
  kCheck.in_range("deadline", deadline, internal::kUnboundedTime, "0 = none");
}

namespace {

constexpr std::string_view kDuplicating = "duplicate a communicator";

template <typename Make>
std::unique_ptr<Transport> made_of(Exchange& exchange, Make make) {
  const auto made = std::make_shared<std::unique_ptr<Transport>>();
  Operation operation(kDuplicating, made, [=](Transport& by) { return make(by, *made); });
  exchange.finish(operation);
  return std::move(*made);
}

}  // namespace

std::unique_ptr<Transport> duplicate(Exchange& meeting) {
  return made_of(meeting, [](Transport& by, auto& made) { return by.duplicate(made); });
}

std::unique_ptr<Transport> split(Exchange& all, const std::vector<int>& members) {
  agree(all, kDuplicating, nullptr);  // MPI's own waits for ever
  return made_of(all, [members](Transport& by, auto& made) { return by.split(members, made); });
}

}  // namespace ranks

Communicator::Communicator() noexcept = default;
Communicator::Communicator(std::unique_ptr<ranks::Exchange> exchange)
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

Communicator Communicator::duplicate() const {
  ranks::require_ranks(*this);
  return duplicate(exchange_ ? exchange_->deadline() : kDeadline);
}

Communicator Communicator::duplicate(std::chrono::milliseconds deadline) const {
  ranks::require_ranks(*this);
  if (!exchange_) return {};
  ranks::require_deadline(deadline);
  ranks::agree(*exchange_, ranks::kDuplicating, nullptr);
  Communicator copy = ranks::make_communicator(ranks::duplicate(*exchange_), deadline);
  copy.world_ = world_;
  return copy;
}

Communicator Communicator::data_parallel(int rank) const {
  ranks::agree(*this, "share out data", nullptr);
  const std::vector<std::int64_t> said = ranks::all_gather(*this, std::int64_t{rank});
  const auto refuse = [&](const std::string& what) {
    throw internal::failure(
        ErrorCode::invalid_argument,
        "share data among {} processes: {}; all data-parallel ranks from 0 on need as many processes", size_,
        what);
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
  const auto before = std::span(said).first(static_cast<std::size_t>(rank_));
  Communicator made = duplicate();
  made.world_ = {.rank = rank,
                 .size = static_cast<int>(times.size()),
                 .replica = static_cast<int>(std::ranges::count(before, std::int64_t{rank}))};
  return made;
}

}  // namespace rota
