#include <fmt/format.h>

#include <string_view>

#include "rota/error.hpp"
#include "rota/stream_loader.hpp"

namespace rota {
namespace {

void require(bool holds, std::string_view option, std::int64_t value, std::string_view range) {
  if (holds) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("make a stream loader: {} is {}; it must be {}", option, value, range));
}

}  // namespace

void StreamLoaderOptions::validate() const {
  require(global_batch_size >= 1 && global_batch_size < (std::int64_t{1} << 31), "global_batch_size",
          global_batch_size, "1 to 2^31 - 1");
  require(epochs >= 0, "epochs", epochs, "0 or more");
  require(workers >= 0 && workers <= 4096, "workers", workers, "0 (the caller's own thread) to 4096");
  require(read_ahead_batches >= 1 && read_ahead_batches <= 65'536, "read_ahead_batches", read_ahead_batches,
          "1 to 65536");
  require(read_ahead_bytes >= 0, "read_ahead_bytes", read_ahead_bytes, "0 or more");
  require(deadline.count() >= 0, "deadline", deadline.count(), "0 (none) or more milliseconds");
}

}  // namespace rota
