#include "catalog/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <set>
#include <unordered_set>
#include <utility>

#include "catalog/file_names.hpp"
#include "catalog/name_ranges.hpp"
#include "catalog/progress_reporter.hpp"
#include "core/bytes.hpp"
#include "core/enumerators.hpp"
#include "core/parallel.hpp"
#include "core/wait.hpp"
#include "mpi/collectives.hpp"
#include "rota/types.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kFilesAtOnce = 256;  // that a thread takes
constexpr std::int64_t kFilesPerLook = 1024;

enum class PathKind { directory, file, glob };

PathKind kind_of(const std::string& path) {
  struct stat status {};
  if (path.empty()) throw Error(ErrorCode::invalid_argument, "open a dataset: the path is empty");
  if (::stat(path.c_str(), &status) == 0)
    return S_ISDIR(status.st_mode) ? PathKind::directory : PathKind::file;
  const int error = errno;
  const bool may_be_glob = path.find_first_of("*?[") != std::string::npos;
  if (may_be_glob && (error == ENOENT || error == ENOTDIR)) return PathKind::glob;
  throw system_error("open", path, error);
}

std::string directory_of(const std::string& path, PathKind kind) {
  switch (kind) {
    case PathKind::directory:
      return path.back() == '/' ? path : path + '/';
    case PathKind::glob:
      return fixed_directory(path);
    case PathKind::file:
      break;
  }
  return path.substr(0, path.rfind('/') + 1);
}

// The names that there are at `path`, of a storage.
Listed list_stored_path(const std::string& path, const StoredPath& stored, bool all_names,
                        const NameVisitor& visit) {
  Listed listed;
  listed.directory = list_stored(path, stored, [&](std::string_view name, const FileStat& stat) {
    // A path that is all of a name is of one file.
    if (!all_names && has_leftover(name) && !path.ends_with(name)) {
      ++listed.left_out;
      return;
    }
    visit("", name);
    listed.stats.push_back(stat);
  });
  return listed;
}

// Marks of datasets that rota has not written to their end, beside shards that a glob or a directory has.
class UnfinishedMarks {
 public:
  // Whether it is one.
  bool see(std::string_view below, std::string_view name) {
    const std::size_t begin = name.rfind('/') + 1;
    const std::string_view last = name.substr(begin);
    for (const std::string_view ending : {".tar", ".mds"}) {
      if (!last.ends_with(ending)) continue;
      const bool is_mark = last.size() == kUnfinished.size() + ending.size() && last.starts_with(kUnfinished);
      if (!is_mark && !last.starts_with(kShardStem)) continue;
      (is_mark ? found_ : marks_)
          .insert(fmt::format("{}{}{}{}", below, name.substr(0, begin), kUnfinished, ending));
      if (is_mark) return true;
    }
    return false;
  }
  void require_none(const std::string& path, const std::string& directory, const Storages& storages) {
    const bool is_glob = path.find_first_of("*?[") != std::string::npos;
    if (found_.empty() && (!is_glob || marks_.empty())) return;
    const Place place(directory, storages);
    if (is_glob) {
      for (const std::string& mark : marks_) {
        const bool is_there = place.is_stored() ? place.has_stored(mark, false)
                                                : ::faccessat(place.root().get(), mark.c_str(), F_OK, 0) == 0;
        if (is_there) found_.insert(mark);
      }
    }
    // Who writes shards and may not delete empties it.
    std::erase_if(found_, [&](const std::string& mark) { return place.ask(mark).bytes == 0; });
    if (found_.empty()) return;
    throw Error(ErrorCode::corrupt,
                fmt::format("open {}: {} says that its shards are not all written; let what writes them run "
                            "again (rota shard, write_shards), with the same options",
                            path, *found_.begin()));
  }

 private:
  std::set<std::string> found_;
  std::set<std::string> marks_;  // that there would be
};

