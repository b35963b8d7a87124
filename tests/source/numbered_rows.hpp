#pragma once

// Rows whose content says which they are, in parts, and the windows over them, listed the naive way.

#include "order/permutation.hpp"
#include "source/told_source.hpp"

namespace rota::test {

/// Row i is "x", the number i, and "y" [3, 2], bytes that follow from it.
class NumberedRows : public ToldSource {
 public:
  explicit NumberedRows(std::int64_t size, Numbers sizes = {})
      : ToldSource(size, {{"x", DType::int64, {}}, {"y", DType::uint8, {3, 2}}}) {
    place = "row ";
    parts = std::move(sizes);
    on_will_read = [](SampleId first, std::int64_t count) { return 100 * first.value + count; };
    fill = [](SampleId id, std::size_t field, std::int64_t, std::span<std::byte> to) {
      if (field == 0) std::memcpy(to.data(), &id.value, sizeof(id.value));
      for (std::size_t k = 0; field == 1 && k < to.size(); ++k) to[k] = y(id.value, k);
    };
  }
  /// In parts of these sizes.
  explicit NumberedRows(const Numbers& sizes)
      : NumberedRows(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), sizes) {}

  /// Byte k of "y" in row i.
  static std::byte y(std::int64_t i, std::size_t k) {
    return static_cast<std::byte>(7 * i + 3 * static_cast<std::int64_t>(k) + 1);
  }
};

/// The first rows of the windows over parts of these sizes.
inline Numbers naive_windows(const Numbers& parts, std::int64_t length, std::int64_t stride) {
  Numbers firsts;
  std::int64_t begin = 0;
  for (const std::int64_t part : parts) {
    for (std::int64_t i = 0; i + length <= part; i += stride) firsts.push_back(begin + i);
    begin += part;
  }
  return firsts;
}

/// A window as a plain loop finds it: its own row, its rows, and which of these are there.
struct NaiveWindow {
  std::int64_t own;
  Numbers rows;
  std::string is_real;
  std::int64_t end;  // of its part
};
inline std::vector<NaiveWindow> naive_windows(const Numbers& parts, const WindowOptions& options) {
  const Numbers offsets = options.offsets.empty() ? numbers_from(0, options.length) : options.offsets;
  std::vector<NaiveWindow> made;
  std::int64_t begin = 0;
  for (const std::int64_t part : parts) {
    for (std::int64_t own = 0; own < part; own += options.stride) {
      NaiveWindow window{.own = begin + own, .rows = {}, .is_real = {}, .end = begin + part};
      for (const std::int64_t offset : offsets) {
        const std::int64_t row = own + offset;
        window.rows.push_back(begin + (row < 0 ? 0 : row >= part ? part - 1 : row));
        window.is_real += static_cast<char>(row >= 0 && row < part);
      }
      const bool is_whole = window.is_real.find('\0') == std::string::npos;
      if (is_whole || options.edges == Edges::clamp) made.push_back(window);
    }
    begin += part;
  }
  return made;
}

/// The same as they are moved in an epoch: each is one of those of a stride of 1 that are near.
inline std::vector<NaiveWindow> naive_windows(const Numbers& parts, WindowOptions options,
                                              std::int64_t epoch) {
  std::vector<NaiveWindow> made = naive_windows(parts, options);
  options.stride = 1;
  const std::vector<NaiveWindow> all = naive_windows(parts, options);
  for (std::size_t i = 0; i < made.size(); ++i) {
    std::vector<NaiveWindow> near;
    for (const NaiveWindow& other : all) {
      if (other.end == made[i].end && std::abs(other.own - made[i].own) <= options.jitter)
        near.push_back(other);
    }
    const auto key = derive_key(options.seed, epoch, Purpose::jitter, static_cast<std::int64_t>(i)).low;
    made[i] = near[static_cast<std::size_t>(std::ldexp(static_cast<double>(key >> 11U), -53) *
                                            static_cast<double>(near.size()))];
  }
  return made;
}

}  // namespace rota::test
