#include "loader/skip_counter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "core/caught.hpp"
#include "core/failure.hpp"
#include "loader/ledger.hpp"

namespace rota::internal {
namespace {

// So many bad samples before the first good one are not the samples' fault.
constexpr std::int64_t kMostBeforeGood = 100;

std::unique_ptr<ranks::DeferredReduction> sum_over(const Communicator& comm,
                                                   std::chrono::milliseconds deadline) {
  return std::make_unique<ranks::DeferredReduction>(comm, ranks::Reduction::sum, deadline,
                                                    "count bad samples");
}

}  // namespace

SkipCounter::SkipCounter(const Communicator& comm, const LoaderOptions& options)
    : skips_(options.bad_samples.policy == BadSamples::Policy::skip),
      max_skipped_(options.bad_samples.max_skipped),
      deadline_(options.deadline),
      sum_(sum_over(comm, deadline_)) {}

// ---- the steps ----

void SkipCounter::begin_step() {
  if (!skips_) return;
  judge(!is_reported_ && sum_->is_under_way() ? hear() : Report{});
}

void SkipCounter::end_run() {
  if (!skips_ || std::exchange(is_over_, true)) return;
  if (!is_reported_) report({});
  is_reported_ = false;
  judge(hear());
}

void SkipCounter::judge(const Report& others) const {
  if (agreed_ > max_skipped_) {
    throw_too_many(fmt::format("{} are skipped, and max_skipped is {}", agreed_, max_skipped_));
  }
  if (is_none_good_) throw_too_many(fmt::format("all of the first {} are bad", agreed_ - before_));
  if (others.failed == 0) return;
  const bool is_one = others.failed == 1;
  throw Error(
      is_one ? static_cast<ErrorCode>(others.code) : ErrorCode::callback,
      fmt::format("read with other ranks: {} could not read the batch of the step before; {}",
                  is_one ? fmt::format("rank {}", others.rank) : fmt::format("{} ranks", others.failed),
                  is_one ? "its own error says why" : "their own errors say why"));
}

std::int64_t SkipCounter::end_step(const BatchMemory& batch) {
  std::int64_t skipped = 0;
  good_ += std::ranges::count(batch.kinds, SlotKind::sample);
  for (std::size_t slot = 0; slot < batch.bad.size(); ++slot) {
    if (!batch.bad[slot] || batch.kinds[slot] != SlotKind::skipped) continue;
    ++skipped;
    if (skipped_.samples.size() < kMostListed) skipped_.samples.push_back(*batch.bad[slot]);
  }
  since_ += skipped;
  skipped_.by_this_rank += skipped;
  skipped_.count += skipped;
  if (skips_ && !is_reported_) report({});
  is_reported_ = false;
  return skipped;
}

void SkipCounter::fail_step(const std::exception_ptr& error) {
  if (!skips_ || is_reported_) return;
  report({.failed = 1, .rank = sum_->comm().rank(), .code = static_cast<std::int64_t>(caught(error).code)});
  is_reported_ = true;
}

// ---- the count ----

void SkipCounter::report(Report report) {
  mine_ = report;
  told_ = since_;
  mine_.skipped = sum_->comm().world().replica == 0 ? told_ : 0;
  mine_.good = good_;
  sum_->begin({mine_.skipped, mine_.failed, mine_.rank, mine_.code, mine_.good});
}

// What the other ranks have told, this one's share taken off.
SkipCounter::Report SkipCounter::hear() {
  const auto sum = sum_->end();
  if (std::exchange(is_stale_, false)) return {};
  const Report all{.skipped = sum[0], .failed = sum[1], .rank = sum[2], .code = sum[3]};
  agreed_ = before_ + all.skipped;
  is_none_good_ = all.skipped >= kMostBeforeGood && sum[4] == 0;
  skipped_.count = agreed_ + since_ - told_;
  return {.skipped = all.skipped - mine_.skipped,
          .failed = all.failed - mine_.failed,
          .rank = all.rank - mine_.rank,
          .code = all.code - mine_.code};
}

void SkipCounter::count_with(const Communicator& comm) {
  is_reported_ = false;
  try {
    if (sum_->is_under_way()) static_cast<void>(hear());
  } catch (const Error&) {  // ranks of then are gone; what they skipped in their last step comes again
  }
  before_ = agreed_;
  since_ -= std::exchange(told_, 0);
  is_none_good_ = false;
  mine_ = {};
  sum_ = sum_over(comm, deadline_);
  comm.max(std::span(&before_, 1));
  agreed_ = before_;
  skipped_.count = before_ + since_;
}

void SkipCounter::restore(SkippedSamples skipped) {
  skipped_ = std::move(skipped);
  before_ = agreed_ = skipped_.count;
  since_ = told_ = good_ = 0;
  is_none_good_ = false;
  mine_ = {};
  is_stale_ = sum_->is_under_way();
}

// On all ranks alike: the lowest that has a sample to show says which.
void SkipCounter::throw_too_many(const std::string& how_many) const {
  const std::string what = fmt::format("skip bad samples: {}", how_many);
  const std::string advice = "mend the data or the transform, or allow more";
  std::exception_ptr error;
  if (!skipped_.samples.empty()) {
    const SkippedSamples::Sample& first = skipped_.samples.front();
    error = std::make_exception_ptr(Error(
        ErrorCode::corrupt,
        fmt::format("{}; {}. The first: sample {}{} in epoch {}: {}", what, advice, first.id.value,
                    first.where.empty() ? "" : fmt::format(" ({})", first.where), first.epoch, first.error)));
  }
  sum_->agree(error);
  throw failure(ErrorCode::corrupt, "{}; {}", what, advice);
}

}  // namespace rota::internal
