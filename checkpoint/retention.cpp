#include "retention.hpp"

namespace rota::checkpoint {

std::vector<std::int64_t> to_drop(std::span<const Present> newest_first, const CheckpointPolicy& policy,
                                  std::int64_t verified) {
  std::vector<std::int64_t> dropped;
  std::int64_t kept = 0;
  for (const auto& [serial, is_good] : newest_first) {
    const bool is_milestone = policy.keep_every > 0 && serial % policy.keep_every == 0;
    if (kept >= policy.keep_last && !is_milestone && serial != verified) dropped.push_back(serial);
    if (is_good) ++kept;
  }
  return dropped;
}

}  // namespace rota::checkpoint
