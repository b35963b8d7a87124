#pragma once

#include "test.hpp"

namespace rota {

/// Samples whose content says who they are: "x" is the id twice, "text" is ragged, the id modulo 7 bytes
/// long.
class CountingSource : public Source {
 public:
  explicit CountingSource(std::int64_t size, std::vector<std::int64_t> lengths = {})
      : size_(size), lengths_(std::move(lengths)) {}

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] std::string where(SampleId id) const override { return "place-" + std::to_string(id.value); }
  [[nodiscard]] std::vector<std::int64_t> shard_lengths(std::int64_t /*shards*/) const override {
    return lengths_;
  }

  void rows(std::span<const SampleId> ids, std::size_t /*field*/,
            std::span<std::int64_t> out) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (on_size) on_size(ids[i]);
      out[i] = ids[i].value % 7;
    }
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (on_read) on_read(ids[i]);
      const std::int64_t x[2] = {ids[i].value, ids[i].value};
      std::memcpy(out.bytes(0, i).data(), x, sizeof(x));
      for (std::byte& b : out.bytes(1, i)) b = static_cast<std::byte>(ids[i].value);
    }
    reads += static_cast<std::int64_t>(ids.size());
  }

  std::function<void(SampleId)> on_read;
  std::function<void(SampleId)> on_size;
  mutable std::atomic<std::int64_t> reads = 0;

 private:
  std::int64_t size_;
  std::vector<std::int64_t> lengths_;
  std::vector<Field> fields_{{.name = "x", .dtype = DType::int64, .shape = {2}, .ragged = false},
                             {.name = "text", .dtype = DType::uint8, .shape = {}, .ragged = true}};
};

}  // namespace rota
