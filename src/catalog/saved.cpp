#include "catalog/saved.hpp"

#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "catalog/open_context.hpp"
#include "core/bytes.hpp"
#include "core/failure.hpp"
#include "files/path.hpp"

namespace rota::internal {
namespace {

// The file: magic; size and checksum of what follows; the head, serialized; then what it says that there is,
// one behind the other, each filled up to a multiple of eight bytes.
constexpr std::string_view kStoredEnding = ".rota";  // of catalogs in storages
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
  std::string format;
  Sizes files = {};
  std::map<std::string, Sizes> indices = {};

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
  throw failure(ErrorCode::corrupt, "load the catalog {}: it is damaged or cut short; make it anew", path);
}

NodeBuffer read_whole(const std::string& path, const Storages& storages) {
  const auto file = open_file(path, storages);
  if (!file) throw failure(ErrorCode::not_found, "load the catalog {}: it is gone", path);
  auto bytes = std::make_shared<std::vector<std::byte>>(file->bytes());
  file->read(0, *bytes);
  return {.bytes = *bytes, .owner = bytes};
}

// What follows the preamble, and how many bytes of it are the head.
std::pair<std::span<const std::byte>, std::uint64_t> check_content(const std::string& path,
                                                                   std::span<const std::byte> whole) {
  if (whole.size() < sizeof(Preamble)) fail_damaged(path);
  const auto preamble = load<Preamble>(whole);
  if (preamble.magic.back() != kMagic.back()) {
    throw failure(ErrorCode::unsupported,
                  "load the catalog {}: it is of version {}, and this rota reads {}; make it anew", path,
                  static_cast<int>(preamble.magic.back()), static_cast<int>(kMagic.back()));
  }
  const auto content = whole.subspan(sizeof(preamble));
  if (content.size() != preamble.bytes || digest_of(content) != preamble.digest) fail_damaged(path);
  return {content, preamble.head_bytes};
}

}  // namespace

std::vector<std::byte> encode_catalog(const CatalogContents& catalog, const std::string& format) {
  const KeptIndices::Kept kept = catalog.files.kept().get();
  SavedHead head{.origin = catalog.origin,
                 .change_detection = catalog.files.change_detection(),
                 .format = format == "auto" ? kept.format : format};
  std::vector<std::byte> body;
  head.files = append(body, catalog.files.listing());
  for (const auto& [signature, index] : kept.indices) {
    Sizes sizes = append(body, index->files());
    append(body, index->bytes());
    sizes.index = index->bytes().size();
    head.indices.emplace(signature, sizes);
  }
  std::vector<std::byte> head_bytes = serialize(head);
  Preamble preamble{.head_bytes = head_bytes.size()};
  std::copy(kMagic.begin(), kMagic.end(), preamble.magic.begin());
  head_bytes.resize(filled_up(head_bytes.size()));
  std::vector<std::byte> bytes(sizeof(preamble));
  append(bytes, head_bytes);
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
                       .kept = {.indices = {}, .format = head.format}};
  for (const auto& [signature, sizes] : head.indices) {
    auto files = take_files(sizes, true);
    catalog.kept.indices.emplace(signature, std::make_shared<FileIndex>(std::move(files), take(sizes.index)));
  }
  return catalog;
}

bool is_saved_catalog(const std::string& path, const Storages& storages) {
  struct stat status {};
  const bool may_be = parse_stored(path, storages).storage != nullptr
                          ? path.ends_with(kStoredEnding)
                          : ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
                                ::access(path.c_str(), R_OK) == 0;  // who lists it says why
  std::array<char, kMagic.size()> head{};
  const auto file = may_be ? open_file(path, storages) : std::nullopt;
  if (file) (void)file->read_up_to_end(0, std::as_writable_bytes(std::span(head)));
  const std::string_view of_any_version(head.data(), head.size() - 1);
  return of_any_version == kMagic.substr(0, kMagic.size() - 1);
}

namespace {

// Whether glob `pattern` matches the file at `to`, or would if it were there.
bool would_match(const std::string& pattern, const std::filesystem::path& to) {
  const std::string fixed = fixed_directory(pattern);
  std::error_code ignored;
  const auto below = to.lexically_relative(std::filesystem::weakly_canonical(fixed, ignored));
  return matches_glob(std::string_view(pattern).substr(fixed.size()), below.native());
}

[[noreturn]] void refuse(const std::filesystem::path& file) {
  throw failure(ErrorCode::invalid_argument,
                "write {}: it would be one of the dataset's files; name another file", file.native());
}

// Whoever opens a dataset does not take what is left of a catalog for a sample.
bool is_to_be_loaded(const std::string& path, const Storages& storages) {
  if (is_saved_catalog(path, storages)) return true;
  std::error_code unknown;
  const bool is_damaged = path.ends_with(kStoredEnding) && std::filesystem::is_regular_file(path, unknown) &&
                          ::access(path.c_str(), R_OK) == 0;
  if (!is_damaged) return false;
  throw failure(ErrorCode::corrupt,
                "open {}: it is named as a saved catalog, and does not begin as one: it is damaged; save it "
                "anew (\"rota index --force\", or save of a catalog)",
                path);
}

}  // namespace

