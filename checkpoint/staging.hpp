#pragma once

// Copies of tensors, for a save in the background to work on.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace rota::checkpoint {

/// Memory for the copies, kept from save to save: fresh memory costs more than the copy. *One thread.*
class Staging {
 public:
  /// A copy of `bytes` as the copy number `index`, valid until the next of that number.
  [[nodiscard]] std::span<const std::byte> copy(std::size_t index, std::span<const std::byte> bytes);

 private:
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t capacity = 0;
  };
  std::vector<Buffer> buffers_;
};

}  // namespace rota::checkpoint
