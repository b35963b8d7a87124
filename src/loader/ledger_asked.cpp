// What a ledger says of what is open, and of what was dropped.

#include <algorithm>
#include <iterator>
#include <utility>

#include "loader/ledger.hpp"

namespace rota::internal {

Ledger::Open Ledger::open(const Position& at) const {
  const MutexLock lock(mutex_);
  Open all{at, {}, is_in_order_, dropped_before_, dropped_.counts};
  const auto goes_before = [&](const Entry& entry) ROTA_REQUIRES(mutex_) {
    if (entry.is_again()) return true;
    if (entry.is_touched || entry.end != all.place || entry.start.step < floor_.step) return false;
    all.place = entry.start;
    return true;
  };
  auto entry = entries_.rbegin();
  while (entry != entries_.rend() && goes_before(*entry)) ++entry;
  for (const auto& [name, sample] : samples_) all.names.push_back(name);
  return all;
}

std::vector<SampleName> Ledger::open_of(SampleNames names) const {
  const MutexLock lock(mutex_);
  std::vector<SampleName> open;
  for (const SampleName& name : names)
    if (samples_.contains(name)) open.push_back(name);
  return open;
}

KeptSamples Ledger::open_items() const {
  const MutexLock lock(mutex_);
  KeptSamples items;
  for (const auto& [name, sample] : samples_) items.push_back({name, sample.record});
  return items;
}

Ledger::Counts Ledger::counts() const {
  const MutexLock lock(mutex_);
  Counts all{.out = out_, .given_up = std::ssize(samples_) - out_, .again = again_};
  for (const auto* of : {&dropped_before_, &dropped_.counts}) {
    for (const auto& [reason, count] : *of) all.dropped += count;
  }
  const auto entry = std::ranges::find_if(entries_, [](const Entry& one) { return one.out > 0; });
  if (entry != entries_.end())
    all.oldest_seconds = std::chrono::duration<double>(Clock::now() - entry->since).count();
  return all;
}

DroppedSamples Ledger::dropped() const {
  const MutexLock lock(mutex_);
  DroppedSamples all = dropped_;
  for (const auto& [reason, count] : dropped_before_) all.counts[reason] += count;
  return all;
}

void Ledger::restore(DroppedSamples before) {
  const MutexLock lock(mutex_);
  dropped_before_ = std::exchange(before.counts, {});
  dropped_ = std::move(before);
}

}  // namespace rota::internal
