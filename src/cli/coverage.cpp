#include "cli/coverage.hpp"

#include <algorithm>

namespace rota::cli {
namespace {
constexpr std::size_t kNamedIds = 5;
}  // namespace

bool Coverage::tick(std::int64_t epoch, std::int64_t id) {
  Ticks& ticks = epochs_[epoch];
  if (ticks.seen.empty()) ticks.seen.resize(static_cast<std::size_t>(samples_));
  auto seen = ticks.seen[static_cast<std::size_t>(id)];
  if (seen) return false;
  seen = true;
  ++ticks.count;
  return true;
}

bool Coverage::has(std::int64_t epoch, std::int64_t id) const {
  const auto found = epochs_.find(epoch);
  return found != epochs_.end() && found->second.seen[static_cast<std::size_t>(id)];
}

std::int64_t Coverage::count(std::int64_t epoch) const {
  const auto found = epochs_.find(epoch);
  return found == epochs_.end() ? 0 : found->second.count;
}

std::vector<Missing> Coverage::close_before(std::int64_t epoch) {
  std::vector<Missing> all;
  const auto none_seen = [&](std::int64_t first, std::int64_t last) {
    if (first <= last && samples_ > 0) all.push_back({first, last, samples_, {}});
  };
  while (!epochs_.empty() && epochs_.begin()->first < epoch) {
    const auto& [open, ticks] = *epochs_.begin();
    none_seen(open_from_, open - 1);
    if (ticks.count < samples_) all.push_back(missing(open, ticks));
    open_from_ = open + 1;
    epochs_.erase(epochs_.begin());
  }
  none_seen(open_from_, epoch - 1);
  open_from_ = std::max(open_from_, epoch);
  return all;
}

Missing Coverage::missing(std::int64_t epoch, const Ticks& ticks) const {
  Missing missing{epoch, epoch, samples_ - ticks.count, {}};
  for (std::int64_t id = 0; id < samples_ && missing.first_ids.size() < kNamedIds; ++id) {
    if (!ticks.seen[static_cast<std::size_t>(id)]) missing.first_ids.push_back(id);
  }
  return missing;
}

}  // namespace rota::cli