// Puts the names that the ranges of `path` stand for, which need no list.
Listed list_ranges(const std::string& path, const NameVisitor& visit) {
  const std::size_t below = path.rfind('/', find_range(path)) + 1;
  std::unordered_set<std::string> seen;
  constexpr double kMostOfRanges = 1e7;
  if (count_names(path) > kMostOfRanges) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("open {}: its ranges name more than {} files; name them by a pattern "
                            "(Catalog::from_pattern)",
                            path, kMostOfRanges));
  }
  expand_ranges(path.substr(below), [&](const std::string& name) {
    Wait::here().check();
    if (!seen.insert(name).second) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("open {}: its ranges name {} twice; put something between them", path, name));
    }
    visit("", name);
  });
  return {path.substr(0, below)};
}

// Puts the names that there are at `path`, and returns what they are relative to.
Listed list_path(const std::string& path, const CatalogOptions& options, bool all_names,
                 const NameVisitor& visit) {
  struct stat status {};
  if (find_range(path) != std::string::npos && ::stat(path.c_str(), &status) != 0)
    return list_ranges(path, visit);
  if (const StoredPath stored = parse_stored(path, options.storages); stored.storage != nullptr)
    return list_stored_path(path, stored, all_names, visit);
  const auto has = [&](const char* ending) { return ::access((path + ending).c_str(), F_OK) == 0; };
  if (!has("") && has(".idx") && has(".bin"))  // Megatron-LM's pair
    return list_path(path + ".idx", options, all_names, visit);
  const PathKind kind = kind_of(path);
  const Place place(directory_of(path, kind), options.storages);
  const std::string& directory = place.directory();
  const int root = place.root().get();
  bool is_any = false;
  const NameVisitor note = [&](std::string_view below, std::string_view name) {
    is_any = true;
    visit(below, name);
  };
  Listed listed{directory};
  if (kind == PathKind::directory) {
    listed.left_out = walk_directory(
        root, {.shown = directory, .threads = options.listing_threads, .all_names = all_names}, note);
  } else {
    const auto names = kind == PathKind::glob ? match_glob(path) : std::vector{path.substr(directory.size())};
    for (const std::string& name : names) {
      if (kind == PathKind::glob && !all_names && has_leftover(name)) {
        ++listed.left_out;
        continue;
      }
      if (S_ISREG(stat_entry(root, name.c_str(), directory).st_mode)) note("", name);
    }
  }
  if (is_any) return listed;
  throw Error(ErrorCode::not_found,
              fmt::format("open {}: {} no regular file{}; check the path", path,
                          kind == PathKind::directory ? "the directory holds"
                          : kind == PathKind::glob    ? "the glob matches"
                                                      : "it is",
                          listed.left_out == 0 ? "" : ", but hidden or left-over ones (all_names)"));
}

}  // namespace

FileList::FileList(std::shared_ptr<const OpenContext> context, ChangeDetection change_detection,
                   const Lister& list)
    : context_(std::move(context)), change_detection_(change_detection) {
  std::vector<FileStat> stats;
  NameTable names = broadcast_names(list, stats);
  ask_stats(names, stats);
  listing_ = std::make_shared<Listing>(
      std::move(names),
      all_gather_to_nodes(context_->nodes, "hand out sizes", std::as_bytes(std::span(stats))));
}

FileList::FileList(std::shared_ptr<const OpenContext> context, const std::string& directory,
                   const NameSeries& series)
    : context_(std::move(context)),
      change_detection_(ChangeDetection::by_name),
      listing_(std::make_shared<Listing>(series)),
      names_(series.fingerprint()) {
  open_place(directory);
}

FileList::FileList(std::shared_ptr<const OpenContext> context, ChangeDetection change_detection,
                   std::shared_ptr<const Listing> listing, const ListingFacts& facts)
    : context_(std::move(context)),
      change_detection_(change_detection),
      listing_(std::move(listing)),
      names_(facts.names),
      sizes_(facts.sizes) {
  open_place(facts.directory);
  expect(facts.expected);
}

ListingFacts FileList::facts() const {
  ListingFacts facts{
      .directory = place_->absolute_directory(), .names = names_, .sizes = sizes_, .expected = {}};
  for (std::size_t i = 0; knows_samples() && i < size(); ++i) facts.expected.push_back(expected_samples(i));
  return facts;
}

