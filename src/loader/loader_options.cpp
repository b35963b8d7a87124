#include "rota/error.hpp"
#include "rota/loader.hpp"
#include "source/field_check.hpp"
#include "values/enumerators.hpp"
#include "values/option.hpp"

namespace rota {
namespace {

constexpr internal::OptionCheck kCheck("make a loader");

void check_transform(const Transform& transform) {
  if (transform.fields.empty()) return;
  if (!transform.apply) kCheck.refuse("transform.fields", "given", "given with transform.apply");
  internal::check_fields(transform.fields, "make a loader", "transform.fields", ErrorCode::invalid_argument);
  for (const Field& field : transform.fields) {
    if (!field.ragged) continue;
    kCheck.refuse("a field of transform.fields", "ragged (\"" + field.name + "\")", "of fixed shape");
  }
}

}  // namespace

void Allocator::validate() const {
  if (static_cast<bool>(allocate) == static_cast<bool>(release)) return;
  internal::OptionCheck("make an allocator")
      .refuse(allocate ? "release" : "allocate", "empty", "given with the other, or neither of them");
}

void BadSamples::validate() const {
  constexpr std::int64_t kDay = std::chrono::milliseconds(std::chrono::hours(24)).count();
  kCheck.one_of("bad_samples.policy", policy, {"fail", "skip"});
  kCheck.in_range("bad_samples.max_skipped", max_skipped, 0);
  kCheck.in_range("bad_samples.io_retries", io_retries, 0, 100);
  kCheck.in_range("bad_samples.deadline", deadline.count(), 0, internal::kUnbounded,
                  "milliseconds; 0 = for ever");
  kCheck.in_range("bad_samples.retry_wait", retry_wait.count(), 0, kDay, "milliseconds");
}

void LoaderOptions::validate() const {
  kCheck.in_range("global_batch_size", global_batch_size, 1, kMaxBatchSize);
  kCheck.in_range("shards", shards, 1, kMaxShards);
  kCheck.in_range("interleave", interleave, 0, internal::kUnbounded, "0 = all shards");
  kCheck.one_of("shuffle", shuffle, internal::kShuffles);
  kCheck.in_range("block.samples", block.samples, 1);
  kCheck.in_range("block.blocks", block.blocks, 1);
  kCheck.one_of("tail", tail, internal::kTails);
  kCheck.one_of("rank_split", rank_split, internal::kSplits);
  kCheck.one_of("worker_split", worker_split, internal::kSplits);
  kCheck.in_range("epochs", epochs, 0);
  kCheck.in_range("workers", workers, 0, internal::kMaxThreads, "0 = the caller's own thread");
  kCheck.in_range("read_ahead_batches", read_ahead_batches, 1, 65'536);
  kCheck.in_range("read_ahead_bytes", read_ahead_bytes, 0);
  check_transform(transform);
  allocator.validate();
  bad_samples.validate();
}

}  // namespace rota
