#include "catalog/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "catalog/directory_sample.hpp"
#include "catalog/progress_reporter.hpp"
#include "rota/error.hpp"
#include "rota/types.hpp"
#include "values/parallel.hpp"

namespace rota::internal {
namespace {

constexpr std::size_t kMostShown = 3;
constexpr std::int64_t kProbesAtOnce = 16;  // that a thread takes

/// Probes whose answer is wrong, and the first of them.
struct Failures {
  enum class Kind : std::uint8_t { missing, forbidden, unreachable, beyond };
  struct FailedName {
    std::int64_t place = 0;  // of the probe
    int error = 0;
    friend bool operator<(const FailedName& a, const FailedName& b) { return a.place < b.place; }
  };

  std::array<std::int64_t, 4> counts{};  // by kind
  std::vector<FailedName> first;         // in order, at most kMostShown

  [[nodiscard]] std::int64_t count(Kind kind) const { return counts[static_cast<std::size_t>(kind)]; }
  void add(Kind kind, const FailedName& place) {
    ++counts[static_cast<std::size_t>(kind)];
    keep(place);
  }
  void keep(const FailedName& place) {
    first.insert(std::upper_bound(first.begin(), first.end(), place), place);
    if (first.size() > kMostShown) first.pop_back();
  }
  [[nodiscard]] std::int64_t total() const { return counts[0] + counts[1] + counts[2] + counts[3]; }
};

// What is wrong with an answer, if anything.
std::optional<Failures::Kind> failure_of(const Probe& probe, const Existence& existence) {
  switch (existence.kind) {
    case Existence::Kind::there:
      return probe.is_wanted ? std::nullopt : std::optional(Failures::Kind::beyond);
    case Existence::Kind::missing:
      return probe.is_wanted ? std::optional(Failures::Kind::missing) : std::nullopt;
    case Existence::Kind::forbidden:
      return Failures::Kind::forbidden;
    case Existence::Kind::unreachable:
      break;
  }
  return Failures::Kind::unreachable;
}

// Of probes [begin, end), this rank's.
Failures look_for(const Probes& probes, std::int64_t begin, std::int64_t end, const LookForName& look,
                  const CatalogOptions& options) {
  Failures failures;
  std::mutex mutex;  // of them
  ProgressReporter reporter(options.progress, "look for files", end - begin);
  const auto ask = [&](std::int64_t place, std::string& name) {
    name.clear();
    const Probe probe = probes[place];
    probes.write(name, probe);
    const Existence existence = look(name, probe.kind);
    const auto kind = failure_of(probe, existence);
    reporter.add(1, kind ? 1 : 0);
    const std::scoped_lock lock(mutex);
    if (kind) failures.add(*kind, {.place = place, .error = existence.error});
  };
  parallel_for("look for files", end - begin, kProbesAtOnce, options.listing_threads,
               [&](const LoopPart& part) {
                 std::string name;
                 for (std::int64_t place = begin + part.begin; place < begin + part.end; ++place) {
                   ask(place, name);
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
    const auto errors = mpi::gather(comm, has_one ? mine.first[i].error : 0);
    for (std::size_t rank = 0; rank < places.size(); ++rank) {
      if (places[rank] >= 0) all.keep({.place = places[rank], .error = static_cast<int>(errors[rank])});
    }
  }
  return all;
}

std::string describe(const Probe& probe, int error) {
  if (!probe.is_wanted) return probe.kind == NameKind::directory ? "a folder too many" : "one too many";
  if (error != 0) return std::generic_category().message(error);
  return probe.kind == NameKind::directory ? "no directory" : "no regular file";
}

std::string names_of(const Failures& failures, const Probes& probes, const std::string& shown) {
  std::string names;
  for (const auto& [place, error] : failures.first) {
    const Probe probe = probes[place];
    names += (names.empty() ? "" : ", ") + shown;
    probes.write(names, probe);
    names += fmt::format(" ({})", describe(probe, error));
  }
  return names + (failures.total() > std::ssize(failures.first) ? ", ..." : "");
}

// What is where the first of the failures is, or in the nearest directory above it that is there.
std::string look_near(const Failures& failures, const Probes& probes, const std::string& shown) {
  const Probe probe = probes[failures.first[0].place];
  NamePattern pattern = probes.series().pattern;
  if (probe.kind == NameKind::directory) pattern = pattern.through(NameField::folder);
  for (;;) {
    try {
      return describe_names(shown, pattern, probe.numbers);
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

void validate_files(const OpenContext& context, const Probes& probes, const LookForName& look,
                    const std::string& shown) {
  const mpi::Communicator& all = context.nodes.all();
  const auto first = [&](int rank) { return share(probes.size(), rank, all.size()); };
  Failures failures;
  mpi::together(all, "look for files", [&] {
    failures = look_for(probes, first(all.rank()), first(all.rank() + 1), look, context.options);
  });
  failures = gather_failures(all, failures);
  if (failures.total() == 0) return;
  const std::string seen =
      context.on_first_rank("look for files", [&] { return look_near(failures, probes, shown); });
  throw failed(failures, probes, shown, seen);
}

}  // namespace rota::internal
