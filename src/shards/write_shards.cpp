#include "rota/write_shards.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>
#include <vector>

#include "catalog/file_names.hpp"
#include "catalog/location.hpp"
#include "core/caught.hpp"
#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "core/message.hpp"
#include "core/option.hpp"
#include "files/descriptor.hpp"
#include "files/file.hpp"
#include "files/path.hpp"
#include "rota/loader.hpp"
#include "shards/shard_encoding.hpp"
#include "source/field_check.hpp"
#include "source/read_plan.hpp"
#include "source/source_facts.hpp"

namespace rota {
namespace internal {
namespace {

constexpr std::string_view kTask = "write shards";
const std::string kIndex = "index.json";
constexpr std::string_view kTemporaryEnding = ".tmp";

/// A directory of a file system, or of a storage. Any process may have it at the same time.
class Destination {
 public:
  /// Makes the directory, if need be. Throws Error{io}, Error{not_found}.
  Destination(const std::string& path, const Storages& storages)
      : path_(plain_path(path)), storages_(storages), stored_(parse_stored(path_, storages)) {
    if (path_.empty()) throw Error(ErrorCode::invalid_argument, "write shards: name a directory for them");
    if (!path_.ends_with('/')) path_ += '/';
    if (stored_.storage == nullptr) {
      make_directory(posix_file_system(), path_);
    } else if (!stored_.name.empty() && !stored_.name.ends_with('/')) {
      stored_.name += '/';
    }
  }

  /// With a slash at the end.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// What is in it, with sizes, and of directories in it the names; nothing that begins with a dot.
  [[nodiscard]] std::map<std::string, std::uint64_t> list() const {
    std::map<std::string, std::uint64_t> found;
    list_directory(path_, storages_, "", [&](const std::string& name, const StoredFile* file) {
      if (name.empty() || name.starts_with('.')) return true;
      std::error_code is_none;
      const auto bytes = file != nullptr ? file->bytes : std::filesystem::file_size(path_ + name, is_none);
      found[name] = is_none ? 0 : bytes;
      return true;
    });
    return found;
  }

  /// Whether it holds just these bytes.
  [[nodiscard]] bool holds(const std::string& name, std::span<const std::byte> bytes) const {
    const auto file = open_file(path_ + name, storages_);
    if (!file || file->bytes() != bytes.size()) return false;
    std::vector<std::byte> found(bytes.size());
    file->read(0, found);
    return std::ranges::equal(found, bytes);
  }

  /// Makes a file, or takes its place: whole, or not at all.
  void put(const std::string& name, std::span<const std::byte> bytes) const {
    try {
      replace_file(path_ + name, bytes, storages_);
    } catch (...) {
      throw caught().as_error_of(path_ + name, fmt::format("write {}", path_ + name));
    }
  }

  /// It may be gone already.
  void remove(const std::string& name) const {
    try {
      if (stored_.storage != nullptr) return stored_.storage->remove(stored_.name + name);
      if (::unlink((path_ + name).c_str()) != 0 && errno != ENOENT)
        throw write_error("remove", path_ + name, errno);
    } catch (...) {
      throw caught().as_error_of(path_ + name, fmt::format("remove {}", path_ + name));
    }
  }

  /// Removes what processes that were killed have left of files that begin so.
  void sweep(std::initializer_list<std::string_view> stems) const {
    if (stored_.storage != nullptr) return;
    for (const std::string& name : list_names(posix_file_system(), path_)) {
      const bool is_ours = std::ranges::any_of(stems, [&](std::string_view stem) {
        return name.starts_with('.') && std::string_view(name).substr(1).starts_with(stem);
      });
      const bool is_temporary = is_ours && name.ends_with(kTemporaryEnding);
      if (is_temporary && is_dead(posix_file_system(), path_ + name)) remove(name);
    }
  }

 private:
  std::string path_;
  Storages storages_;
  StoredPath stored_;
};

/// Which samples are in which shard.
class ShardLayout {
 public:
  ShardLayout(const Source& source, const ShardEncoding& encoding, const ShardOptions& options)
      : samples_(source.size()), ending_(encoding.ending()) {
    if (samples_ == 0) {
      throw failure(ErrorCode::invalid_argument, "{}: the dataset has no samples", kTask);
    }
    const double mean = mean_bytes(source, encoding);
    per_shard_ =
        static_cast<std::int64_t>(std::clamp(static_cast<double>(options.shard_bytes) / std::max(mean, 1.0),
                                             1.0, static_cast<double>(std::min(samples_, kMaxBatchSize))));
    FingerprintBuilder own_digest;
    own_digest.add(to_string(source.fingerprint())).add(to_string(options.format)).add(per_shard_);
    own_digest.add(describe(source.fields()));
    for (const SampleContent& sample : PlannedSource::content_of(source, kSamplesOfContent))
      own_digest.add(sample.digest);
    const Fingerprint own = own_digest.finish();
    stem_ = fmt::format("{}{:08x}-", kShardStem, own.low >> 32U);
  }

