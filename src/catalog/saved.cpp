#include "catalog/saved.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "catalog/place.hpp"
#include "catalog/serialize.hpp"
#include "core/bytes.hpp"
#include "core/caught.hpp"
#include "files/dataset_file.hpp"
#include "files/descriptor.hpp"
#include "files/temporary.hpp"

namespace rota::internal {
namespace {

// The file: magic; size and checksum of what follows; the head, packed; then what it says that there is, one
// behind the other, each filled up to a multiple of eight bytes.
constexpr std::string_view kMagic{"rota catalog\n\x1a\0\1", 16};

struct Preamble {
  std::array<char, 16> magic{};
  std::uint64_t bytes = 0;
  std::uint64_t head_bytes = 0;
  std::array<std::uint64_t, 2> digest{};
};
static_assert(sizeof(Preamble) == 48);

/// Bytes of the names of files, of what is known of them, and of what was found in them.
struct Sizes {
  std::uint64_t names = 0;
  std::uint64_t stats = 0;
  std::uint64_t index = 0;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(names, stats, index);
  }
};

struct SavedHead {
  Origin origin;
  ChangeDetection change_detection = ChangeDetection::by_size;
  Sizes files;
  std::map<std::string, Sizes> indices;
  std::string format;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(origin, change_detection, files, indices, format);
  }
};

std::array<std::uint64_t, 2> digest_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t digest = XXH3_128bits(bytes.data(), bytes.size());
  return {digest.high64, digest.low64};
}

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
  to.resize(filled_up(to.size()));
}

Sizes append(std::vector<std::byte>& to, const Listing& files) {
  append(to, files.names().bytes());
  append(to, files.stats());
  return {.names = files.names().bytes().size(), .stats = files.stats().size(), .index = 0};
}

[[noreturn]] void fail_damaged(const std::string& path) {
  throw Error(ErrorCode::corrupt,
              fmt::format("load the catalog {}: it is damaged or cut short; make it anew", path));
}

/// A file of a storage, if it is there.
std::optional<DatasetFile> open_stored(const StoredPath& at) {
  try {
    auto file = at.storage->find(at.name);
    return file ? std::optional<DatasetFile>(std::in_place, at.path, 0, at.storage, *std::move(file))
                : std::nullopt;
  } catch (...) {
    throw caught().as_error_of(at.path, fmt::format("ask for {}", at.path));
  }
}

NodeBuffer read_whole(const std::string& path, const Storages& storages) {
  if (const StoredPath stored = parse_stored(path, storages); stored.storage != nullptr) {
    const auto file = open_stored(stored);
    if (!file) throw Error(ErrorCode::not_found, fmt::format("load the catalog {}: it is gone", path));
    auto bytes = std::make_shared<std::vector<std::byte>>(file->bytes());
    file->read(0, *bytes);
    return {.bytes = *bytes, .owner = bytes};
  }
  const Descriptor file = open_for_reading(AT_FDCWD, path.c_str());
  const std::int64_t size = file.is_open() ? size_of_open(file.get()) : -1;
  if (size < 0) throw system_error("open", path, errno);
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(size));
  const std::int64_t got = read_at(file.get(), *bytes, 0);
  if (got < 0) throw Error(ErrorCode::io, system_error("read", path, errno).what());
  bytes->resize(static_cast<std::size_t>(got));
  return {.bytes = *bytes, .owner = bytes};
}

// What follows the preamble, and how many bytes of it are the head.
std::pair<std::span<const std::byte>, std::uint64_t> check_content(const std::string& path,
                                                                   std::span<const std::byte> whole) {
  if (whole.size() < sizeof(Preamble)) fail_damaged(path);
  const auto preamble = load<Preamble>(whole);
  if (preamble.magic.back() != kMagic.back()) {
    throw Error(ErrorCode::unsupported,
                fmt::format("load the catalog {}: it is of version {}, and this rota reads {}; make it anew",
                            path, static_cast<int>(preamble.magic.back()), static_cast<int>(kMagic.back())));
  }
  const auto content = whole.subspan(sizeof(preamble));
  if (content.size() != preamble.bytes || digest_of(content) != preamble.digest) fail_damaged(path);
  return {content, preamble.head_bytes};
}

}  // namespace

std::vector<std::byte> encode_catalog(const SavedCatalog& catalog) {
  SavedHead head{.origin = catalog.origin,
                 .change_detection = catalog.change_detection,
                 .files = {},
                 .indices = {},
                 .format = catalog.format};
  std::vector<std::byte> body;
  head.files = append(body, *catalog.files);
  for (const auto& [signature, index] : catalog.indices) {
    Sizes sizes = append(body, index->files());
    append(body, index->bytes());
    sizes.index = index->bytes().size();
    head.indices.emplace(signature, sizes);
  }
  std::vector<std::byte> packed_head = serialize(head);
  Preamble preamble{.head_bytes = packed_head.size()};
  std::copy(kMagic.begin(), kMagic.end(), preamble.magic.begin());
  packed_head.resize(filled_up(packed_head.size()));
  std::vector<std::byte> bytes(sizeof(preamble));
  append(bytes, packed_head);
  append(bytes, body);
  const auto content = std::span<const std::byte>(bytes).subspan(sizeof(preamble));
  preamble.bytes = content.size();
  preamble.digest = digest_of(content);
  store(bytes, 0, preamble);
  return bytes;
}

