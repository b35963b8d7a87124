#include "catalog/probes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>

#include "catalog/directory_sample.hpp"
#include "catalog/place.hpp"
#include "catalog/progress_reporter.hpp"
#include "mpi/collectives.hpp"
#include "rota/error.hpp"
#include "rota/types.hpp"
#include "values/parallel.hpp"

namespace rota::internal {
namespace {

constexpr double kFewest = 200;
constexpr double kMost = 1U << 31U;   // more: ask for all
constexpr std::int64_t kNearest = 8;  // distances that are asked for one by one, before they double
constexpr std::int64_t kFarthest = 1'000'000'000'000'000'000;

std::int64_t sample_size(std::int64_t items, const PatternOptions& options) noexcept {
  if (options.confidence >= 1) return items;
  const double random = std::ceil(std::log1p(-options.confidence) / std::log1p(-options.missing_fraction));
  const double size = std::max(random, kFewest) + 2;
  return size < std::min(static_cast<double>(items), kMost) ? static_cast<std::int64_t>(size) : items;
}

}  // namespace

StratifiedSample::StratifiedSample(std::int64_t items, const PatternOptions& options) noexcept
    : items_(items), size_(sample_size(items, options)), seed_(options.seed) {}

std::int64_t StratifiedSample::operator[](std::int64_t i) const noexcept {
  if (size_ == items_ || i == 0) return i;
  if (i == size_ - 1) return items_ - 1;
  const std::int64_t first = 1 + share(items_ - 2, i - 1, size_ - 2);
  const std::int64_t last = 1 + share(items_ - 2, i, size_ - 2);
  const std::uint64_t random = XXH3_64bits_withSeed(&i, sizeof(i), seed_);
  return first + static_cast<std::int64_t>(random % static_cast<std::uint64_t>(last - first));
}

Probes::Probes(const NameSeries& series, const PatternOptions& options)
    : series_(series),
      folder_name_(series.pattern.through(NameField::folder)),
      in_folder_(series.layout == FolderLayout::restart ? series.files / series.folders : series.files),
      files_(series.files, options),
      folders_(series.folders, options),
      folder_count_(series.pattern.has(NameField::folder) ? folders_.size() : 0) {
  for (std::int64_t d = 0; d < kFarthest; d = d < kNearest ? d + 1 : 2 * d) add_beyond(d);
}

// Of file i, counted from the first one on, that is none of the series, but may have been written with it.
NameNumbers Probes::beyond(std::int64_t i) const noexcept {
  NameNumbers numbers{
      .index = series_.first_index + i, .folder = series_.first_folder, .total = series_.files};
  if (series_.layout == FolderLayout::round_robin) {
    numbers.folder += (i % series_.folders + series_.folders) % series_.folders;
  } else if (i > 0) {
    numbers.folder += series_.folders - 1;
  }
  return numbers;
}

void Probes::add_beyond(std::int64_t distance) {
  const auto add = [&](const NameNumbers& numbers, NameKind kind) {
    if (numbers.index < 0 || numbers.folder < 0) return;
    beyond_.push_back({.numbers = numbers, .kind = kind, .is_wanted = false});
  };
  const bool is_asked_by_folder =  // see operator[]
      distance == 0 && folder_count_ > 0 &&
      (folder_count_ == series_.folders || series_.layout != FolderLayout::round_robin);
  if (!is_asked_by_folder) add(beyond(in_folder_ + distance), NameKind::file);
  if (distance > 0 || folder_count_ == 0) add(beyond(-1 - distance), NameKind::file);
  if (folder_count_ == 0) return;
  const NameNumbers first = series_.numbers(0);
  add({first.index, series_.first_folder + series_.folders + distance, first.total}, NameKind::directory);
  add({first.index, series_.first_folder - 1 - distance, first.total}, NameKind::directory);
}

// The file that would be next in a folder (of 0 to folders - 1), or the one that would be before its first;
// where that has no number, the next but one.
Probe Probes::beside(std::int64_t folder, bool is_behind) const noexcept {
  const std::int64_t folders = series_.folders;
  const std::int64_t step = series_.layout == FolderLayout::round_robin ? folders : 1;
  std::int64_t behind = in_folder_;
  std::int64_t before = -1;
  if (series_.layout == FolderLayout::blocks) {
    const auto first_of = [&](std::int64_t f) {  // ceil(f N / F), for file i lies in folder floor(i F / N)
      return series_.files - scaled(folders - f, series_.files, folders);
    };
    behind = first_of(folder + 1);
    before = first_of(folder) - 1;
  } else if (series_.layout == FolderLayout::round_robin) {
    behind = series_.files + ((folder - series_.files) % folders + folders) % folders;
    before = folder - folders;
  }
  if (series_.first_index + before < 0) before = behind + step;
  return {.numbers = {.index = series_.first_index + (is_behind ? behind : before),
                      .folder = series_.first_folder + folder,
                      .total = series_.files},
          .kind = NameKind::file,
          .is_wanted = false};
}

Probe Probes::operator[](std::int64_t i) const noexcept {
  if (i < files_.size()) return {.numbers = series_.numbers(files_[i])};
  if (i >= beyond_from()) return beyond_[static_cast<std::size_t>(i - beyond_from())];
  if (i >= wanted()) return beside(folders_[(i - wanted()) / 2], (i - wanted()) % 2 == 0);
  return {.numbers = {.index = series_.first_index,
                      .folder = series_.first_folder + folders_[i - files_.size()],
                      .total = series_.files},
          .kind = NameKind::directory};
}

std::string Probes::name(const Probe& probe) const {
  return (probe.kind == NameKind::directory ? folder_name_ : series_.pattern).name(probe.numbers);
}

namespace {

constexpr std::size_t kMostShown = 3;
constexpr std::int64_t kProbesAtOnce = 16;  // that a thread takes

/// Probes whose answer is wrong, and the first of them.
struct Failures {
  enum class Kind : std::uint8_t { missing, forbidden, unreachable, beyond };
  struct FailedName {
    std::int64_t place = 0;  // of the probe
    int answer = 0;
    friend bool operator<(const FailedName& a, const FailedName& b) { return a.place < b.place; }
  };