  [[nodiscard]] std::int64_t samples() const noexcept { return samples_; }
  [[nodiscard]] std::int64_t per_shard() const noexcept { return per_shard_; }
  [[nodiscard]] std::int64_t shards() const noexcept { return (samples_ + per_shard_ - 1) / per_shard_; }
  [[nodiscard]] const std::string& stem() const noexcept { return stem_; }
  /// A file that says that some lack. It is named as a shard, and is none, so that nobody opens the others.
  [[nodiscard]] std::string unfinished() const { return fmt::format("{}{}", kUnfinished, ending_); }
  /// Their order is that of the shards.
  [[nodiscard]] std::string name(std::int64_t shard) const {
    return fmt::format("{}{:0{}}{}", stem_, shard,
                       std::max<std::size_t>(6, fmt::formatted_size("{}", shards() - 1)), ending_);
  }
  [[nodiscard]] std::int64_t samples_of(std::int64_t shard) const noexcept {
    return std::min(per_shard_, samples_ - shard * per_shard_);
  }

 private:
  static double mean_bytes(const Source& source, const ShardEncoding& encoding) {
    const std::int64_t count = std::min<std::int64_t>(source.size(), 4096);
    std::vector<SampleId> ids;
    for (std::int64_t i = 0; i < count; ++i) ids.push_back({share(source.size(), i, count)});
    const auto& fields = source.fields();
    std::vector<std::vector<std::int64_t>> rows(fields.size(), std::vector<std::int64_t>(ids.size(), 1));
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (fields[f].ragged) source.rows(ids, f, rows[f]);
    }
    double bytes = 0;
    std::vector<std::uint64_t> sizes(fields.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      for (std::size_t f = 0; f < fields.size(); ++f) {
        sizes[f] = static_cast<std::uint64_t>(rows[f][i]) * fields[f].row_bytes();
      }
      bytes += static_cast<double>(encoding.sample_bytes(sizes));
    }
    return bytes / static_cast<double>(count);
  }

