#include "catalog/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "catalog/directory_sample.hpp"
#include "catalog/meter.hpp"
#include "rota/error.hpp"
#include "rota/types.hpp"
#include "values/scarce.hpp"

namespace rota::internal {
namespace {

constexpr std::size_t kMostShown = 3;
constexpr std::int64_t kProbesPerThread = 16;  // fewer are not worth a thread

/// Probes whose answer is wrong, and the first of them.
struct Failures {
  enum class Kind : std::uint8_t { missing, forbidden, unreachable, beyond };
  struct Place {
    std::int64_t place = 0;  // of the probe
    int error = 0;
    friend bool operator<(const Place& a, const Place& b) { return a.place < b.place; }
  };

  std::array<std::int64_t, 4> counts{};  // by kind
  std::vector<Place> first;              // in order, at most kMostShown

  [[nodiscard]] std::int64_t count(Kind kind) const { return counts[static_cast<std::size_t>(kind)]; }
  void add(Kind kind, const Place& place) {
    ++counts[static_cast<std::size_t>(kind)];
    keep(place);
  }
  void keep(const Place& place) {
    first.insert(std::upper_bound(first.begin(), first.end(), place), place);
    if (first.size() > kMostShown) first.pop_back();
  }
  [[nodiscard]] std::int64_t total() const { return counts[0] + counts[1] + counts[2] + counts[3]; }
};

// What is wrong with an answer, if anything.
std::optional<Failures::Kind> failure_of(const Probe& probe, const Presence& presence) {
  switch (presence.kind) {
    case Presence::Kind::there:
      return probe.is_wanted ? std::nullopt : std::optional(Failures::Kind::beyond);
    case Presence::Kind::missing:
      return probe.is_wanted ? std::optional(Failures::Kind::missing) : std::nullopt;
    case Presence::Kind::forbidden:
      return Failures::Kind::forbidden;
    case Presence::Kind::unreachable:
      break;
  }
  return Failures::Kind::unreachable;
}

/// One rank's part of the probes, which its threads share.
class Search {
 public:
  Search(const Probes& probes, const LookForName& look, Meter& meter)
      : probes_(probes), look_(look), meter_(meter) {}

  // Places [next, end), by so many threads, of which the caller's is one. Throws what the meter throws.
  Failures run(std::int64_t next, std::int64_t end, int threads) {
    next_ = next;
    {
      std::vector<std::jthread> workers;
      const auto most = std::clamp<std::int64_t>((end - next) / kProbesPerThread, 1, threads);
      try {
        for (std::int64_t t = 1; t < most; ++t) {
          workers.push_back(internal::start_thread("look for files", [&, end] { take(end, false); }));
        }
      } catch (...) {
        next_ = end;  // or those that run would go on to the end
        throw;
      }
      take(end, true);
    }
    if (error_) std::rethrow_exception(error_);
    meter_.end();
    return std::move(failures_);
  }

 private:
  void take(std::int64_t end, bool tells) noexcept {
    try {
      std::string name;
      for (std::int64_t place = 0; (place = next_++) < end;) {
        name.clear();
        const Probe probe = probes_[place];
        probes_.write(name, probe);
        const Presence presence = look_(name, probe.kind);
        const auto kind = failure_of(probe, presence);
        meter_.add(1, kind ? 1 : 0);
        if (kind) note(*kind, {.place = place, .error = presence.error});
        if (tells) meter_.look();
      }
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      error_ = std::current_exception();
      next_ = end;
    }
  }
  void note(Failures::Kind kind, const Failures::Place& place) {
    const std::scoped_lock lock(mutex_);
    failures_.add(kind, place);
  }

  const Probes& probes_;
  const LookForName& look_;
  Meter& meter_;
  std::atomic<std::int64_t> next_ = 0;
  std::mutex mutex_;
  Failures failures_;
  std::exception_ptr error_;
};

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

void validate_files(const Crew& crew, const Probes& probes, const LookForName& look,
                    const std::string& shown) {
  const mpi::Communicator& all = crew.nodes.all();
  const auto first = [&](int rank) { return share(probes.size(), rank, all.size()); };
  Failures failures;
  mpi::together(all, "look for files", [&] {
    const std::int64_t begin = first(all.rank());
    const std::int64_t end = first(all.rank() + 1);
    Meter meter(crew.options.progress, "look for files", end - begin);
    failures = Search(probes, look, meter).run(begin, end, crew.options.listing_threads);
  });
  failures = gather_failures(all, failures);
  if (failures.total() == 0) return;
  const std::string seen =
      crew.on_first_rank("look for files", [&] { return look_near(failures, probes, shown); });
  throw failed(failures, probes, shown, seen);
}

}  // namespace rota::internal
