#include "source/stored_type.hpp"

#include <algorithm>
#include <utility>

namespace rota::internal {

StoredType StoredType::of(DType dtype, bool is_swapped, std::vector<std::int64_t> shape) {
  StoredType type{.bytes = size_of(dtype), .parts = {}};
  for (const std::int64_t extent : shape) type.bytes *= static_cast<std::size_t>(extent);
  type.parts.push_back(
      {.dtype = dtype, .is_swapped = is_swapped, .shape = std::move(shape), .bytes = type.bytes});
  return type;
}

bool StoredType::is_numbers() const noexcept {
  return parts.size() == 1 && !parts[0].is_long() && parts[0].bytes == bytes;
}

bool StoredType::add_to(StoredType& whole, std::string_view name, std::size_t offset,
                        const std::vector<std::int64_t>& shape) const {
  const bool is_one = std::ranges::all_of(shape, [](std::int64_t extent) { return extent == 1; });
  if (!is_one && !is_numbers()) return false;
  for (StoredPart part : parts) {
    if (!name.empty()) part.name.insert(0, name).insert(0, 1, '.');
    part.offset += offset;
    if (!part.is_long()) part.shape.insert(part.shape.begin(), shape.begin(), shape.end());
    for (const std::int64_t extent : shape) {
      if (__builtin_mul_overflow(part.bytes, static_cast<std::size_t>(extent), &part.bytes)) return false;
    }
    whole.parts.push_back(std::move(part));
  }
  return true;
}

Field StoredType::as_stored(std::string name, std::vector<std::int64_t> shape, bool ragged) const {
  const std::vector<std::int64_t> axes =
      is_numbers() ? parts[0].shape : std::vector<std::int64_t>{static_cast<std::int64_t>(bytes)};
  shape.insert(shape.end(), axes.begin(), axes.end());
  return {.name = std::move(name),
          .dtype = is_numbers() ? parts[0].dtype : DType::uint8,
          .shape = std::move(shape),
          .ragged = ragged};
}

}  // namespace rota::internal