  std::int64_t samples_;
  std::string ending_;
  std::int64_t per_shard_ = 1;
  std::string stem_;
};

/// The shards of the destination, when it was listed.
struct Found {
  std::map<std::int64_t, WrittenShard> shards = {};  // by number
  bool is_whole = false;
  bool is_complete = false;  // whole, with an index if it needs one, and without the mark
};

// Throws for a file that is none of these.
Found find_shards(const Destination& to, const ShardLayout& layout, bool has_index) {
  Found found;
  auto names = to.list();
  for (std::int64_t shard = 0; shard < layout.shards(); ++shard) {
    const auto name = names.find(layout.name(shard));
    if (name == names.end()) continue;
    // No shard is empty: another tool has not copied it yet.
    if (name->second > 0)
      found.shards[shard] = {.name = name->first, .bytes = name->second, .samples = layout.samples_of(shard)};
    names.erase(name);
  }
  const bool is_marked = names.erase(layout.unfinished()) > 0;
  const bool lacks_index = has_index && names.erase(kIndex) == 0;
  found.is_whole = std::ssize(found.shards) == layout.shards();
  found.is_complete = found.is_whole && !is_marked && !lacks_index;
  if (names.empty()) return found;
  const std::string& other = names.rbegin()->first;
  if (other.starts_with(kShardStem)) {
    throw failure(ErrorCode::mismatch,
                  "{} to {}: it has {}, of another dataset or of other options; those of this one are called "
                  "{}...; name another directory",
                  kTask, to.path(), other, layout.stem());
  }
  throw failure(ErrorCode::invalid_argument,
                "{} to {}: it has {}, which is no shard; name an empty directory", kTask, to.path(), other);
}

// Writes those of the shards [first, end) that are not there as they should be. Returns how many. A batch is
// a shard.
std::int64_t write_share(const std::shared_ptr<const Source>& source, const ShardEncoding& encoding,
                         const ShardLayout& layout, const Destination& to, const Found& found,
                         std::int64_t first, std::int64_t end, const ShardOptions& options) {
  constexpr std::string_view kMark =
      "Some shards are not written yet. Run rota shard again, with the same options.\n";
  Loader loader(source,
                {.global_batch_size = layout.per_shard(),
                 .shards = 1,
                 .interleave = 1,  // files in shared memory come one after the other
                 .shuffle = Shuffle::none,
                 .workers = options.workers,
                 .read_ahead_batches = 2},
                World{});  // each process seeks its own shards
  ProgressReporter progress(options.progress, kTask, end - first, "shards");
  const auto encoded = [&](std::int64_t shard) {
    const Position at{.epoch = 0, .consumed = shard * layout.per_shard(), .step = shard};
    if (loader.position() != at) loader.seek(at);
    const Batch batch = loader.next().value();
    return encoding.encode(batch);
  };
  std::vector<std::int64_t> lacking;
  std::vector<std::int64_t> stale;  // damaged, or of a dataset that has changed since
  for (std::int64_t shard = first; shard < end; ++shard) {
    const bool is_there = found.shards.contains(shard);
    if (is_there &&
        to.holds(layout.name(shard), std::as_bytes(std::span(std::string_view(encoded(shard)))))) {
      progress.add(1, true);
    } else {
      (is_there ? stale : lacking).push_back(shard);
    }
  }
  if (!stale.empty() || !lacking.empty()) to.put(layout.unfinished(), std::as_bytes(std::span(kMark)));
  for (const std::int64_t shard : stale) {  // first, lest another process takes them for done
    try {
      to.remove(layout.name(shard));
    } catch (const Error&) {  // perhaps it may not: another one takes its place
    }
  }
  lacking.insert(lacking.end(), stale.begin(), stale.end());
  std::ranges::sort(lacking);
  for (const std::int64_t shard : lacking) {
    to.put(layout.name(shard), std::as_bytes(std::span(std::string_view(encoded(shard)))));
    progress.add(1, true);
  }
  progress.end();
  return std::ssize(lacking);
}

// All shards are there. Any process may do it, also at the same time as others.
void finish(const ShardEncoding& encoding, const ShardLayout& layout, const Destination& to,
            const Found& found) {
  std::vector<WrittenShard> shards;
  for (const auto& [number, shard] : found.shards) shards.push_back(shard);
  const std::string index = encoding.index(shards);
  if (!index.empty()) to.put(kIndex, std::as_bytes(std::span(index)));
  to.sweep({layout.stem(), kIndex, layout.unfinished()});
  try {
    to.remove(layout.unfinished());
  } catch (const Error&) {  // perhaps it may not: a mark of no bytes marks nothing
    to.put(layout.unfinished(), {});
  }
}

}  // namespace

}  // namespace internal

std::string_view to_string(ShardOptions::Format format) noexcept {
  return internal::kShardFormats[static_cast<std::size_t>(format)];
}

void ShardOptions::validate() const {
  const internal::OptionCheck check(internal::kTask);
  check.one_of("format", format, internal::kShardFormats);
  check.in_range("shard_bytes", shard_bytes, 1);
  check.in_range("workers", workers, 0, 4096);
  world.validate();
}

ShardReport write_shards(const std::shared_ptr<const Source>& source, const std::string& destination,
                         const ShardOptions& options) {
  options.validate();
  internal::require_source(source, internal::kTask);
  (void)internal::ask_facts(*source, internal::kTask);
  const auto encoding = internal::make_encoding(options.format, source->fields());
  encoding->require(*source);
  const internal::ShardLayout layout(*source, *encoding, options);
  const internal::Destination to(destination, options.storages);
  const bool has_index = options.format == ShardOptions::Format::mds;
  internal::Found found = internal::find_shards(to, layout, has_index);
  const std::int64_t written = internal::write_share(
      source, *encoding, layout, to, found, share(layout.shards(), options.world.rank, options.world.size),
      share(layout.shards(), options.world.rank + 1, options.world.size), options);
  if (written > 0) found = internal::find_shards(to, layout, has_index);
  if (found.is_whole && !found.is_complete) internal::finish(*encoding, layout, to, found);
  ShardReport report{.samples = layout.samples(),
                     .shards = layout.shards(),
                     .there = std::ssize(found.shards),
                     .written = written,
                     .is_complete = found.is_whole};
  for (const auto& [number, shard] : found.shards) report.bytes += static_cast<std::int64_t>(shard.bytes);
  return report;
}

}  // namespace rota
