#include "cli/sample_auditor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace rota::trace {
namespace {

constexpr std::int64_t kNoEnd = std::int64_t{1} << 61;

template <typename T>
std::uint64_t hash(const std::vector<T>& values) {
  return XXH3_64bits(values.data(), values.size() * sizeof(T));
}

std::int64_t padding(const Step& step) {
  std::int64_t sum = 0;
  for (const Slice& slice : step.slices) {
    if (slice.batch != nullptr) sum += std::ranges::count(slice.batch->kinds, SlotKind::pad);
  }
  return sum;
}

std::string describe(const Missing& missing, std::int64_t samples, std::int64_t dropped) {
  const auto epochs = missing.first_epoch == missing.last_epoch
                          ? fmt::format("epoch {}", missing.first_epoch)
                          : fmt::format("epochs {} to {}", missing.first_epoch, missing.last_epoch);
  std::string text = fmt::format("{} lacks {} of {} samples", epochs, missing.count, samples);
  if (dropped > 0) text += fmt::format(", where the tail may drop {}", dropped);
  if (missing.first_ids.empty()) return text;
  const bool all = missing.count == static_cast<std::int64_t>(missing.first_ids.size());
  return fmt::format("{}: {}{}", text, fmt::join(missing.first_ids, ", "), all ? "" : ", ...");
}

}  // namespace

SampleAuditor::SampleAuditor(const AuditOptions& options, const TraceStart& first, Problems& problems)
    : Auditor(options, first, problems),
      contents_(std::accumulate(first.samples.begin(), first.samples.end(), std::int64_t{0})) {
  std::int64_t first_id = 0;
  for (const std::int64_t samples : first.samples) {
    datasets_.push_back({.first_id = first_id, .samples = samples, .coverage = Coverage(samples)});
    first_id += samples;
  }
  samples_ = is_mixture() ? kNoEnd : first_id;
}

bool SampleAuditor::follows(const Position& start) const { return start == at_ || drops_to(start); }

Position SampleAuditor::after(const Step& step) const {
  const auto [epoch, consumed, number] = step.start;
  const std::int64_t end = consumed + step.n - (is_mixture() ? padding(step) : 0);
  if (samples_ <= 0) return {.epoch = epoch, .consumed = consumed, .step = number + 1};
  if (start_.tail == Tail::carry) return {epoch + end / samples_, end % samples_, number + 1};
  const bool is_last = end >= samples_ || (start_.tail == Tail::drop && samples_ - end < start_.batch);
  return is_last ? Position{epoch + 1, 0, number + 1} : Position{epoch, end, number + 1};
}

void SampleAuditor::move_to(const Position& to, bool is_gap) {
  const std::int64_t dropped = is_gap ? 0 : drops_to(to) ? left() : dropped_;
  dropped_ = 0;
  at_ = to;
  if (!is_mixture()) close_epochs(datasets_.front(), to.epoch, dropped);
}

void SampleAuditor::check(const Step& step, bool counts, bool moves) {
  check_size(step);
  for (const Slice& slice : step.slices) {
    if (slice.state != Slice::State::present) continue;
    check_share(step, slice);
    for (std::size_t i = 0; i < slice.batch->size(); ++i) check_slot(step, slice, i, counts);
  }
  for (const Slice& slice : step.slices) {  // which may repeat what another rank has read in this step
    if (slice.state != Slice::State::present) continue;
    for (std::size_t i = 0; i < slice.batch->size(); ++i) check_padding(step, slice, i, counts);
  }
  if (!counts) keep_rolled_back(step);
  if (!moves) return;
  assemble(step);
  check_rerun(step);
  report_.batches.push_back(
      {step.start, step.n, hash(canonical_.ids), hash(canonical_.kinds), hash(canonical_.digests)});
  const bool drops = start_.tail == Tail::drop && after(step).consumed == 0;
  dropped_ = drops ? std::max<std::int64_t>(samples_ - step.start.consumed - step.n, 0) : 0;
  if (!is_mixture()) return;
  for (Dataset& dataset : datasets_) close_epochs(dataset, dataset.epoch, 0);
}

