#pragma once

// What formats find in files, as bytes, by cereal.

#include <cereal/archives/binary.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <cstddef>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog/crew.hpp"
#include "rota/error.hpp"

namespace rota {

template <typename T>
std::vector<std::byte> pack(const T& value) {
  std::ostringstream stream;
  cereal::BinaryOutputArchive archive(stream);
  archive(value);
  const std::string text = std::move(stream).str();
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

/// The other way round, of bytes whose checksum is known to be right. Throws Error{corrupt} where they are
/// not what pack made.
template <typename T>
T unpack(std::span<const std::byte> bytes) {
  std::istringstream stream(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  T value;
  try {
    cereal::BinaryInputArchive archive(stream);
    archive(value);
  } catch (const cereal::Exception&) {
    throw Error(ErrorCode::corrupt, "read an index of files: it is damaged; index the files again");
  }
  return value;
}

/// **Collective** over `crew`. What `make` returns on rank 0, on all. Throws on all what it throws.
template <typename Make>
auto made_on_first_rank(const Crew& crew, std::string_view phase, Make&& make) {
  const std::string packed = crew.on_first_rank(phase, [&] {
    const std::vector<std::byte> bytes = pack(make());
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  return unpack<decltype(make())>(std::as_bytes(std::span(packed)));
}

}  // namespace rota
