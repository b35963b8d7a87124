#include "ranks/nodes.hpp"

#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files/memory_file.hpp"
#include "ranks/access.hpp"
#include "ranks/collectives.hpp"
#include "rota/error.hpp"
#include "rota/fingerprint.hpp"

namespace rota::ranks {
namespace {

using internal::MemoryFile;

// Where a rank runs, and what others can try to open there.
struct Place {
  Fingerprint kernel = {};
  MemoryFile::Address memory = {};

  [[nodiscard]] bool is_open_to(const Place& other) const {
    if (!(kernel == other.kernel)) return false;
    try {
      return MemoryFile(memory).get() >= 0;
    } catch (const Error&) {
      return false;
    }
  }
};

// Of this boot of this machine. Containers share it.
Fingerprint running_kernel() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return FingerprintBuilder().add(id).finish();
}

// The first rank of the node of each.
std::vector<std::int64_t> find_leaders(const Communicator& all) {
  Place mine{.kernel = running_kernel()};
  std::optional<MemoryFile> file;
  try {
    mine.memory = file.emplace().address();
  } catch (const Error&) {  // is alone
  }
  const std::vector<Place> places = all_gather<Place>(all, std::span(&mine, 1));
  std::int64_t first = 0;
  while (first < all.rank() && !places[static_cast<std::size_t>(first)].is_open_to(mine)) ++first;
  const std::vector<std::int64_t> firsts = all_gather(all, first);  // they have tried; `file` may go
  std::vector<std::int64_t> leaders;
  for (const std::int64_t one : firsts) {
    const bool leads = firsts[static_cast<std::size_t>(one)] == one;
    leaders.push_back(leads ? one : std::ssize(leaders));
  }
  return leaders;
}

// Of those ranks of `all` for which `is_in` says so, this one among them. They keep their names.
template <typename IsIn>
Communicator part_of(const Communicator& all, IsIn&& is_in) {
  std::vector<int> members;
  for (int rank = 0; rank < all.size(); ++rank) {
    if (rank == all.rank() || is_in(rank)) members.push_back(rank);
  }
  Exchange& exchange = exchange_of(all);
  auto transport = split(exchange, members);
  if (!transport) return {};
  Communicator part = make_communicator(std::move(transport), exchange.deadline());
  exchange_of(part).call_ranks(std::move(members));
  return part;
}

}  // namespace

Nodes::Nodes(Communicator all, int ranks_per_node) : all_(std::move(all)) {
  if (is_alone(all_)) return;
  agree(all_, "find the ranks of each node", nullptr);
  std::vector<std::int64_t> leaders = find_leaders(all_);
  for (int rank = 0; ranks_per_node > 0 && rank < all_.size(); ++rank) {
    leaders[static_cast<std::size_t>(rank)] = rank - rank % ranks_per_node;
  }
  const auto leader_of = [&](int rank) { return static_cast<int>(leaders[static_cast<std::size_t>(rank)]); };
  const auto is_leader = [&](int rank) { return leader_of(rank) == rank; };
  node_ = part_of(all_, [&](int rank) { return leader_of(rank) == leader_of(all_.rank()); });
  leaders_ = part_of(all_, [&](int rank) { return leads() && is_leader(rank); });
  for (int rank = 1; rank < all_.size(); ++rank) are_many_ = are_many_ || is_leader(rank);
}

void Nodes::show_progress() const {
  ranks::show_progress(all_);
  ranks::show_progress(leaders_);
}

}  // namespace rota::ranks
