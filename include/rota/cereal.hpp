#pragma once

// Blobs of anything that cereal can serialise. Next: resume.hpp.

#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>

#include "rota/error.hpp"

namespace rota {

/// `value` as bytes for `Snapshot::blob`, little-endian on any machine. Include cereal's header for its
/// parts' types.
template <typename T>
std::string to_blob(const T& value) {
  std::ostringstream stream(std::ios::binary);
  cereal::PortableBinaryOutputArchive(stream,
                                      cereal::PortableBinaryOutputArchive::Options::LittleEndian())(value);
  return std::move(stream).str();
}

/// The value behind bytes made by `to_blob` of the same T. Throws Error{corrupt} where they are not, whatever
/// cereal throws then. Lengths in `bytes` are taken at their word: read only what a checkpoint has verified.
template <typename T>
T from_blob(std::string_view bytes) {
  try {
    std::istringstream stream(std::string(bytes), std::ios::binary);
    cereal::PortableBinaryInputArchive archive(stream);
    T value{};
    archive(value);
    if (stream.peek() != std::istringstream::traits_type::eof()) {
      throw Error(ErrorCode::corrupt, "decode a blob: bytes are left over; it holds another type");
    }
    return value;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // also of a length that no memory has room for
    throw Error(ErrorCode::corrupt, std::string("decode a blob: ") + error.what());
  }
}

}  // namespace rota
