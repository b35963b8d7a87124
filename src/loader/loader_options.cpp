#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/enumerators.hpp"
#include "core/option.hpp"
#include "order/run_order.hpp"
#include "rota/error.hpp"
#include "rota/loader.hpp"
#include "source/field_check.hpp"

namespace rota {
namespace {

constexpr internal::OptionCheck kCheck("make a loader");

template <typename Function>
void check_function(std::string_view option, const Function& function) {
  const std::string fields = fmt::format("{} fields", option);
  if (!function.fields.empty() && !function.apply) {
    kCheck.refuse(option, "missing", fmt::format("a function, for there are {}", fields));
  }
  internal::check_fields(function.fields, "make a loader", fields, ErrorCode::invalid_argument);
}

constexpr std::chrono::milliseconds kDay = std::chrono::hours(24);

// Does not compile until it names each option: a new one has other places, too (ARCHITECTURE, "To add an
// option").
[[maybe_unused]] void know_every_option(const LoaderOptions& options) {
  [[maybe_unused]] const auto& [global_batch_size, shards, interleave, shuffle, seed, block, tail, rank_split,
                                balance, worker_split, epochs, plan, evaluation, settle, open_limit, workers,
                                read_ahead_batches, read_ahead_bytes, deadline, slow_after, on_slow,
                                transform, collate, allocator, bad_samples] = options;
}

}  // namespace

void Allocator::validate() const {
  if (static_cast<bool>(allocate) == static_cast<bool>(release)) return;
  internal::OptionCheck("make an allocator")
      .refuse(allocate ? "release" : "allocate", "empty", "given with the other, or neither of them");
}

void BadSamples::validate() const {
  kCheck.one_of("policy", policy, internal::kPolicies);
  kCheck.in_range("max_skipped", max_skipped, 0);
  kCheck.in_range("io_retries", io_retries, 0, 100);
  kCheck.in_range("retry_wait", retry_wait, kDay);
}

RunOptions LoaderOptions::run() const {
  return {.global_batch_size = global_batch_size,
          .shards = shards,
          .interleave = interleave,
          .shuffle = shuffle,
          .seed = seed,
          .block = block,
          .tail = tail,
          .epochs = epochs,
          .plan = plan};
}

void LoaderOptions::validate() const {
  RunOptions own = run();
  if (shards == kFileShards || shards == kUnitShards) own.shards = 0;  // a run is told their lengths
  internal::check(own, kCheck);
  kCheck.one_of("rank_split", rank_split, internal::kSplits);
  kCheck.one_of("worker_split", worker_split, internal::kSplits);
  if (worker_split == Split::balanced) kCheck.refuse("worker_split", "balanced", "another: that is of ranks");
  if (rank_split == Split::balanced) {
    balance.validate();
  } else if (balance != Balance()) {
    kCheck.refuse("rank_split", to_string(rank_split), "balanced where a balance is given");
  }
  const bool loses = tail == Tail::drop || tail == Tail::carry;
  if (evaluation && (epochs != 1 || loses)) {
    kCheck.refuse("evaluation", "true", "false unless epochs is 1, and tail partial or pad");
  }
  if (evaluation && !plan.empty()) kCheck.refuse("evaluation", "true", "false where there is a plan");
  kCheck.one_of("settle", settle, internal::kSettles);
  kCheck.in_range("open_limit", open_limit, 1);
  if (evaluation && settle == Settle::by_hand)
    kCheck.refuse("settle", "by_hand", "at_delivery in an evaluation, which keeps no place");
  kCheck.in_range("workers", workers, 0, internal::kMaxThreads, "0 = the caller's own thread");
  kCheck.in_range("read_ahead_batches", read_ahead_batches, 1, 65'536);
  kCheck.in_range("read_ahead_bytes", read_ahead_bytes, 0);
  kCheck.in_range("deadline", deadline, internal::kUnboundedTime, "0 = for ever");
  kCheck.in_range("slow_after", slow_after, kDay, "0 = never");
  check_function("transform", transform);
  check_function("collate", collate);
  if (collate.apply && collate.fields.empty()) {
    kCheck.refuse("collate", "without fields", "given with the fields of the batch that it makes");
  }
  allocator.validate();
  bad_samples.validate();
}

}  // namespace rota
