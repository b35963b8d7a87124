#include <fmt/format.h>

#include "rota/error.hpp"
#include "rota/loader.hpp"

namespace rota {
namespace {

void require(bool holds, std::string_view option, std::int64_t value, std::string_view range) {
  if (!holds) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("make a loader: {} is {}; it must be {}", option, value, range));
  }
}

}  // namespace

void LoaderOptions::validate() const {
  require(global_batch_size >= 1, "global_batch_size", global_batch_size, "1 or more");
  require(shards >= 1 && shards < (std::int64_t{1} << 31), "shards", shards, "1 to 2^31 - 1");
  require(interleave >= 0, "interleave", interleave, "0 (all shards) or more");
  require(block.samples >= 1, "block.samples", block.samples, "1 or more");
  require(block.blocks >= 1, "block.blocks", block.blocks, "1 or more");
  require(epochs >= 0, "epochs", epochs, "0 or more");
  require(workers >= 0 && workers <= 4096, "workers", workers, "0 (the caller's own thread) to 4096");
  require(read_ahead_batches >= 1 && read_ahead_batches <= 65'536, "read_ahead_batches", read_ahead_batches,
          "1 to 65536");
  require(read_ahead_bytes >= 0, "read_ahead_bytes", read_ahead_bytes, "0 or more");
  require(bad_samples.max_skipped >= 0, "bad_samples.max_skipped", bad_samples.max_skipped, "0 or more");
  require(bad_samples.io_retries >= 0 && bad_samples.io_retries <= 100, "bad_samples.io_retries",
          bad_samples.io_retries, "0 to 100");
  require(bad_samples.retry_wait.count() >= 0 && bad_samples.retry_wait <= std::chrono::hours(24),
          "bad_samples.retry_wait", bad_samples.retry_wait.count(), "0 to 86400000 milliseconds");
  if (!transform.fields.empty() && !transform.apply) {
    throw Error(ErrorCode::invalid_argument,
                "make a loader: transform.fields is given without transform.apply");
  }
  for (const Field& field : transform.fields) {
    for (const std::int64_t extent : field.shape)
      require(extent >= 0, "an extent of transform.fields", extent, "0 or more");
    if (field.ragged) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("make a loader: field \"{}\" of the transform is ragged; a transform makes fields of "
                      "fixed shape only",
                      field.name));
    }
  }
}

}  // namespace rota
