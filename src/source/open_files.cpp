#include "source/open_files.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rota {
namespace {

constexpr std::size_t kMostKept = 256;

}  // namespace

FileSamples::Place FileSamples::find(std::int64_t id, std::size_t guess) const noexcept {
  if (first(guess) > id || id >= ends_[guess]) {
    guess = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), id) - ends_.begin());
  }
  return {.file = guess, .sample = id - first(guess)};
}

std::vector<std::int64_t> FileSamples::counts() const {
  std::vector<std::int64_t> result(ends_.size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = count(i);
  return result;
}

void FileSamples::require_expected(const FileList& files) const {
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    const std::int64_t expected = files.expected_samples(i);
    if (expected < 0 || expected == count(i)) continue;
    throw Error(
        ErrorCode::mismatch,
        fmt::format("open {}: it has {} samples, and the manifest says {}; restore the file, or mend the "
                    "manifest",
                    files.path(i), count(i), expected));
  }
}

OpenFiles::OpenFiles(FileList files) : files_(std::move(files)) {
  for (std::size_t i = 0; files_.size() <= kMostKept && i < files_.size(); ++i) {
    kept_.push_back(open_anew(i));
  }
}

OpenFiles::Handle OpenFiles::open(std::size_t i) const {
  return kept_.empty() ? Handle(open_anew(i)) : Handle(kept_[i].get());
}

Descriptor OpenFiles::open_anew(std::size_t i) const {
  Descriptor descriptor = files_.open(i);
  const std::int64_t now = size_of_open(descriptor.get());
  if (now == files_.bytes(i)) return descriptor;
  throw Error(
      ErrorCode::corrupt,
      fmt::format("read {}: it has {} bytes now and had {} when it was listed; restore the file, or open "
                  "the dataset anew as another one",
                  files_.path(i), now, files_.bytes(i)));
}

}  // namespace rota
