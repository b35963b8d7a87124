#include "source/file_samples.hpp"

#include <algorithm>

#include "rota/error.hpp"
#include "rota/types.hpp"

namespace rota::internal {

void FileSamples::add(std::int64_t count) {
  if (count > kMaxCount - total())
    throw Error(ErrorCode::corrupt,
                "open files: they claim more than 2^62 samples; fetch or write them again");
  ends_.push_back(total() + count);
}

FileSamples::SamplePlace FileSamples::find(std::int64_t id, std::size_t guess) const noexcept {
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

std::vector<std::int64_t> FileSamples::shard_lengths(std::int64_t shards) const {
  const std::int64_t files = std::ssize(ends_);
  if (files == 1 || shards > files) return {};
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(shards));
  for (std::int64_t s = 0; s < shards; ++s) {
    const auto begin = static_cast<std::size_t>(share(files, s, shards));
    const auto last = static_cast<std::size_t>(share(files, s + 1, shards)) - 1;
    lengths[static_cast<std::size_t>(s)] = ends_[last] - first(begin);
  }
  return lengths;
}

}  // namespace rota::internal
