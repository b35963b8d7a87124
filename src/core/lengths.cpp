#include "rota/lengths.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/failure.hpp"

namespace rota {

template <typename T>
void Lengths::take(std::span<const T> lengths) {
  const auto least = std::ranges::min_element(lengths);
  if (least != lengths.end() && *least < 0) {
    throw internal::failure(ErrorCode::invalid_argument,
                            "take lengths: that of sample {} is {}; give 0 or more for each",
                            least - lengths.begin(), *least);
  }
  size_ = std::ssize(lengths);
  most_ = lengths.empty() ? 0 : std::ranges::max(lengths);
  if constexpr (sizeof(T) == sizeof(std::int32_t))
    narrow_ = lengths.data();
  else
    wide_ = lengths.data();
  const auto digest = [](const auto& all) {
    const auto bytes = std::as_bytes(std::span(all));
    return FingerprintBuilder().add({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).finish();
  };
  // Of the narrow ones, where they could be: so that equal lengths have equal digests.
  const bool could_be_narrow = wide_ != nullptr && most_ <= std::numeric_limits<std::int32_t>::max();
  digest_ =
      could_be_narrow ? digest(std::vector<std::int32_t>(lengths.begin(), lengths.end())) : digest(lengths);
}

Lengths::Lengths(std::shared_ptr<const void> keep, std::span<const std::int64_t> lengths)
    : keep_(std::move(keep)) {
  take(lengths);
}
Lengths::Lengths(std::shared_ptr<const void> keep, std::span<const std::int32_t> lengths)
    : keep_(std::move(keep)) {
  take(lengths);
}
Lengths::Lengths(std::span<const std::int32_t> lengths) {
  auto own = std::make_shared<std::vector<std::int32_t>>(lengths.begin(), lengths.end());
  const std::span<const std::int32_t> all = *own;
  *this = Lengths(std::move(own), all);
}
Lengths::Lengths(std::span<const std::int64_t> lengths) {
  const auto is_narrow = [](std::int64_t length) {
    return length >= 0 && length <= std::numeric_limits<std::int32_t>::max();
  };
  if (std::ranges::all_of(lengths, is_narrow)) {
    auto own = std::make_shared<std::vector<std::int32_t>>(lengths.begin(), lengths.end());
    const std::span<const std::int32_t> all = *own;
    *this = Lengths(std::move(own), all);
  } else {
    auto own = std::make_shared<std::vector<std::int64_t>>(lengths.begin(), lengths.end());
    const std::span<const std::int64_t> all = *own;
    *this = Lengths(std::move(own), all);
  }
}

}  // namespace rota
