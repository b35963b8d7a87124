#include "rota/open.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "rota/error.hpp"
#include "source/formats.hpp"

namespace rota {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";

constexpr auto kFormats = {"auto", "files", "hdf5",   "tfrecord", "tar", "lines",
                           "npy",  "npz",   "tokens", "megatron", "mds"};

// Such a directory has other files, too.
bool is_mds(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path / "index.json", error)) return false;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".mds") return true;
  }
  return false;
}

template <typename Test>
bool all_of(const FileList& files, Test&& test) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!test(files, i)) return false;
  }
  return true;
}

bool is_json_lines(const FileList& files, std::size_t i) {
  const std::string path = files.path(i);
  return path.ends_with(".jsonl") || path.ends_with(".ndjson");
}

bool is_empty(const FileList& files, std::size_t i) { return files.bytes(i) == 0; }

// A TFRecord file without records is empty.
bool is_tfrecord_or_empty(const FileList& files, std::size_t i) {
  return is_empty(files, i) || is_tfrecord(files, i);
}

std::string format_of(const FileList& files) {
  if (all_of(files, has_hdf5_signature)) return "hdf5";
  if (all_of(files, is_tfrecord_or_empty) && !all_of(files, is_empty)) return "tfrecord";
  if (all_of(files, is_tar)) return "tar";
  if (all_of(files, is_npy)) return "npy";
  return all_of(files, is_json_lines) ? "lines" : "files";
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
  if (std::find(kFormats.begin(), kFormats.end(), format) == kFormats.end()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("open {}: there is no format \"{}\"; use one of \"{}\"", path.native(), format,
                            fmt::join(kFormats, "\", \"")));
  }
  if (format == "hdf5") return open_hdf5(path);
  if (format == "megatron") return open_megatron(path);
  if (format == "npz") return open_npz(path);
  if (format == "mds" || (format == "auto" && is_mds(path))) return open_mds(path);
  FileList files = FileList::list(path, {});
  const std::string known = format == "auto" ? format_of(files) : format;
  if (known == "hdf5") return make_hdf5_source(std::move(files), {});
  if (known == "tfrecord") return make_tfrecord_source(std::move(files), {});
  if (known == "tar") return make_tar_source(std::move(files), {});
  if (known == "lines") return make_lines_source(std::move(files), {});
  if (known == "npy") return make_npy_source(std::move(files), {});
  if (known == "tokens") return make_tokens_source(std::move(files), {});
  return make_files_source(std::move(files));
}

}  // namespace rota