// All ranks get the names while they are found, and open the place. Rank 0 gets what is known of the files.
NameTable FileList::broadcast_names(const Lister& list, std::vector<FileStat>& stats) {
  const mpi::Nodes& nodes = context_->nodes;
  std::string directory;
  const auto shared = broadcast_to_nodes(nodes, "list files", [&](const ByteSink& sink) {
    NameTableBuilder names(sink);
    ProgressReporter reporter(context_->options.progress, "list files", 0);
    Listed listed = list([&](std::string_view below, std::string_view name) {
      names.add(below, name);
      reporter.add(1);
      if (names.size() % kFilesPerLook == 0) reporter.look();
    });
    reporter.end();
    sink(names.end());
    names_ = names.digest();
    directory = std::move(listed.directory);
    left_out_ = listed.left_out;
    stats = std::move(listed.stats);
  });
  open_place(mpi::broadcast(nodes.all(), std::move(directory)));
  names_ = mpi::broadcast(nodes.all(), names_);
  return {shared.bytes, shared.owner};
}

void FileList::open_place(const std::string& directory) {
  mpi::together(context_->nodes.all(), "open the dataset's directory",
                [&] { place_ = std::make_shared<const Place>(directory, context_->options.storages); });
}

// `stats` becomes that of this rank's share of the files. Where it is known, rank 0 has all. Collective.
void FileList::ask_stats(const NameTable& names, std::vector<FileStat>& stats) {
  if (change_detection_ == ChangeDetection::by_name) return stats.clear();
  const mpi::Communicator& all = context_->nodes.all();
  const auto first_of = [&](int rank) { return share(std::ssize(names), rank, all.size()); };
  const bool is_known = mpi::broadcast(all, !stats.empty());
  const std::int64_t first = is_known ? 0 : first_of(all.rank());
  mpi::together(all, "ask for sizes", [&] {
    if (is_known) return;
    stats.resize(static_cast<std::size_t>(first_of(all.rank() + 1) - first));
    ask_stats(names, static_cast<std::size_t>(first), stats);
  });
  std::array<std::int64_t, 2> sum{};
  for (std::size_t i = 0; i < stats.size(); ++i) {
    const std::array words = {first + static_cast<std::int64_t>(i), stats[i].bytes};
    const XXH128_hash_t digest = XXH3_128bits(words.data(), sizeof(words));
    sum[0] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum[0]) + digest.high64);
    sum[1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum[1]) + digest.low64);
  }
  mpi::sum(all, sum);
  sizes_ = {.high = static_cast<std::uint64_t>(sum[0]), .low = static_cast<std::uint64_t>(sum[1])};
}

// Of the files from `first` on. The error of the first file that has one is thrown.
void FileList::ask_stats(const NameTable& names, std::size_t first, std::span<FileStat> stats) const {
  ProgressReporter reporter(context_->options.progress, "ask for sizes", std::ssize(stats));
  // A storage's answer is long on its way.
  const bool is_stored = place_->is_stored();
  const int threads = std::max(context_->options.listing_threads, is_stored ? kStoredAtOnce : 1);
  parallel_for("list files", std::ssize(stats), is_stored ? 4 : kFilesAtOnce, threads,
               [&](const LoopPart& part) {
                 NameReader reader(names);
                 for (auto i = static_cast<std::size_t>(part.begin); std::cmp_less(i, part.end); ++i) {
                   stats[i] = place_->ask(reader[first + i]);
                 }
                 reporter.add(part.end - part.begin);
                 if (part.is_callers) reporter.look();
               });
  reporter.end();
}

FileList FileList::list(const std::shared_ptr<const OpenContext>& context, ChangeDetection change_detection,
                        const std::string& path, bool all_names) {
  return {
      context, change_detection, [&](const NameVisitor& visit) {
        UnfinishedMarks marks;
        bool is_any = false;
        Listed listed =
            list_path(path, context->options, all_names, [&](std::string_view below, std::string_view name) {
              if (marks.see(below, name)) return;
              is_any = true;
              visit(below, name);
            });
        marks.require_none(path, listed.directory, context->options.storages);
        if (is_any) return listed;
        throw Error(
            ErrorCode::not_found,
            fmt::format("open {}: it has the mark of who writes shards, and no shards; let that run again",
                        path));
      }};
}

