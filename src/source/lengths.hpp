#pragma once

// How long the samples of a source are, known before any is read.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "ranks/node_buffer.hpp"
#include "ranks/nodes.hpp"
#include "rota/balance.hpp"
#include "rota/fingerprint.hpp"
#include "rota/source.hpp"

namespace rota::internal {

/// A view of numbers from 0 on, of 4 bytes each, or of 8 where one is 2^31 or more.
class NarrowNumbers {
 public:
  NarrowNumbers() = default;
  /// Of what `put` has written. `most`: no number is larger.
  NarrowNumbers(std::span<const std::byte> bytes, std::int64_t most) noexcept
      : bytes_(bytes.data()),
        size_(static_cast<std::int64_t>(bytes.size() / width(most))),
        is_wide_(width(most) == 8) {}

  /// Bytes of a number.
  [[nodiscard]] static constexpr std::size_t width(std::int64_t most) noexcept {
    return most >> 31 == 0 ? 4 : 8;
  }
  /// Writes number i to memory of `width` bytes for each.
  static void put(std::byte* bytes, std::size_t width, std::int64_t i, std::int64_t number) noexcept {
    // Its low bytes are first; a copy of a known size is one instruction.
    if (width == 4) {
      std::memcpy(bytes + i * 4, &number, 4);
    } else {
      std::memcpy(bytes + i * 8, &number, 8);
    }
  }

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::int64_t operator[](std::int64_t i) const noexcept {
    return is_wide_ ? get<std::int64_t>(i) : get<std::int32_t>(i);
  }

 private:
  template <typename T>
  [[nodiscard]] T get(std::int64_t i) const noexcept {
    T number;
    std::memcpy(&number, bytes_ + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return number;
  }

  const std::byte* bytes_ = nullptr;
  std::int64_t size_ = 0;
  bool is_wide_ = false;
};

/// What is asked for, and how messages call it.
struct LengthQuestion {
  static constexpr std::int64_t kMost = std::int64_t{1} << 62;  ///< rows of a sample

  std::string_view task;                    ///< begins messages: "pack documents"
  std::string_view sample = "sample";       ///< what a sample is called there
  std::string_view rows = "rows";           ///< and its rows
  std::span<const std::size_t> alike = {};  ///< more ragged fields, with as many rows in each sample
  int threads = 1;                          ///< of each rank
};

/// The rows of ragged field `field` of the `size` samples of `source`, once on each node. All ranks and
/// threads share the work: each sample is asked for once, for each field. **Collective** over `nodes`. Throws
/// on all ranks what it throws on one: as Source::rows does, Error{callback} for a number of rows that cannot
/// be, Error{mismatch} where a field of `alike` has another number, Error{io} without memory.
Lengths ask_lengths(const Source& source, std::int64_t size, std::size_t field,
                    const LengthQuestion& question, const ranks::Nodes& nodes);

/// **Collective.** Asks for the lengths that a balance takes of fields of `source`. Throws as lengths_of
/// does, and Error{not_found} for lengths of a field that there is not.
void find_lengths(const Communicator& comm, const Source& source, int threads, Balance& balance);

}  // namespace rota::internal
