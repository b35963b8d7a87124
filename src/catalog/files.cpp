#include "catalog/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <utility>

#include "catalog/progress_reporter.hpp"
#include "mpi/collectives.hpp"
#include "rota/types.hpp"
#include "values/bytes.hpp"
#include "values/enumerators.hpp"
#include "values/parallel.hpp"

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

Descriptor open_root(const std::string& directory) {
  const std::string root = directory.empty() ? "." : directory;
  Descriptor opened = open_for_reading(AT_FDCWD, root.c_str());
  if (!opened.is_open()) throw system_error("open", root, errno);
  return opened;
}

// Puts the names that there are at `path`, and returns what they are relative to.
std::string list_path(const std::string& path, const CatalogOptions& options, const NameVisitor& visit) {
  const PathKind kind = kind_of(path);
  std::string directory = directory_of(path, kind);
  const Descriptor root = open_root(directory);
  bool is_any = false;
  const NameVisitor note = [&](std::string_view below, std::string_view name) {
    is_any = true;
    visit(below, name);
  };
  if (kind == PathKind::directory) {
    walk_directory(root.get(), {.shown = directory, .threads = options.listing_threads}, note);
  } else {
    const auto names = kind == PathKind::glob ? match_glob(path) : std::vector{path.substr(directory.size())};
    for (const std::string& name : names) {
      if (S_ISREG(stat_entry(root.get(), name.c_str(), directory).st_mode)) note("", name);
    }
  }
  if (is_any) return directory;
  throw Error(ErrorCode::not_found, fmt::format("open {}: {} no regular file; check the path", path,
                                                kind == PathKind::directory ? "the directory holds"
                                                : kind == PathKind::glob    ? "the glob matches"
                                                                            : "it is"));
}

}  // namespace

FileList::FileList(std::shared_ptr<const OpenContext> context, ChangeDetection change_detection,
                   const Lister& list)
    : context_(std::move(context)), change_detection_(change_detection) {
  NameTable names = broadcast_names(list);
  open_directory();
  const auto stats = ask_stats(names);
  listing_ = std::make_shared<Listing>(
      std::move(names),
      all_gather_to_nodes(context_->nodes, "hand out sizes", std::as_bytes(std::span(stats))));
}

FileList::FileList(std::shared_ptr<const OpenContext> context, std::string directory,
                   const NameSeries& series)
    : context_(std::move(context)),
      change_detection_(ChangeDetection::by_name),
      directory_(std::move(directory)),
      listing_(std::make_shared<Listing>(series)),
      names_(series.fingerprint()) {
  open_directory();
}

FileList::FileList(std::shared_ptr<const OpenContext> context, ChangeDetection change_detection,
                   std::shared_ptr<const Listing> listing, const ListingFacts& facts)
    : context_(std::move(context)),
      change_detection_(change_detection),
      directory_(facts.directory),
      listing_(std::move(listing)),
      names_(facts.names),
      sizes_(facts.sizes) {
  open_directory();
  expect(facts.expected);
}

ListingFacts FileList::facts() const {
  ListingFacts facts{
      .directory = absolute_path(directory_), .names = names_, .sizes = sizes_, .expected = {}};
  for (std::size_t i = 0; knows_samples() && i < size(); ++i) facts.expected.push_back(expected_samples(i));
  return facts;
}

// All ranks get the names while they are found.
NameTable FileList::broadcast_names(const Lister& list) {
  const mpi::Nodes& nodes = context_->nodes;
  const auto shared = broadcast_to_nodes(nodes, "list files", [&](const ByteSink& sink) {
    NameTableBuilder names(sink);
    ProgressReporter reporter(context_->options.progress, "list files", 0);
    directory_ = list([&](std::string_view below, std::string_view name) {
      names.add(below, name);
      reporter.add(1);
      if (names.size() % kFilesPerLook == 0) reporter.look();
    });
    reporter.end();
    sink(names.end());
    names_ = names.digest();
  });
  directory_ = mpi::broadcast(nodes.all(), std::move(directory_));
  mpi::broadcast(nodes.all(), std::as_writable_bytes(std::span(&names_, 1)));
  return {shared.bytes, shared.owner};
}

void FileList::open_directory() {
  mpi::together(context_->nodes.all(), "open the dataset's directory",
                [&] { root_ = std::make_shared<const Descriptor>(open_root(directory_)); });
}

