#include "rota/stream_loader.hpp"
#include "values/option.hpp"

namespace rota {

void StreamLoaderOptions::validate() const {
  constexpr internal::OptionCheck kCheck("make a stream loader");
  kCheck.in_range("global_batch_size", global_batch_size, 1, kMaxBatchSize);
  kCheck.in_range("epochs", epochs, 0);
  kCheck.in_range("workers", workers, 0, internal::kMaxThreads, "0 = the caller's own thread");
  kCheck.in_range("read_ahead_batches", read_ahead_batches, 1, 65'536);
  kCheck.in_range("read_ahead_bytes", read_ahead_bytes, 0);
  kCheck.in_range("deadline", deadline.count(), 0, internal::kUnbounded, "milliseconds; 0 = never");
  allocator.validate();
}

}  // namespace rota