SavedCatalog parse_catalog(const std::string& path, const NodeBuffer& whole) {
  auto [rest, head_bytes] = check_content(path, whole.bytes);
  const auto take = [&path, &whole, &rest = rest](std::uint64_t bytes) {
    if (bytes > rest.size() || filled_up(bytes) > rest.size()) fail_damaged(path);
    NodeBuffer part{.bytes = rest.first(bytes), .owner = whole.owner};
    rest = rest.subspan(filled_up(bytes));
    return part;
  };
  const auto take_files = [&](const Sizes& sizes, bool has_stats) {
    const NodeBuffer names = take(sizes.names);
    NameTable table(names.bytes, names.owner);
    if (sizes.stats != (has_stats ? table.size() * sizeof(FileStat) : 0)) fail_damaged(path);
    return std::make_shared<Listing>(std::move(table), take(sizes.stats));
  };
  const auto head = deserialize<SavedHead>(take(head_bytes).bytes);
  SavedCatalog catalog{.origin = head.origin,
                       .change_detection = head.change_detection,
                       .files = take_files(head.files, head.change_detection == ChangeDetection::by_size),
                       .indices = {},
                       .format = head.format};
  for (const auto& [signature, sizes] : head.indices) {
    auto files = take_files(sizes, true);
    catalog.indices.emplace(signature, std::make_shared<FileIndex>(std::move(files), take(sizes.index)));
  }
  return catalog;
}

bool is_saved_catalog(const std::string& path, const Storages& storages) {
  std::array<char, kMagic.size()> head{};
  const std::span<std::byte> into = std::as_writable_bytes(std::span(head));
  if (const StoredPath stored = parse_stored(local_path(path), storages); stored.storage != nullptr) {
    const auto file = path.ends_with(kStoredCatalogEnding) ? open_stored(stored) : std::nullopt;
    if (file) static_cast<void>(file->read_up_to_end(0, into));
  } else {
    struct stat status {};
    const std::string local = local_path(path);
    if (::stat(local.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
    const Descriptor file = open_for_reading(AT_FDCWD, local.c_str());
    if (!file.is_open()) return false;  // whoever lists it says why
    static_cast<void>(read_at(file.get(), into, 0));
  }
  const std::string_view of_any_version(head.data(), head.size() - 1);
  return of_any_version == kMagic.substr(0, kMagic.size() - 1);
}

std::optional<std::uint64_t> bytes_of_saved(const std::string& path, const Storages& storages) {
  if (const StoredPath stored = parse_stored(path, storages); stored.storage != nullptr) {
    const auto file = open_stored(stored);
    return file ? std::optional(file->bytes()) : std::nullopt;
  }
  std::error_code failure;
  const bool is_there = std::filesystem::exists(path, failure);
  if (failure) throw write_error("index to", path, failure.value());
  return is_there ? std::optional(std::filesystem::file_size(path, failure)) : std::nullopt;
}

namespace {

// Whether glob `pattern` matches the file at `to`, or would if it were there.
bool would_match(const std::string& pattern, const std::filesystem::path& to) {
  const std::string fixed = fixed_directory(pattern);
  std::error_code ignored;
  const std::string below = to.lexically_relative(std::filesystem::weakly_canonical(fixed, ignored)).native();
  return ::fnmatch(pattern.c_str() + fixed.size(), below.c_str(), FNM_PATHNAME) == 0;
}

[[noreturn]] void refuse(const std::filesystem::path& file) {
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("write {}: it would be one of the dataset's files; name another place", file.native()));
}

}  // namespace

void refuse_irregular(const std::filesystem::path& file) {
  std::error_code ignored;
  const auto status = std::filesystem::symlink_status(file, ignored);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("save a catalog to {}: {} is there, which it would replace; name another place",
                  file.native(),
                  std::filesystem::is_symlink(status) ? "a symbolic link" : "what is no regular file"));
}

void refuse_inside(const std::filesystem::path& file, const Origin& origin) {
  if (file.native().find("://") != std::string::npos) {  // as a URL stands for a prefix, too
    const bool is_glob = ::fnmatch(origin.path.c_str(), file.c_str(), FNM_PATHNAME) == 0;
    const std::string below = origin.path.ends_with('/') ? origin.path : origin.path + '/';
    if (is_glob || file.native().starts_with(below)) refuse(file);
    return;
  }
  std::error_code ignored;
  const auto absolute = std::filesystem::absolute(file, ignored);
  const auto from = std::filesystem::weakly_canonical(origin.path, ignored);
  const bool is_directory = std::filesystem::is_directory(from, ignored);
  const auto to = std::filesystem::weakly_canonical(absolute.parent_path(), ignored) / file.filename();
  const bool is_below =
      is_directory && std::mismatch(from.begin(), from.end(), to.begin(), to.end()).first == from.end();
  if (is_below || to == from || would_match(origin.path, to)) refuse(file);
}

