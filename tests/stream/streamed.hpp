#pragma once

// The streams that the launched runs read.

#include "stream/numbered_stream.hpp"
#include "test.hpp"

namespace rota::test {

inline constexpr std::int64_t kStreamedEpochs = 2;

/// Ten shards, one of them empty and one a hundred times the others, filtered, flat-mapped and mixed.
inline std::shared_ptr<const StreamSource> streamed() {
  const std::vector<std::int64_t> lengths{4, 400, 0, 4, 4, 4, 4, 4, 4, 4};
  return shuffle_buffer(up_to_three(two_of_three(std::make_shared<NumberedStream>(lengths))), 16, 3);
}

/// What rank 0 dispatches.
inline std::shared_ptr<const StreamSource> dispatched() {
  const std::vector<std::int64_t> lengths{500};
  return shuffle_buffer(up_to_three(two_of_three(std::make_shared<NumberedStream>(lengths))), 16, 3);
}

/// Samples of an epoch.
inline std::int64_t count_samples(const StreamSource& source, std::int64_t epoch) {
  std::int64_t count = 0;
  for (std::int64_t s = 0; s < source.shards(); ++s) count += std::ssize(read_all(source, {s}, epoch));
  return count;
}

}  // namespace rota::test
