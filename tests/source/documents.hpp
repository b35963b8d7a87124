#pragma once

// Documents whose tokens say where they stand, of all lengths.

#include "test.hpp"

namespace rota::test {

/// Token k of document d is token(d, k), or its low bytes where the type is smaller. Reads parts by itself,
/// and counts what it reads.
class Documents : public Source {
 public:
  explicit Documents(std::vector<std::int64_t> lengths, DType dtype = DType::int64)
      : lengths_(std::move(lengths)),
        fields_{{.name = "label", .dtype = DType::uint8},
                {.name = "tokens", .dtype = dtype, .shape = {}, .ragged = true}} {}

  static std::int64_t token(std::int64_t document, std::int64_t k) { return document << 20 | k; }

  [[nodiscard]] std::int64_t size() const override { return std::ssize(lengths_); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] const std::vector<std::int64_t>& lengths() const { return lengths_; }
  [[nodiscard]] std::string where(SampleId id) const override { return "shelf " + std::to_string(id.value); }

  void rows(std::span<const SampleId> ids, std::size_t /*field*/,
            std::span<std::int64_t> out) const override {
    check_ids(*this, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) out[i] = lengths_[static_cast<std::size_t>(ids[i].value)];
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      out.bytes(0, i)[0] = std::byte{1};
      put({.id = ids[i],
           .first = 0,
           .count = lengths_[static_cast<std::size_t>(ids[i].value)],
           .to = out.bytes(1, i).data()});
    }
  }
  void read_rows(std::span<const SampleRows> wanted, std::size_t /*field*/) const override {
    check_ids(*this, wanted);
    for (const SampleRows& part : wanted) {
      check_rows(part, lengths_[static_cast<std::size_t>(part.id.value)]);
      put(part);
    }
  }

  mutable std::atomic<std::int64_t> tokens_read = 0;

 private:
  void put(const SampleRows& part) const {
    const std::size_t token_bytes = size_of(fields_[1].dtype);
    for (std::int64_t k = 0; k < part.count; ++k) {
      const std::int64_t value = token(part.id.value, part.first + k);
      std::memcpy(part.to + static_cast<std::size_t>(k) * token_bytes, &value, token_bytes);
    }
    tokens_read += part.count;
  }

  std::vector<std::int64_t> lengths_;
  std::vector<Field> fields_;
};

/// Up to `most` documents: many of no token or one, some of a few, and some that fill many sequences.
inline std::vector<std::int64_t> random_lengths(std::mt19937_64& random, std::int64_t most,
                                                std::int64_t sequence) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(draw(0, most)));
  for (std::int64_t& length : lengths) {
    const std::int64_t kind = draw(0, 9);
    length = kind < 3 ? draw(0, 1) : kind < 9 ? draw(0, 2 * sequence) : draw(0, 100 * sequence);
  }
  return lengths;
}

}  // namespace rota::test