void refuse_in_place_of(const std::filesystem::path& file, const FileList& files) {
  struct stat place {};
  if (::stat(file.c_str(), &place) != 0) return;
  NameReader names(files.listing().names());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string& name = names[i];
    if (std::string_view(name).substr(name.rfind('/') + 1) != file.filename().native()) continue;
    struct stat listed {};
    if (::fstatat(files.place().root().get(), name.c_str(), &listed, 0) != 0) continue;
    if (listed.st_dev == place.st_dev && listed.st_ino == place.st_ino) refuse(file);
  }
}

void write_catalog(const std::filesystem::path& path, const SavedCatalog& catalog, const Storages& storages) {
  const std::vector<std::byte> bytes = encode_catalog(catalog);
  if (const StoredPath stored = parse_stored(path.native(), storages); stored.storage != nullptr) {
    try {
      return stored.storage->write(
          stored.name, bytes.size(), [&](std::uint64_t offset, std::span<std::byte> to) {
            std::ranges::copy(std::span(bytes).subspan(offset, to.size()), to.begin());
          });
    } catch (...) {
      throw caught().as_error(fmt::format("save a catalog to {}", path.native()));
    }
  }
  const FileSystem& system = posix_file_system();
  const std::string beside = fmt::format("{}.{:08x}.tmp", path.native(), std::random_device()());
  const auto above = path.has_parent_path() ? path.parent_path() : ".";
  try {
    const File directory(system, above.native(), O_RDONLY | O_DIRECTORY);
    Temporary file(system, beside);
    file.file().write(0, bytes);
    file.replace(path, directory);
  } catch (const Error& error) {
    throw Error(ErrorCode::io, fmt::format("save a catalog to {}: {}", path.native(), error.what()));
  }
}

SavedCatalog read_catalog(const std::string& path, const Storages& storages) {
  return parse_catalog(path, read_whole(path, storages));
}

CatalogChanges compare(const Listing& before, const Listing& now) {
  CatalogChanges changes;
  if (before == now) return changes;
  const bool has_stats = !before.stats().empty() && !now.stats().empty();
  std::unordered_map<std::string, std::size_t> known;
  NameReader names(before.names());
  for (std::size_t i = 0; i < before.size(); ++i) known.emplace(names[i], i);
  const auto note = [&](std::int64_t& count, const std::string& name) {
    if (!changes.any()) changes.first = name;
    ++count;
  };
  const auto note_loss = [&](std::int64_t& count, const std::string& name) {
    if (changes.resized + changes.vanished == 0) changes.first = name;
    ++count;
  };
  NameReader found(now.names());
  for (std::size_t i = 0; i < now.size(); ++i) {
    const auto place = known.find(found[i]);
    if (place == known.end()) {
      note(changes.appeared, found[i]);
      continue;
    }
    if (has_stats && before.stat(place->second) != now.stat(i)) {
      note(changes.changed, found[i]);
      if (before.stat(place->second).bytes != now.stat(i).bytes) note_loss(changes.resized, found[i]);
    }
    known.erase(place);
  }
  for (const auto& [name, i] : known) note_loss(changes.vanished, name);
  return changes;
}

namespace {

// Whoever opens a dataset does not take what is left of a catalog for a sample.
bool is_to_be_loaded(const std::string& path, const Storages& storages) {
  if (is_saved_catalog(path, storages)) return true;
  std::error_code unknown;
  const bool is_damaged = path.ends_with(kStoredCatalogEnding) &&
                          std::filesystem::is_regular_file(path, unknown) &&
                          ::access(path.c_str(), R_OK) == 0;
  if (!is_damaged) return false;
  throw Error(
      ErrorCode::corrupt,
      fmt::format("open {}: it is named as a saved catalog, and does not begin as one: it is damaged; save "
                  "it anew (\"rota index --force\", Catalog::save)",
                  path));
}

}  // namespace

std::optional<SavedCatalog> load_catalog(const OpenContext& context, const std::string& path) {
  const Storages& storages = context.options.storages;
  if (context.nodes.all().size() == 1)  // which needs no copy
    return is_to_be_loaded(path, storages) ? std::optional(read_catalog(path, storages)) : std::nullopt;
  const NodeBuffer whole = broadcast_to_nodes(context.nodes, "open a dataset", [&](const ByteSink& sink) {
    if (is_to_be_loaded(path, storages)) sink(read_whole(path, storages).bytes);
  });
  if (whole.bytes.empty()) return std::nullopt;
  return made_together(context, "load a catalog", [&] { return parse_catalog(path, whole); });
}

}  // namespace rota::internal
