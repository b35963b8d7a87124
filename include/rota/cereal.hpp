#pragma once

// Blobs of any type that cereal can serialise. Next: checkpoint.hpp.

#include <algorithm>
#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

#include "rota/error.hpp"

namespace rota {

/// `value` as bytes for `Snapshot::blob`. Include cereal's headers for the types in it.
template <typename T>
std::string to_blob(const T& value) {
  std::ostringstream stream(std::ios::binary);
  cereal::PortableBinaryOutputArchive(stream,
                                      cereal::PortableBinaryOutputArchive::Options::LittleEndian())(value);
  return std::move(stream).str();
}

namespace internal {

/// Reads the little-endian output of cereal::PortableBinaryOutputArchive. It trusts no length: a container
/// cannot have more elements than bytes are left. *One thread.*
class BlobArchive : public cereal::InputArchive<BlobArchive, cereal::AllowEmptyClassElision> {
 public:
  explicit BlobArchive(std::string_view bytes) : InputArchive(this), rest_(bytes) {
    std::uint8_t is_little_endian = 0;
    read(std::as_writable_bytes(std::span(&is_little_endian, 1)));
    if (is_little_endian != 1) fail("they do not begin as to_blob begins");
  }

  void read(std::span<std::byte> out) {
    if (out.size() > rest_.size()) fail("they end early");
    std::ranges::copy(std::as_bytes(std::span(rest_.substr(0, out.size()))), out.begin());
    rest_.remove_prefix(out.size());
  }
  void check_length(std::uint64_t elements) const {
    if (elements > rest_.size()) fail("a length in them is more than they could hold");
  }
  void check_end() const {
    if (!rest_.empty()) fail("bytes are left over; it holds another type");
  }
  [[noreturn]] static void fail(const char* why) {
    throw Error(ErrorCode::corrupt, std::string("decode a blob: ") + why);
  }

 private:
  std::string_view rest_;
};

// What cereal calls for the parts of a value.

template <typename T>
requires std::is_arithmetic_v<T>
void CEREAL_LOAD_FUNCTION_NAME(BlobArchive& archive, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    std::uint8_t byte = 0;
    CEREAL_LOAD_FUNCTION_NAME(archive, byte);
    if (byte > 1) BlobArchive::fail("a bool in them is neither true nor false");
    value = byte == 1;
  } else {
    archive.read(std::as_writable_bytes(std::span(&value, 1)));
  }
}
template <typename T>
void CEREAL_LOAD_FUNCTION_NAME(BlobArchive& archive, cereal::NameValuePair<T>& pair) {
  archive(pair.value);
}
template <typename T>
void CEREAL_LOAD_FUNCTION_NAME(BlobArchive& archive, cereal::SizeTag<T>& tag) {
  archive(tag.size);
  archive.check_length(tag.size);
}
template <typename T>
void CEREAL_LOAD_FUNCTION_NAME(BlobArchive& archive, cereal::BinaryData<T>& data) {
  archive.read({static_cast<std::byte*>(data.data), static_cast<std::size_t>(data.size)});
}

}  // namespace internal

/// The value of bytes that `to_blob` made of the same T. Throws Error{corrupt} for other bytes, whatever
/// cereal throws. Memory is bounded by the size of `bytes` times the size of the largest element. So a
/// container of elements without bytes cannot be read.
template <typename T>
T from_blob(std::string_view bytes) {
  try {
    internal::BlobArchive archive(bytes);
    T value{};
    archive(value);
    archive.check_end();
    return value;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {  // not the fault of the bytes
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::corrupt, std::string("decode a blob: ") + error.what());
  }
}

}  // namespace rota

// Its output archive, for types that are saved as another type, and for classes behind pointers.
template <>
struct cereal::traits::detail::get_output_from_input<rota::internal::BlobArchive> {
  using type = cereal::PortableBinaryOutputArchive;  // NOLINT(readability-identifier-naming): cereal's name
};
CEREAL_REGISTER_ARCHIVE(rota::internal::BlobArchive)
