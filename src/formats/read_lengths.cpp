#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "core/failure.hpp"
#include "files/dataset_file.hpp"
#include "files/descriptor.hpp"
#include "formats/numpy.hpp"
#include "rota/lengths.hpp"

namespace rota {

Lengths read_lengths(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    throw internal::failure(ErrorCode::invalid_argument, "read lengths: the path has a zero byte");
  internal::Descriptor descriptor = internal::open_for_reading(AT_FDCWD, path.c_str());
  if (!descriptor.is_open()) throw internal::system_error("open", path, errno);
  const auto file = std::make_shared<const internal::DatasetFile>(
      internal::DatasetFile::map(path, 0, std::move(descriptor)));
  std::uint64_t at = 0;
  const auto header = internal::read_npy_header(*file, 0, file->bytes(), [&](std::span<std::byte> to) {
    file->read(std::exchange(at, at + to.size()), to);
  });
  const auto all = [&]<typename T>(T /*number*/) {
    const auto* first = reinterpret_cast<const T*>(file->memory() + header.data_at);
    return Lengths(file, std::span(first, static_cast<std::size_t>(header.shape.front())));
  };
  const bool is_list = header.shape.size() == 1 && header.type.parts.size() == 1 &&
                       header.type == internal::StoredType::of(header.type.parts.front().dtype);
  const DType dtype = is_list ? header.type.parts.front().dtype : DType::uint8;
  if (dtype == DType::int32 && header.data_at % sizeof(std::int32_t) == 0) return all(std::int32_t{});
  if (dtype == DType::int64 && header.data_at % sizeof(std::int64_t) == 0) return all(std::int64_t{});
  throw internal::failure(ErrorCode::unsupported,
                          "read lengths of {}: it holds {}; save an array of one dimension, of int32 or "
                          "int64 in this machine's byte order, by numpy.save",
                          path, describe(header));
}

}  // namespace rota
