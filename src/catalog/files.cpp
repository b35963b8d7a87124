#include "catalog/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <thread>

#include "rota/types.hpp"

namespace rota {

std::string_view to_string(Evidence evidence) noexcept {
  return evidence == Evidence::sizes ? "sizes" : "names";
}

namespace {

constexpr std::int64_t kNotRegular = -1;
constexpr std::int64_t kFilesPerThread = 256;  // fewer are not worth a thread

std::int64_t size_of_file(int root, const char* name, const std::string& directory) {
  const struct stat status = stat_entry(root, name, directory);
  return S_ISREG(status.st_mode) ? status.st_size : kNotRegular;
}

}  // namespace

FileList::Kind FileList::kind_of(const std::string& path) {
  struct stat status {};
  if (path.empty()) throw Error(ErrorCode::invalid_argument, "open a dataset: the path is empty");
  if (::stat(path.c_str(), &status) == 0) return S_ISDIR(status.st_mode) ? Kind::directory : Kind::file;
  const int error = errno;
  const bool may_be_glob = path.find_first_of("*?[") != std::string::npos;
  if (may_be_glob && (error == ENOENT || error == ENOTDIR)) return Kind::glob;
  throw system_error("open", path, error);
}

NameTable FileList::list_names(const std::string& path, Kind kind, const ListingOptions& options) const {
  NameTableBuilder names;
  switch (kind) {
    case Kind::directory:
      walk_directory(root_.get(), {.shown = directory_, .wanted = options.wanted, .threads = options.threads},
                     [&](std::string_view directory, std::string_view name) { names.add(directory, name); });
      break;
    case Kind::glob:
      for (const std::string& name : match_glob(path)) names.add("", name);
      break;
    case Kind::file:
      names.add("", std::string_view(path).substr(directory_.size()));
      break;
  }
  return names.finish();
}

FileList FileList::list(const std::filesystem::path& path, const ListingOptions& options) {
  const std::string& text = path.native();
  const Kind kind = kind_of(text);
  FileList files;
  files.directory_ = kind == Kind::directory ? text : fixed_directory(text);
  if (kind == Kind::directory && text.back() != '/') files.directory_ += '/';
  if (kind == Kind::file) files.directory_ = text.substr(0, text.rfind('/') + 1);
  const std::string root = files.directory_.empty() ? "." : files.directory_;
  files.root_ = open_for_reading(AT_FDCWD, root.c_str());
  if (!files.root_.is_open()) throw system_error("open", root, errno);
  files.evidence_ = options.evidence;
  files.names_ = files.list_names(text, kind, options);
  // A walk finds regular files alone, a glob all that there is.
  if (options.evidence == Evidence::sizes || kind != Kind::directory) {
    files.ask_sizes(options.threads);
    files.keep_regular_files();
  }
  if (options.evidence == Evidence::names) files.bytes_.clear();
  if (files.size() > 0) return files;
  throw Error(ErrorCode::not_found, fmt::format("open {}: {} no {}; check the path", text,
                                                kind == Kind::directory ? "the directory holds"
                                                : kind == Kind::glob    ? "the glob matches"
                                                                        : "it is",
                                                options.kind));
}

FileList FileList::beside(std::span<const std::string> names) const {
  FileList files;
  files.root_ = open_for_reading(root_.get(), ".");
  if (!files.root_.is_open()) throw system_error("open", directory_, errno);
  files.directory_ = directory_;
  NameTableBuilder builder;
  for (const std::string& name : names) {
    builder.add("", name);
    files.bytes_.push_back(ask_bytes(name));
  }
  files.names_ = builder.finish();
  return files;
}

Descriptor FileList::open(const std::string& name) const {
  Descriptor file = open_for_reading(root_.get(), name.c_str());
  if (!file.is_open()) throw system_error("open", directory_ + name, errno);
  return file;
}

std::int64_t FileList::ask_bytes(const std::string& name) const {
  const std::int64_t bytes = size_of_file(root_.get(), name.c_str(), directory_);
  if (bytes != kNotRegular) return bytes;
  throw Error(ErrorCode::io,
              fmt::format("read {}{}: it is no regular file any more; restore it", directory_, name));
}

// Shares the files out over threads; the error of the first file that has one is thrown.
void FileList::ask_sizes(int threads) {
  const auto count = static_cast<std::int64_t>(size());
  const std::int64_t parts = std::clamp<std::int64_t>(count / kFilesPerThread, 1, threads);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(parts));
  bytes_.resize(size());
  const auto ask_part = [&](std::int64_t part) noexcept {
    try {
      NameReader names(names_);
      const auto last = static_cast<std::size_t>(share(count, part + 1, parts));
      for (auto i = static_cast<std::size_t>(share(count, part, parts)); i < last; ++i) {
        bytes_[i] = size_of_file(root_.get(), names[i].c_str(), directory_);
      }
    } catch (...) {
      errors[static_cast<std::size_t>(part)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (std::int64_t part = 1; part < parts; ++part) workers.emplace_back(ask_part, part);
    ask_part(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

// Globs match directories too, and a file may have given way to something else since it was listed.
void FileList::keep_regular_files() {
  if (std::find(bytes_.begin(), bytes_.end(), kNotRegular) == bytes_.end()) return;
  NameTableBuilder kept;
  NameReader names(names_);
  for (std::size_t i = 0; i < size(); ++i) {
    if (bytes_[i] != kNotRegular) kept.add("", names[i]);
  }
  std::erase(bytes_, kNotRegular);
  names_ = kept.finish();
}

}  // namespace rota