// Of this rank's share of the files. Collective.
std::vector<FileStat> FileList::ask_stats(const NameTable& names) {
  std::vector<FileStat> stats;
  if (change_detection_ == ChangeDetection::by_name) return stats;
  const mpi::Communicator& all = context_->nodes.all();
  const auto first_of = [&](int rank) { return share(std::ssize(names), rank, all.size()); };
  const std::int64_t first = first_of(all.rank());
  mpi::together(all, "ask for sizes", [&] {
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
  return stats;
}

// Of the files from `first` on. The error of the first file that has one is thrown.
void FileList::ask_stats(const NameTable& names, std::size_t first, std::span<FileStat> stats) const {
  ProgressReporter reporter(context_->options.progress, "ask for sizes", std::ssize(stats));
  parallel_for("list files", std::ssize(stats), kFilesAtOnce, context_->options.listing_threads,
               [&](const LoopPart& part) {
                 NameReader reader(names);
                 for (auto i = static_cast<std::size_t>(part.begin); std::cmp_less(i, part.end); ++i) {
                   stats[i] = ask_stat(reader[first + i]);
                 }
                 reporter.add(part.end - part.begin);
                 if (part.is_callers) reporter.look();
               });
  reporter.end();
}

FileStat FileList::ask_stat(const std::string& name) const {
  const struct stat status =
      stat_entry(root_->get(), name.c_str(), name.starts_with('/') ? std::string_view() : directory_);
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  if (S_ISREG(status.st_mode)) {
    return {.bytes = status.st_size,
            .written = status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec};
  }
  throw Error(ErrorCode::io,
              fmt::format("read {}: it is no regular file; restore it, or leave it out", path(name)));
}

FileList FileList::list(const std::shared_ptr<const OpenContext>& context, ChangeDetection change_detection,
                        const std::string& path) {
  return {context, change_detection,
          [&](const NameVisitor& visit) { return list_path(path, context->options, visit); }};
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
    return directory_;
  });
}

FileList FileList::only(NameFilter passes) const {
  std::vector<std::int64_t> expected;
  std::size_t count = 0;
  const auto visit_passing = [&](const NameVisitor& visit) {
    const auto names = read_names();
    for (std::size_t i = 0; i < size(); ++i) {
      const std::string& name = (*names)[i];
      if (!passes(std::string_view(name).substr(name.rfind('/') + 1))) continue;
      visit("", name);
      ++count;
      if (!expected_.bytes.empty()) expected.push_back(expected_samples(i));
    }
    return directory_;
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
    return directory_;
  });
  files.expected_ = expected_;
  return files;
}

std::string FileList::path(const std::string& name) const {
  return name.starts_with('/') ? name : directory_ + name;
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

Descriptor FileList::open(const std::string& name) const {
  Descriptor file = open_for_reading(root_->get(), name.c_str());
  if (!file.is_open()) throw system_error("open", path(name), errno);
  return file;
}

File FileList::open(std::size_t i, Access access) const {
  const std::string name = (*read_names())[i];
  Descriptor descriptor = open(name);
  if (access == Access::mapped) return File::map(path(name), i, std::move(descriptor));
  Descriptor direct;  // not open where the file system has no such reads
  if (access == Access::direct) direct = open_for_reading(root_->get(), name.c_str(), O_DIRECT);
  return {path(name), i, std::move(descriptor), std::move(direct)};
}

File FileList::open_unchanged(std::size_t i, Access access) const {
  File file = open(i, access);
  if (static_cast<std::int64_t>(file.bytes()) == bytes(i)) return file;
  throw Error(
      ErrorCode::corrupt,
      fmt::format("read {}: it has {} bytes now and had {} when it was listed; restore the file, or open "
                  "the dataset anew as another one",
                  file.path(), file.bytes(), bytes(i)));
}

std::int64_t FileList::ask_bytes(const std::string& name) const { return ask_stat(name).bytes; }

}  // namespace rota::internal

namespace rota {

std::string_view to_string(ChangeDetection change_detection) noexcept {
  return change_detection == ChangeDetection::by_size ? "by_size" : "by_name";
}

std::string_view to_string(Access access) noexcept {
  return internal::kAccesses[static_cast<std::size_t>(access)];
}

}  // namespace rota
