#include "catalog/probes.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cmath>

#include "rota/types.hpp"

namespace rota::internal {
namespace {

constexpr double kFewest = 200;
constexpr double kMost = 1U << 31U;   // more: ask for all
constexpr std::int64_t kNearest = 8;  // distances that are asked for one by one, before they double
constexpr std::int64_t kFarthest = 1'000'000'000'000'000'000;

std::int64_t sample_size(std::int64_t items, const ProbeOptions& options) noexcept {
  if (options.confidence >= 1) return items;
  const double random = std::ceil(std::log1p(-options.confidence) / std::log1p(-options.missing_fraction));
  const double size = std::max(random, kFewest) + 2;
  return size < std::min(static_cast<double>(items), kMost) ? static_cast<std::int64_t>(size) : items;
}

}  // namespace

StratifiedSample::StratifiedSample(std::int64_t items, const ProbeOptions& options) noexcept
    : items_(items), size_(sample_size(items, options)), seed_(options.seed) {}

std::int64_t StratifiedSample::operator[](std::int64_t i) const noexcept {
  if (size_ == items_ || i == 0) return i;
  if (i == size_ - 1) return items_ - 1;
  const std::int64_t first = 1 + share(items_ - 2, i - 1, size_ - 2);
  const std::int64_t last = 1 + share(items_ - 2, i, size_ - 2);
  const std::uint64_t random = XXH3_64bits_withSeed(&i, sizeof(i), seed_);
  return first + static_cast<std::int64_t>(random % static_cast<std::uint64_t>(last - first));
}

Probes::Probes(const NameSeries& series, const ProbeOptions& options)
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

void Probes::write(std::string& to, const Probe& probe) const {
  (probe.kind == NameKind::directory ? folder_name_ : series_.pattern).write(to, probe.numbers);
}

}  // namespace rota::internal