void refuse_inside(const std::filesystem::path& file, const Origin& origin) {
  const bool is_url = !scheme_of(file.native()).empty();
  if (is_url != !scheme_of(origin.path).empty()) return;
  if (is_url) {  // as a URL stands for a prefix, too
    const std::string below = origin.path.ends_with('/') ? origin.path : origin.path + '/';
    if (matches_glob(origin.path, file.native()) || file.native().starts_with(below)) refuse(file);
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

void require_savable(const std::filesystem::path& file, const Origin& origin, const Storages& storages) {
  refuse_inside(file, origin);
  std::error_code ignored;
  const bool is_stored = parse_stored(file.native(), storages).storage != nullptr;
  const auto status = std::filesystem::symlink_status(file, ignored);
  const bool is_free = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  if (is_stored ? file.native().ends_with(kStoredEnding) : is_free) return;
  throw failure(ErrorCode::invalid_argument, "save a catalog to {}: {}; name another file", file.native(),
                is_stored ? "in a storage, names of catalogs end in .rota"
                : std::filesystem::is_symlink(status)
                    ? "a symbolic link is there, which it would replace"
                    : "what is no regular file is there, which it would replace");
}

void refuse_in_place_of(const std::filesystem::path& file, const FileList& files) {
  struct stat there {};
  if (files.location().is_stored() || ::stat(file.c_str(), &there) != 0) return;
  NameReader names(files.listing().names());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string& name = names[i];
    if (std::string_view(name).substr(name.rfind('/') + 1) != file.filename().native()) continue;
    struct stat listed {};
    if (::fstatat(files.location().root().get(), name.c_str(), &listed, 0) != 0) continue;
    if (listed.st_dev == there.st_dev && listed.st_ino == there.st_ino) refuse(file);
  }
}

SavedCatalog read_catalog(const std::string& path, const Storages& storages) {
  return parse_catalog(path, read_whole(path, storages));
}

CatalogChanges compare(const Listing& before, const Listing& now) {
  CatalogChanges changes;
  if (before == now) return changes;
  const bool has_stats = !before.stats().empty() && !now.stats().empty();
  auto known = before.numbers();
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
    const auto same = known.find(found[i]);
    if (same == known.end()) {
      note(changes.appeared, found[i]);
      continue;
    }
    if (has_stats && before.stat(same->second) != now.stat(i)) {
      note(changes.changed, found[i]);
      if (before.stat(same->second).bytes != now.stat(i).bytes) note_loss(changes.resized, found[i]);
    }
    known.erase(same);
  }
  for (const auto& [name, i] : known) note_loss(changes.vanished, name);
  return changes;
}

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

namespace {

// The bytes: magic, digest of what follows, what is sent.
constexpr std::string_view kSentMagic{"rota files\n\x1a\0\0\0\3", 16};
constexpr std::size_t kContent = kSentMagic.size() + sizeof(Fingerprint);

struct Sent {
  ListingFacts facts;
  CatalogChanges changes;
  std::vector<std::byte> saved;  // the catalog as it would be saved
  std::string pattern = {};      // of names that are computed; empty: they are in a table
  NameSeries series = {};        // without its pattern

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(facts, changes, pattern, series.files, series.folders, series.layout, saved);
  }
};

[[noreturn]] void refuse_sent(std::string_view why) {
  throw failure(ErrorCode::corrupt,
                "make a catalog of bytes: {}; take those that this version's serialize() made", why);
}

// The names that are computed. Throws for numbers that make none.
Listing series_of(const Sent& sent) {
  NameSeries series = sent.series;
  series.pattern = NamePattern(sent.pattern);
  PatternOptions{.files = series.files, .folders = series.folders, .layout = series.layout}.validate();
  const bool is_restart = series.layout == FolderLayout::restart;
  if (series.folders < 1 || (is_restart && series.files % series.folders != 0))
    refuse_sent("its files cannot be shared out to its folders");
  return Listing(std::move(series));
}

}  // namespace

std::string encode_sent(const CatalogContents& catalog) {
  const FileList& files = catalog.files;
  Sent sent{.facts = files.facts(), .changes = catalog.changes, .saved = encode_catalog(catalog)};
  if (files.listing().is_computed()) {
    sent.series = files.listing().series();
    sent.pattern = sent.series.pattern.text();
  }
  const std::string content = to_blob(sent);
  const Fingerprint digest = FingerprintBuilder().add(content).finish();
  std::string bytes(kSentMagic);
  bytes.append(reinterpret_cast<const char*>(&digest), sizeof(digest));
  return bytes + content;
}

CatalogContents parse_sent(const std::shared_ptr<const OpenContext>& context, std::string_view bytes) {
  if (bytes.size() < kContent || !bytes.starts_with(kSentMagic))
    refuse_sent("they do not begin as such bytes");
  const std::string_view content = bytes.substr(kContent);
  const auto digest = load<Fingerprint>(std::as_bytes(std::span(bytes.substr(kSentMagic.size()))));
  if (FingerprintBuilder().add(content).finish() != digest) refuse_sent("they are damaged or cut short");
  Sent sent;
  SavedCatalog saved;
  try {
    sent = from_blob<Sent>(content);
    const auto owned = std::make_shared<const std::vector<std::byte>>(std::move(sent.saved));
    saved = parse_catalog("of bytes", {.bytes = *owned, .owner = owned});
    if (!sent.pattern.empty()) saved.files = std::make_shared<const Listing>(series_of(sent));
  } catch (const Error& error) {
    refuse_sent(error.what());
  }
  const std::size_t expected = sent.facts.samples.size();
  if (expected != 0 && expected != saved.files->size()) refuse_sent("they expect samples of other files");
  FileList files(context, saved.change_detection, saved.files, sent.facts);
  files.kept().change([&](auto& kept) { kept = std::move(saved.kept); });
  return {.files = std::move(files), .origin = std::move(saved.origin), .changes = std::move(sent.changes)};
}

}  // namespace rota::internal
