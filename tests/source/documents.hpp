#pragma once

// Documents whose tokens say where they stand, of all lengths.

#include "source/told_source.hpp"

namespace rota::test {

/// Token k of document d is token(d, k), or its low bytes where the type is smaller. Reads parts by itself.
class Documents : public ToldSource {
 public:
  explicit Documents(Numbers tokens, DType dtype = DType::int64)
      : ToldSource(std::ssize(tokens), {{.name = "label", .dtype = DType::uint8},
                                        {.name = "tokens", .dtype = dtype, .ragged = true}}) {
    place = "shelf ";
    reads_parts = true;
    rows_of = [tokens](SampleId id, std::size_t) { return tokens[static_cast<std::size_t>(id.value)]; };
    fill = [width = size_of(dtype)](SampleId id, std::size_t field, std::int64_t first,
                                    std::span<std::byte> to) {
      if (field == 0) to[0] = std::byte{1};
      for (std::size_t at = 0; field == 1 && at < to.size(); at += width) {
        const std::int64_t value = token(id.value, first++);
        std::memcpy(to.data() + at, &value, width);
      }
    };
  }

  static std::int64_t token(std::int64_t document, std::int64_t k) { return document << 20 | k; }
};

/// Up to `most` documents: many of no token or one, some of a few, and some that fill many sequences.
inline Numbers random_lengths(std::mt19937_64& random, std::int64_t most, std::int64_t sequence) {
  Numbers lengths(static_cast<std::size_t>(draw(random, 0, most)));
  for (std::int64_t& length : lengths) {
    const std::int64_t kind = draw(random, 0, 9);
    length = kind < 3   ? draw(random, 0, 1)
             : kind < 9 ? draw(random, 0, 2 * sequence)
                        : draw(random, 0, 100 * sequence);
  }
  return lengths;
}

}  // namespace rota::test
