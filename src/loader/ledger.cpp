#include "loader/ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/failure.hpp"
#include "core/message.hpp"
#include "core/text.hpp"
#include "core/wait.hpp"

namespace rota::internal {
namespace {

constexpr std::chrono::seconds kSayAfter{5};

// As a state is.
void require_text(std::string_view reason) {
  for (auto rest = reason; !rest.empty();) {
    const std::size_t bytes = character_bytes(rest);
    if (bytes == 0) {
      throw failure(ErrorCode::invalid_argument, "drop samples: the reason \"{}\" is no UTF-8; give a text",
                    shown(reason));
    }
    rest.remove_prefix(bytes);
  }
}

}  // namespace

// ---- of who hands out ----

void Ledger::wait_for_room(std::chrono::milliseconds deadline) {
  const MutexLock lock(mutex_);
  if (may_hand_out()) return;
  const auto begun = Clock::now();
  const bool ends = deadline.count() > 0 && deadline < Clock::time_point::max() - begun;
  const auto last = ends ? begun + deadline : Clock::time_point::max();
  for (bool has_said = false; !may_hand_out();) {
    const auto due = has_said ? last : std::min(last, begun + kSayAfter);
    mutex_.wait(has_room_, Wait::here(), due);
    if (may_hand_out() || Clock::now() < due) continue;
    const std::string what = fmt::format(
        "next() waits for room: {}; the oldest: {}; {}", full("and "), oldest(),
        has_settled_ ? "settle, drop or give up what is out"
                     : "none was ever settled: call settle() for what is trained on, or leave the option "
                       "settle out");
    if (due == last) throw Error(ErrorCode::timeout, what);
    has_said = true;
    const MutexUnlock unlocked(mutex_);
    tell(what);
  }
}

std::string Ledger::full(std::string_view conjunction) const {
  if (out_ >= limit_) return fmt::format("{} samples are out, {}open_limit is {}", out_, conjunction, limit_);
  return fmt::format("what is open has {} bytes, {}open_bytes is {}", bytes_, conjunction, most_bytes_);
}

std::string Ledger::oldest() const {
  const auto entry = std::ranges::find_if(entries_, [](const Entry& one) { return one.out > 0; });
  const auto sample = std::ranges::find_if(samples_, [&, none = entries_.end()](const auto& one) {
    return one.second.by != none && &*one.second.by == &*entry;
  });
  return fmt::format("sample {} of epoch {}, for {} s", sample->first.id.value, sample->first.epoch,
                     std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - entry->since).count());
}

std::int64_t Ledger::hand_out(RunSlice& batch, bool is_alone) {
  const MutexLock lock(mutex_);
  const auto entry = entries_.insert(entries_.end(), {.start = batch.start, .end = batch.end});
  try {
    const std::int64_t settled = enter(batch, is_alone && batch.is_again(), entry);
    drop_if_empty(entry);
    return settled;
  } catch (...) {  // without memory: the batch stays with the caller, who tries again
    std::erase_if(samples_, [&](const auto& one) { return one.second.first == entry; });
    for (auto& [name, sample] : samples_) {
      if (sample.by == entry) sample.by = entries_.end();
    }
    out_ -= entry->out;
    entries_.erase(entry);
    throw;
  }
}

void Ledger::hand_out(RunSlice& batch, KeptSamples samples) {
  hand_out(batch, false);
  const MutexLock lock(mutex_);
  for (KeptSample& one : samples) {
    const auto sample = samples_.find(one.name);
    if (sample == samples_.end()) continue;  // somebody has just settled it by its name
    bytes_ += std::ssize(one.record);
    sample->second.record = std::move(one.record);
  }
}

// `is_expected`: it comes again, and all that is still open of it is known.
std::int64_t Ledger::enter(RunSlice& batch, bool is_expected, Entries::iterator entry) {
  std::int64_t settled = 0;
  for (std::size_t slot = 0; slot < batch.ids.size(); ++slot) {
    const SampleName name{batch.ids[slot], batch.epochs[slot]};
    const auto known = is_expected ? samples_.find(name) : samples_.end();
    if (batch.kinds[slot] == SlotKind::skipped) {
      entry->is_touched = true;
      if (known != samples_.end()) close(known);
    }
    if (batch.kinds[slot] != SlotKind::sample) continue;
    if (is_expected && known == samples_.end()) {
      batch.kinds[slot] = SlotKind::pad;
      ++settled;
      continue;
    }
    Sample& own = is_expected
                      ? known->second
                      : samples_.try_emplace(name, Sample{entries_.end(), entries_.end()}).first->second;
    own.by = entry;
    if (!batch.is_again()) own.first = entry;
    entry->open += batch.is_again() ? 0 : 1;
    ++entry->out;
    ++out_;
  }
  return settled;
}

