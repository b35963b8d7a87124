#include "rota/open.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "rota/error.hpp"
#include "source/formats.hpp"

namespace rota {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";

bool is_all_hdf5(const FileList& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!has_hdf5_signature(files, i)) return false;
  }
  return true;
}

}  // namespace

bool has_hdf5_signature(const FileList& files, std::size_t i) {
  const Descriptor file = files.open(i);
  const auto end = static_cast<std::uint64_t>(files.bytes(i));
  for (std::uint64_t offset = 0; offset + kSignature.size() <= end; offset = offset == 0 ? 512 : offset * 2) {
    std::array<char, kSignature.size()> found{};
    if (read_at(file.get(), std::as_writable_bytes(std::span(found)), offset) < 0) {
      throw system_error("read", files.path(i), errno);
    }
    if (std::string_view(found.data(), found.size()) == kSignature) return true;
  }
  return false;
}

std::unique_ptr<const Source> open(const std::filesystem::path& path, const std::string& format) {
  if (format == "files") return open_files(path);
  if (format == "hdf5") return open_hdf5(path);
  if (format != "auto") {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("open {}: there is no format \"{}\"; use \"auto\", \"files\" or \"hdf5\"",
                            path.native(), format));
  }
  FileList files = FileList::list(path, {});
  return is_all_hdf5(files) ? make_hdf5_source(std::move(files), {}) : make_files_source(std::move(files));
}

}  // namespace rota