void SampleAuditor::check_size(const Step& step) {
  if (short_batch_ && short_batch_->first == start_.phase) {
    add(ProblemKind::size, step, -1,
        fmt::format("a batch before this one, at {}, is short; {} only the last may be",
                    to_string(short_batch_->second), is_mixture() ? "of a mixture" : "under carry"));
  }
  short_batch_.reset();
  const std::int64_t rest = samples_ - step.start.consumed;
  if (rest <= 0) {
    add(ProblemKind::range, step, -1, fmt::format("the dataset has {} samples", samples_));
    return;
  }
  std::int64_t expected = start_.batch;
  if (start_.tail == Tail::partial) expected = std::min(expected, rest);
  const bool may_be_short = is_mixture() ? start_.tail == Tail::partial || start_.tail == Tail::carry
                                         : start_.tail == Tail::carry && after(step).consumed == 0;
  if (may_be_short && step.n > 0 && step.n < expected) {
    short_batch_ = {start_.phase, step.start};
  } else if (start_.tail == Tail::drop && rest < expected) {
    add(ProblemKind::size, step, -1,
        fmt::format("a batch where only {} samples are left; drop ends here", rest));
  } else if (step.n != expected) {
    add(ProblemKind::size, step, -1, fmt::format("{} slots, not {}", step.n, expected));
  }
}

void SampleAuditor::close_epochs(Dataset& dataset, std::int64_t before, std::int64_t dropped) {
  for (const Missing& missing : dataset.coverage.close_before(before)) {
    const std::int64_t allowed = missing.first_epoch == before - 1 ? dropped : 0;
    if (missing.count <= allowed) {
      report_.dropped += missing.count;
      continue;
    }
    const std::string of = is_mixture() ? fmt::format("dataset {}, ", &dataset - datasets_.data()) : "";
    problems_->add({.kind = ProblemKind::missing,
                    .phase = start_.phase,
                    .text = of + describe(missing, dataset.samples, allowed),
                    .count = missing.last_epoch - missing.first_epoch + 1});
  }
}

void SampleAuditor::close() {
  if (is_mixture()) {
    close_mixture();
  } else {
    close_run();
  }
}

void SampleAuditor::close_mixture() {
  for (Dataset& dataset : datasets_) {
    const std::int64_t rest = dataset.coverage.count(dataset.epoch);
    const bool is_whole = rest == dataset.samples;
    report_.datasets.push_back({.samples = dataset.samples,
                                .epochs = dataset.epoch + (is_whole ? 1 : 0),
                                .rest = is_whole ? 0 : rest});
  }
}

void SampleAuditor::close_run() {
  // Nothing more comes of an epoch whose rest is dropped.
  const Position next{.epoch = at_.epoch + 1, .consumed = 0, .step = at_.step};
  const bool is_whole = at_.consumed == 0 || drops_to(next);
  if (at_.consumed > 0 && is_whole) move_to(next, false);
  const bool has_batches = samples_ > 0 && !(start_.tail == Tail::drop && samples_ < start_.batch);
  if ((options_.complete || options_.epochs) && !is_whole) {
    problems_->add(
        {.kind = ProblemKind::unfinished,
         .text = fmt::format("the run stands at {}, in an epoch of {}", to_string(at_), samples_)});
  } else if (options_.epochs && at_.epoch != *options_.epochs && has_batches) {
    problems_->add(
        {.kind = ProblemKind::unfinished,
         .text = fmt::format("the run has {} complete epochs, not {}", at_.epoch, *options_.epochs)});
  }
}

bool SampleAuditor::drops_to(const Position& place) const {
  return start_.tail == Tail::drop && place == Position{at_.epoch + 1, 0, at_.step} && left() < start_.batch;
}

SampleAuditor::PieceKey SampleAuditor::key_of(const Step& step) const {
  const bool straddles = step.start.consumed + step.n > samples_;
  return {step.start.epoch, step.start.consumed, step.n, straddles ? static_cast<int>(start_.tail) : -1};
}

}  // namespace rota::trace