// One without samples is kept, as the state may go back before it; several in a row are one.
void Ledger::drop_if_empty(Entries::iterator entry) {
  if (!entry->is_empty()) return;
  const auto before = entry == entries_.begin() ? entries_.end() : std::prev(entry);
  const bool joins = before != entries_.end() && before->is_empty() && before->end == entry->start;
  if (joins) before->end = entry->end;
  if (joins || entry->is_again() || entry->is_touched) {
    entries_.erase(entry);
  } else {
    ++empty_;
  }
}

std::vector<SampleName> Ledger::take_given_up(bool forgets) {
  const MutexLock lock(mutex_);
  std::erase_if(given_up_,
                [&](const SampleName& name) ROTA_REQUIRES(mutex_) { return !samples_.contains(name); });
  if (forgets) {
    for (const SampleName& name : given_up_) close(samples_.find(name));
  }
  return std::exchange(given_up_, {});
}

void Ledger::give_back(SampleNames names) {
  const MutexLock lock(mutex_);
  for (const SampleName& name : names) samples_.try_emplace(name, Sample{entries_.end(), entries_.end()});
  given_up_.insert(given_up_.begin(), names.begin(), names.end());
}

KeptSamples Ledger::take_items_given_up() {
  const MutexLock lock(mutex_);
  KeptSamples items;
  items.reserve(given_up_.size());
  for (const SampleName& name : std::exchange(given_up_, {})) {
    const auto sample = samples_.find(name);
    if (sample == samples_.end()) continue;
    bytes_ -= std::ssize(sample->second.record);
    items.push_back({name, std::move(sample->second.record)});
    samples_.erase(sample);
  }
  return items;
}

void Ledger::give_back(KeptSamples items) {
  const MutexLock lock(mutex_);
  for (KeptSample& item : items) {
    bytes_ += std::ssize(item.record);
    given_up_.push_back(item.name);
    samples_.try_emplace(item.name, Sample{entries_.end(), entries_.end(), false, std::move(item.record)});
  }
}

void Ledger::expect(SampleNames names) {
  const MutexLock lock(mutex_);
  for (const SampleName& name : names) samples_.try_emplace(name, Sample{entries_.end(), entries_.end()});
}

void Ledger::forget(SampleNames names) {
  const MutexLock lock(mutex_);
  for (const SampleName& name : names) {
    if (const auto found = samples_.find(name); found != samples_.end()) close(found);
  }
}

std::size_t Ledger::restart(std::string_view by) {
  const MutexLock lock(mutex_);
  const std::size_t open = samples_.size();
  samples_.clear();
  entries_.clear();
  given_up_.clear();
  out_ = bytes_ = empty_ = 0;
  floor_ = {};
  is_in_order_ = true;
  restarted_by_ = by;
  has_room_.notify_all();
  return open;
}

void Ledger::keep_from(const Position& at) {
  const MutexLock lock(mutex_);
  floor_ = at;
}

// ---- of who writes down what is said ----

void Ledger::admit(const void* who, Witness witness, const std::function<void(SampleNames)>& begin) {
  const MutexLock lock(mutex_);
  std::vector<SampleName> open;
  for (const auto& [name, sample] : samples_) open.push_back(name);
  begin(open);
  who_ = who;
  witness_ = std::move(witness);
}

void Ledger::dismiss(const void* who) {
  const MutexLock lock(mutex_);
  if (who_ == who) witness_ = nullptr;
}

void Ledger::bear_witness(SampleNames names, std::optional<std::string_view> reason) const {
  if (witness_ && !names.empty()) witness_(names, reason);
}

// ---- of who trains ----

// Into found_, in their order.
void Ledger::find(std::string_view verb, SampleNames names) {
  found_.clear();
  for (const SampleName& name : names) {
    const auto sample = samples_.find(name);
    const bool is_open = sample != samples_.end();
    if (is_open && sample->second.by != entries_.end() && !std::exchange(sample->second.is_named, true)) {
      found_.push_back(sample);
      continue;
    }
    const bool is_twice = is_open && sample->second.is_named;
    for (const auto& one : found_) one->second.is_named = false;
    throw failure(
        ErrorCode::invalid_argument, "{} sample {} of epoch {}: {}; nothing of this call was done", verb,
        name.id.value, name.epoch,
        is_twice  ? "it is named twice"
        : is_open ? "it was given up, and will be handed out again; try_settle counts it until then"
                  : fmt::format("it is not out: it was settled or dropped before, or was not handed out by "
                                "this loader{}{}; try_settle passes over such ones",
                                restarted_by_.empty() ? "" : " since ", restarted_by_));
  }
  for (const auto& one : found_) one->second.is_named = false;
}

