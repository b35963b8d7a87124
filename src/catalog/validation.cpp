#include "catalog/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include "catalog/meter.hpp"
#include "rota/error.hpp"
#include "rota/types.hpp"

namespace rota {
namespace {

constexpr std::size_t kMostShown = 3;
constexpr std::int64_t kFilesPerThread = 16;  // fewer are not worth a thread

/// Names that are no readable files, and the first of them.
struct Failures {
  struct Place {
    std::int64_t place = 0;  // in the sample
    int error = 0;
    friend bool operator<(const Place& a, const Place& b) { return a.place < b.place; }
  };

  std::array<std::int64_t, 3> counts{};  // missing, forbidden, unreachable
  std::vector<Place> first;              // in order, at most kMostShown

  void add(const Presence& presence, std::int64_t place) {
    ++counts[static_cast<std::size_t>(presence.kind) - 1];
    keep({.place = place, .error = presence.error});
  }
  void keep(const Place& place) {
    first.insert(std::upper_bound(first.begin(), first.end(), place), place);
    if (first.size() > kMostShown) first.pop_back();
  }
  [[nodiscard]] std::int64_t total() const { return counts[0] + counts[1] + counts[2]; }
};

/// One rank's part of a sample, which its threads share.
class Search {
 public:
  Search(const NameSeries& series, const FileSample& sample, int at, Meter& meter)
      : series_(series), sample_(sample), at_(at), meter_(meter) {}

  // Places [next, end), by so many threads, of which the caller's is one. Throws what the meter throws.
  Failures run(std::int64_t next, std::int64_t end, int threads) {
    next_ = next;
    {
      std::vector<std::jthread> workers;
      const auto most = std::clamp<std::int64_t>((end - next) / kFilesPerThread, 1, threads);
      for (std::int64_t t = 1; t < most; ++t) workers.emplace_back([&, end] { take(end, false); });
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
        series_.pattern.write(name, series_.numbers(sample_[place]));
        const Presence presence = look_for_readable(at_, name.c_str());
        const bool is_there = presence.kind == Presence::Kind::there;
        meter_.add(1, is_there ? 0 : 1);
        if (!is_there) note(presence, place);
        if (tells) meter_.look();
      }
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      error_ = std::current_exception();
      next_ = end;
    }
  }
  void note(const Presence& presence, std::int64_t place) {
    const std::scoped_lock lock(mutex_);
    failures_.add(presence, place);
  }

  const NameSeries& series_;
  const FileSample& sample_;
  int at_;
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

std::string describe(int error) {
  return error == 0 ? "no regular file" : std::generic_category().message(error);
}

Error failed(const Failures& failures, const NameSeries& series, const FileSample& sample,
             const std::string& shown) {
  const auto& [missing, forbidden, unreachable] = failures.counts;
  std::string names;
  for (const auto& [place, error] : failures.first) {
    names += fmt::format("{}{}{} ({})", names.empty() ? "" : ", ", shown, series.name(sample[place]),
                         describe(error));
  }
  std::string advice;
  const auto advise = [&](std::int64_t count, std::string_view what) {
    if (count > 0) advice += fmt::format("; {}", what);
  };
  advise(missing, "restore those that are missing, or mend the pattern and the numbers in PatternOptions");
  advise(forbidden, "give this user the right to read them");
  advise(unreachable, "check the file system, and try again");
  return {
      missing > 0 ? ErrorCode::not_found : ErrorCode::io,
      fmt::format("look for files of the pattern {}{}: of {} asked for, of {} in all, {} are missing, {} "
                  "forbidden, {} unreachable: {}{}{}",
                  shown, series.pattern.text(), sample.size(), series.files, missing, forbidden, unreachable,
                  names, failures.total() > std::ssize(failures.first) ? ", ..." : "", advice)};
}

}  // namespace

std::int64_t sample_size(std::int64_t files, double confidence, double missing_fraction) noexcept {
  if (confidence >= 1) return files;
  const double size = std::ceil(std::log1p(-confidence) / std::log1p(-missing_fraction));
  return size < static_cast<double>(files) ? static_cast<std::int64_t>(size) : files;
}

FileSample::FileSample(std::int64_t files, std::int64_t count, Key key) noexcept
    : permutation_(files, key),
      count_(count),
      has_first_(permutation_.inverse(0) < count),
      has_last_(files == 1 || permutation_.inverse(files - 1) < count),
      ends_((has_first_ ? 0 : 1) + (has_last_ ? 0 : 1)) {}

std::int64_t FileSample::operator[](std::int64_t i) const noexcept {
  if (i < count_) return permutation_(i);
  return i == count_ && !has_first_ ? 0 : permutation_.size() - 1;
}

void validate_files(const Crew& crew, const NameSeries& series, const FileSample& sample, int at,
                    const std::string& shown) {
  const mpi::Communicator& all = crew.nodes.all();
  const auto first = [&](int rank) { return share(sample.size(), rank, all.size()); };
  Failures failures;
  mpi::together(all, "look for files", [&] {
    const std::int64_t begin = first(all.rank());
    const std::int64_t end = first(all.rank() + 1);
    Meter meter(crew.options.progress, "look for files", end - begin);
    failures = Search(series, sample, at, meter).run(begin, end, crew.options.listing_threads);
  });
  failures = gather_failures(all, failures);
  if (failures.total() > 0) throw failed(failures, series, sample, shown);
}

}  // namespace rota
