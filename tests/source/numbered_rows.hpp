#pragma once

// Rows whose content says which they are, in parts, and the windows over them, listed the naive way.

#include "test.hpp"

namespace rota::test {

/// Row i is "x", the number i, and "y" [3, 2], bytes that follow from it.
class NumberedRows : public Source {
 public:
  explicit NumberedRows(std::int64_t size, std::vector<std::int64_t> parts = {})
      : size_(size), parts_(std::move(parts)) {}
  /// In parts of these sizes.
  explicit NumberedRows(const std::vector<std::int64_t>& parts)
      : NumberedRows(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}), parts) {}

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override { return parts_; }
  [[nodiscard]] std::int64_t will_read(SampleId first, std::int64_t count) const override {
    return 100 * first.value + count;
  }
  [[nodiscard]] std::string where(SampleId id) const override { return "row " + std::to_string(id.value); }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::memcpy(out.bytes(0, i).data(), &ids[i].value, sizeof(std::int64_t));
      std::size_t k = 0;
      for (std::byte& byte : out.bytes(1, i)) byte = y(ids[i].value, k++);
    }
  }

  /// Byte k of "y" in row i.
  static std::byte y(std::int64_t i, std::size_t k) {
    return static_cast<std::byte>(7 * i + 3 * static_cast<std::int64_t>(k) + 1);
  }

 private:
  std::int64_t size_;
  std::vector<std::int64_t> parts_;
  std::vector<Field> fields_ = {{"x", DType::int64, {}}, {"y", DType::uint8, {3, 2}}};
};

/// The first rows of the windows over parts of these sizes.
inline std::vector<std::int64_t> naive_windows(const std::vector<std::int64_t>& parts, std::int64_t length,
                                               std::int64_t stride) {
  std::vector<std::int64_t> firsts;
  std::int64_t begin = 0;
  for (const std::int64_t part : parts) {
    for (std::int64_t i = 0; i + length <= part; i += stride) firsts.push_back(begin + i);
    begin += part;
  }
  return firsts;
}

}  // namespace rota::test