// Of an entry that is settled in part, nobody goes back to its start, nor before.
void Ledger::touch(Entries::iterator entry) {
  if (std::exchange(entry->is_touched, true)) return;
  for (auto before = entries_.begin(); empty_ > 0 && before != entry;) {
    empty_ -= before->is_empty() ? 1 : 0;
    before = before->is_empty() ? entries_.erase(before) : std::next(before);
  }
}

void Ledger::take_back(Sample& sample) {
  if (sample.by == entries_.end()) return;
  const auto by = std::exchange(sample.by, entries_.end());
  --out_;
  if (--by->out == 0 && by->is_again()) entries_.erase(by);
}

void Ledger::close(Samples::iterator sample) {
  take_back(sample->second);
  if (const auto first = sample->second.first; first != entries_.end()) {
    touch(first);
    if (--first->open == 0) entries_.erase(first);
  }
  bytes_ -= std::ssize(sample->second.record);
  samples_.erase(sample);
}

void Ledger::changed(bool is_in_order) {
  ++changes_;
  is_in_order_ = is_in_order_ && is_in_order;
  has_room_.notify_all();
}

void Ledger::close_all(std::string_view verb, SampleNames names, bool is_in_order,
                       std::optional<std::string_view> reason) {
  find(verb, names);
  bear_witness(names, reason);
  for (const auto& one : found_) close(one);
  has_settled_ = true;
  changed(is_in_order);
}

void Ledger::settle(SampleNames names) {
  const MutexLock lock(mutex_);
  close_all("settle", names, names.empty());
}

void Ledger::settle_batch(SampleNames names, const Position& start, const Position& end) {
  const MutexLock lock(mutex_);
  const bool is_oldest = !entries_.empty() && entries_.front().start == start;
  close_all("settle", names, is_oldest && entries_.front().open == std::ssize(names));
  if (!names.empty()) return;
  const auto is_it = [&](const Entry& entry) { return entry.is_empty() && entry.start == start; };
  const auto entry = std::ranges::find_if(entries_, is_it);
  if (entry == entries_.end()) return;
  entry->start = end;  // behind it there may be others without samples
  if (entry->start != entry->end) return;
  entries_.erase(entry);
  --empty_;
}

void Ledger::drop(SampleNames names, std::string_view reason) {
  require_text(reason);
  const MutexLock lock(mutex_);
  close_all("drop", names, names.empty(), reason);
  if (names.empty()) return;
  dropped_.counts[std::string(reason)] += std::ssize(names);
  list(names, reason);
}

void Ledger::drop_rest(SampleNames names, std::string_view reason, bool is_listed) {
  const MutexLock lock(mutex_);
  if (is_listed) bear_witness(names, reason);
  for (const SampleName& name : names) {
    if (const auto sample = samples_.find(name); sample != samples_.end()) close(sample);
  }
  dropped_before_[std::string(reason)] += std::ssize(names);
  if (is_listed) list(names, reason);
  changed(false);
}

void Ledger::list(SampleNames names, std::string_view reason) {
  for (const SampleName& name : names) {
    if (dropped_.samples.size() >= kMostListed) break;
    dropped_.samples.push_back({.epoch = name.epoch, .id = name.id, .error = std::string(reason)});
  }
}

void Ledger::again(SampleNames names) {
  const MutexLock lock(mutex_);
  find("give up", names);
  given_up_.insert(given_up_.end(), names.begin(), names.end());
  for (const auto& one : found_) take_back(one->second);
  again_ += std::ssize(names);
  changed(names.empty());
}

void Ledger::again() {
  const MutexLock lock(mutex_);
  const std::size_t before = given_up_.size();
  given_up_.reserve(before + static_cast<std::size_t>(out_));
  for (auto& [name, sample] : samples_) {
    if (sample.by != entries_.end()) given_up_.push_back(name);
    take_back(sample);
  }
  again_ += std::ssize(given_up_) - static_cast<std::int64_t>(before);
  changed(given_up_.size() == before);
}

std::vector<bool> Ledger::try_settle(SampleNames names) {
  const MutexLock lock(mutex_);
  std::vector<bool> were_open(names.size());
  std::vector<SampleName> open;
  found_.clear();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto sample = samples_.find(names[i]);
    were_open[i] = sample != samples_.end() && !std::exchange(sample->second.is_named, true);
    if (!were_open[i]) continue;
    found_.push_back(sample);
    open.push_back(names[i]);
  }
  for (const auto& one : found_) one->second.is_named = false;
  bear_witness(open);
  for (const auto& one : found_) close(one);
  has_settled_ = true;
  changed(names.empty());
  return were_open;
}

}  // namespace rota::internal
