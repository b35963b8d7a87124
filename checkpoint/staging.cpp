#include "staging.hpp"

#include <cstring>

namespace rota::checkpoint {

std::span<const std::byte> Staging::copy(std::size_t index, std::span<const std::byte> bytes) {
  if (buffers_.size() <= index) buffers_.resize(index + 1);
  Buffer& buffer = buffers_[index];
  if (buffer.capacity < bytes.size()) {
    buffer = {};
    buffer = {.bytes = std::make_unique_for_overwrite<std::byte[]>(bytes.size()), .capacity = bytes.size()};
  }
  if (!bytes.empty()) std::memcpy(buffer.bytes.get(), bytes.data(), bytes.size());
  return {buffer.bytes.get(), bytes.size()};
}

}  // namespace rota::checkpoint
