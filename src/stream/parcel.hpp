#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "stream/feed.hpp"
#include "stream/record_layout.hpp"

namespace rota::internal {

using Parcel = std::shared_ptr<const std::vector<std::byte>>;

/// What a parcel begins with; the records of a rank's items in a batch follow, in canonical order.
struct ParcelHead {
  std::int64_t era = 0;    // the restore that the loader goes on from
  std::int64_t kind = 0;   // a FeedHead::Kind
  std::int64_t epoch = 0;  // of the items
  std::int64_t first = 0;  // number of the batch's first item in the epoch
  std::int64_t count = 0;  // items of the batch, over all ranks
  [[nodiscard]] bool is(FeedHead::Kind other) const noexcept {
    return kind == static_cast<std::int64_t>(other);
  }
};

/// Of a parcel that comes from this program.
inline ParcelHead head_of(const Parcel& parcel) noexcept {
  ParcelHead head;
  std::memcpy(&head, parcel->data(), sizeof(head));
  return head;
}
inline ByteSpan records_of(const Parcel& parcel) noexcept {
  return ByteSpan(*parcel).subspan(sizeof(ParcelHead));
}

/// A parcel that is here, or why there is none.
struct Arrival {
  Parcel parcel;
  std::exception_ptr error;
};

/// The parcels of one rank, in order. *One thread.*
class ParcelLine {
 public:
  ParcelLine() = default;
  virtual ~ParcelLine() = default;
  ParcelLine(const ParcelLine&) = delete;
  ParcelLine& operator=(const ParcelLine&) = delete;

  /// The next one, if it is here; else null. It stays the next one until it is dropped.
  [[nodiscard]] virtual const Arrival* peek() = 0;
  /// The next one. Blocks. Throws what waiting for other ranks throws.
  [[nodiscard]] virtual const Arrival& wait() = 0;
  /// What `peek` gave is of no use any more: it was delivered, or was an error and was told.
  virtual void drop() = 0;
  virtual void add_stats(LoaderStats& stats) const = 0;
};

}  // namespace rota::internal