  std::array<std::int64_t, 4> counts{};  // by kind
  std::vector<FailedName> first;         // in order, at most kMostShown

  [[nodiscard]] std::int64_t count(Kind kind) const { return counts[static_cast<std::size_t>(kind)]; }
  void keep(const FailedName& place) {
    first.insert(std::upper_bound(first.begin(), first.end(), place), place);
    if (first.size() > kMostShown) first.pop_back();
  }
  [[nodiscard]] std::int64_t total() const { return counts[0] + counts[1] + counts[2] + counts[3]; }
};

// What is wrong with an answer of a LookForName, if anything.
std::optional<Failures::Kind> failure_of(const Probe& probe, int answer) {
  switch (answer) {
    case 0:
      return probe.is_wanted ? std::nullopt : std::optional(Failures::Kind::beyond);
    case kOtherKind:
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
      return probe.is_wanted ? std::optional(Failures::Kind::missing) : std::nullopt;
    case EACCES:
    case EPERM:
      return Failures::Kind::forbidden;
    default:
      return Failures::Kind::unreachable;
  }
}

template <typename Call>
int errno_of(Call&& call) noexcept {
  while (call() != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Of probes [begin, end), this rank's.
Failures ask_for(const Probes& probes, std::int64_t begin, std::int64_t end, const LookForName& look,
                 const CatalogOptions& options, int threads) {
  Failures failures;
  std::mutex mutex;  // of them
  ProgressReporter reporter(options.progress, "look for files", end - begin);
  const auto ask = [&](std::int64_t place) {
    const Probe probe = probes[place];
    const int answer = look(probes.name(probe), probe.kind);
    const auto kind = failure_of(probe, answer);
    reporter.add(1, kind ? 1 : 0);
    if (!kind) return;
    const std::scoped_lock lock(mutex);
    ++failures.counts[static_cast<std::size_t>(*kind)];
    failures.keep({.place = place, .answer = answer});
  };
  parallel_for("look for files", end - begin, kProbesAtOnce, threads, [&](const LoopPart& part) {
    for (std::int64_t place = begin + part.begin; place < begin + part.end; ++place) {
      ask(place);
      if (part.is_callers) reporter.look();
    }
  });
  reporter.end();
  return failures;
}

// Of all ranks. Collective.
Failures gather_failures(const mpi::Communicator& comm, const Failures& mine) {
  Failures all{.counts = mine.counts, .first = {}};
  mpi::sum(comm, all.counts);
  if (all.total() == 0) return all;
  for (std::size_t i = 0; i < kMostShown; ++i) {
    const bool has_one = i < mine.first.size();
    const auto places = mpi::gather(comm, has_one ? mine.first[i].place : -1);
    const auto answers = mpi::gather(comm, has_one ? mine.first[i].answer : 0);
    for (std::size_t rank = 0; rank < places.size(); ++rank) {
      if (places[rank] >= 0) all.keep({.place = places[rank], .answer = static_cast<int>(answers[rank])});
    }
  }
  return all;
}

std::string describe(const Probe& probe, int answer) {
  if (!probe.is_wanted) return probe.kind == NameKind::directory ? "a folder too many" : "one too many";
  if (answer != kOtherKind) return std::generic_category().message(answer);
  return probe.kind == NameKind::directory ? "no directory" : "no regular file";
}

std::string names_of(const Failures& failures, const Probes& probes, const std::string& shown) {
  std::string names;
  for (const auto& [place, answer] : failures.first) {
    const Probe probe = probes[place];
    names += fmt::format("{}{}{} ({})", names.empty() ? "" : ", ", shown, probes.name(probe),
                         describe(probe, answer));
  }
  return names + (failures.total() > std::ssize(failures.first) ? ", ..." : "");
}

// What is where the first of the failures is, or in the nearest directory above it that is there.
std::string look_near(const Failures& failures, const Probes& probes, const std::string& shown,
                      const Storages& storages) {
  const Probe probe = probes[failures.first[0].place];
  NamePattern pattern = probes.series().pattern;
  if (probe.kind == NameKind::directory) pattern = pattern.through(NameField::folder);
  for (;;) {
    try {
      return describe_names(shown, pattern, probe.numbers, storages);
    } catch (const Error& error) {
      pattern = pattern.parent();
      if (error.code() != ErrorCode::not_found || pattern.parts().empty()) return error.what();
    }
  }
}

Error failed(const Failures& failures, const Probes& probes, const std::string& shown,
             const std::string& seen) {
  using Kind = Failures::Kind;
  std::string advice;
  const auto advise = [&](Kind kind, std::string_view what) {
    if (failures.count(kind) > 0) advice += fmt::format("; {}", what);
  };
  advise(Kind::missing, "restore those that are missing, or mend the pattern and PatternOptions");
  advise(Kind::beyond,
         "there are more files than that: mend PatternOptions, or remove what is not of the dataset");
  advise(Kind::forbidden, "give this user the right to read them");
  advise(Kind::unreachable, "check the file system, and try again");
  const ErrorCode code = failures.count(Kind::missing) > 0  ? ErrorCode::not_found
                         : failures.count(Kind::beyond) > 0 ? ErrorCode::invalid_argument
                                                            : ErrorCode::io;
  const auto& [missing, forbidden, unreachable, beyond] = failures.counts;
  return {code,
          fmt::format("look for the {} files of the pattern {}{}: of {} names asked for, {} are "
                      "missing, {} forbidden, {} unreachable, and {} are too many: {}; {}{}",
                      probes.series().files, shown, probes.series().pattern.text(), probes.wanted(), missing,
                      forbidden, unreachable, beyond, names_of(failures, probes, shown), seen, advice)};
}

}  // namespace

int look_for(int at, const std::string& name, NameKind kind) noexcept {
  struct stat status {};
  const int error = errno_of([&] { return ::fstatat(at, name.c_str(), &status, 0); });
  if (error != 0) return error;
  const mode_t type = kind == NameKind::directory ? S_IFDIR : S_IFREG;
  if ((status.st_mode & S_IFMT) != type) return kOtherKind;
  if (kind != NameKind::readable_file) return 0;
  return errno_of([&] { return ::faccessat(at, name.c_str(), R_OK, AT_EACCESS); });
}

void validate_files(const OpenContext& context, const Probes& probes, const LookForName& look,
                    const std::string& shown, bool is_stored) {
  const mpi::Communicator& all = context.nodes.all();
  const int threads = std::max(context.options.listing_threads, is_stored ? kStoredAtOnce : 1);
  const auto first = [&](int rank) { return share(probes.size(), rank, all.size()); };
  Failures failures;
  mpi::together(all, "look for files", [&] {
    failures = ask_for(probes, first(all.rank()), first(all.rank() + 1), look, context.options, threads);
  });
  failures = gather_failures(all, failures);
  if (failures.total() == 0) return;
  const std::string seen = context.on_first_rank(
      "look for files", [&] { return look_near(failures, probes, shown, context.options.storages); });
  throw failed(failures, probes, shown, seen);
}

}  // namespace rota::internal