void FileList::expect(const std::vector<std::int64_t>& samples) {
  expected_ = broadcast_to_nodes(context_->nodes, "hand out numbers of samples",
                                 [&](const ByteSink& sink) { sink(std::as_bytes(std::span(samples))); });
}

std::int64_t FileList::expected_samples(std::size_t i) const noexcept {
  return expected_.bytes.empty() ? -1 : load<std::int64_t>(expected_.bytes, i * sizeof(std::int64_t));
}

// A list of files in the same directory, with changes detected by size, with what is known of files.
FileList FileList::derive(const Lister& list) const {
  FileList files(context_, ChangeDetection::by_size, list);
  files.kept_ = kept_;
  return files;
}

FileList FileList::beside(std::span<const std::string> names) const {
  return derive([&](const NameVisitor& visit) {
    for (const std::string& name : names) visit("", name);
    return Listed{directory()};
  });
}

FileList FileList::only(NameFilter passes) const {
  std::vector<std::int64_t> expected;
  std::size_t count = 0;
  const auto visit_passing = [&](const NameVisitor& visit) {
    Listed passing{directory()};
    const auto names = read_names();
    for (std::size_t i = 0; i < size(); ++i) {
      const std::string& name = (*names)[i];
      if (!passes(std::string_view(name).substr(name.rfind('/') + 1))) continue;
      visit("", name);
      ++count;
      if (change_detection_ == ChangeDetection::by_size) passing.stats.push_back(listing_->stat(i));
      if (!expected_.bytes.empty()) expected.push_back(expected_samples(i));
    }
    return passing;
  };
  visit_passing([](std::string_view, std::string_view) {});
  if (count == 0 || count == size()) return with_sizes();
  expected.clear();
  FileList files = derive(visit_passing);
  files.expect(expected);
  return files;
}

FileList FileList::with_sizes() const {
  if (change_detection_ == ChangeDetection::by_size) return *this;
  FileList files = derive([&](const NameVisitor& visit) {
    const auto names = read_names();
    for (std::size_t i = 0; i < size(); ++i) visit("", (*names)[i]);
    return Listed{directory()};
  });
  files.expected_ = expected_;
  return files;
}

Fingerprint FileList::fingerprint() const {
  FingerprintBuilder builder;
  builder.add(to_string(change_detection_)).add(static_cast<std::int64_t>(size())).add(to_string(names_));
  if (change_detection_ == ChangeDetection::by_size) builder.add(to_string(sizes_));
  return builder.finish();
}

Fingerprint FileList::fingerprint_with_times() const {
  const std::span<const std::byte> stats = listing_->stats();
  return FingerprintBuilder()
      .add(to_string(names_))
      .add(std::string_view(reinterpret_cast<const char*>(stats.data()), stats.size()))
      .finish();
}

DatasetFile FileList::open(std::size_t i, Access access) const {
  const bool is_known = change_detection_ == ChangeDetection::by_size;
  const FileStat known = is_known ? listing_->stat(i) : FileStat();
  return place_->open((*read_names())[i], i, access, is_known ? &known : nullptr);
}

DatasetFile FileList::open_unchanged(std::size_t i, Access access) const {
  DatasetFile file = open(i, access);
  if (static_cast<std::int64_t>(file.bytes()) == bytes(i)) return file;
  throw Error(
      ErrorCode::corrupt,
      fmt::format("read {}: it has {} bytes now and had {} when it was listed; restore the file, or open "
                  "the dataset anew as another one",
                  file.path(), file.bytes(), bytes(i)));
}

}  // namespace rota::internal

namespace rota {

std::string_view to_string(ChangeDetection change_detection) noexcept {
  return change_detection == ChangeDetection::by_size ? "by_size" : "by_name";
}

std::string_view to_string(Access access) noexcept {
  return internal::kAccesses[static_cast<std::size_t>(access)];
}

}  // namespace rota
