#pragma once

#include "test.hpp"

namespace rota {

/// Samples whose content says who they are, some of which are corrupt, or cannot be read at first. "x" is the
/// id plus 1; "text" is ragged where it is there, 1 to 3 bytes of that.
class FaultySource : public Source {
 public:
  FaultySource(std::int64_t size, bool is_ragged) : size_(size) {
    if (is_ragged) fields_.push_back({.name = "text", .dtype = DType::uint8, .shape = {}, .ragged = true});
  }

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] std::string where(SampleId id) const override { return "place-" + std::to_string(id.value); }
  /// Whether this sample is bad as it lies there.
  [[nodiscard]] bool is_corrupt(std::int64_t id) const {
    return corrupt.contains(id) || (fields_.size() > 1 && corrupt_sizes.contains(id));
  }
  static std::int64_t content(SampleId id) { return id.value + 1; }
  static std::int64_t text_rows(SampleId id) { return 1 + id.value % 3; }

  void rows(std::span<const SampleId> ids, std::size_t /*field*/,
            std::span<std::int64_t> out) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      out[i] = -7;  // what is left behind by one that fails
      if (corrupt_sizes.contains(ids[i].value)) throw Error(ErrorCode::corrupt, "the length is wrong");
      out[i] = text_rows(ids[i]);
    }
  }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::int64_t x = content(ids[i]);
      std::memcpy(out.bytes(0, i).data(), &x, sizeof(x));
      count(ids[i]);
      if (fields_.size() == 1) continue;
      for (std::byte& b : out.bytes(1, i)) b = static_cast<std::byte>(x);
    }
  }

  /// How often reading this sample was tried.
  [[nodiscard]] int tries(std::int64_t id) const {
    const std::scoped_lock lock(mutex_);
    const auto found = tries_.find(id);
    return found == tries_.end() ? 0 : found->second;
  }

  // Set before reading begins.
  std::set<std::int64_t> corrupt;                ///< fail in read
  std::set<std::int64_t> corrupt_sizes;          ///< fail in rows
  std::map<std::int64_t, int> io_failures = {};  ///< the first so many reads of a sample fail

 private:
  void count(SampleId id) const {
    const std::scoped_lock lock(mutex_);
    const int before = tries_[id.value]++;
    if (corrupt.contains(id.value)) throw Error(ErrorCode::corrupt, "the bytes are wrong");
    const auto found = io_failures.find(id.value);
    if (found != io_failures.end() && before < found->second) throw Error(ErrorCode::io, "no answer");
  }

  std::int64_t size_;
  std::vector<Field> fields_{{.name = "x", .dtype = DType::int64, .shape = {}, .ragged = false}};
  mutable std::mutex mutex_;
  mutable std::map<std::int64_t, int> tries_;
};

}  // namespace rota
