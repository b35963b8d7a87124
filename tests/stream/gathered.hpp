#pragma once

// What all ranks together have seen.

#include "all_of_ranks.hpp"
#include "stream/numbered_stream.hpp"
#include "test.hpp"

namespace rota::test {

/// How often each sample was seen: (epoch, shard, position, input, output).
using SampleCounts = std::map<std::array<std::int64_t, 5>, int>;

/// **Collective.** Adds the samples of all ranks' batches, on every rank.
inline void gather(const mpi::Communicator& comm, const StreamBatch& batch, SampleCounts& all) {
  std::vector<std::int64_t> mine;
  for (std::size_t i = 0; i < batch.ids().size(); ++i) {
    const StreamId& id = batch.ids()[i];
    mine.insert(mine.end(), {batch.start().epoch, id.shard.value, batch.positions()[i], id.input, id.output});
  }
  const auto together = all_of_ranks(comm, mine);
  for (std::size_t at = 0; at < together.size(); at += 5) {
    std::array<std::int64_t, 5> sample{};
    std::copy_n(together.begin() + static_cast<std::ptrdiff_t>(at), 5, sample.begin());
    ++all[sample];
  }
}

/// What `epochs` epochs are to give: each once.
inline SampleCounts samples_of(const StreamSource& source, std::int64_t epochs) {
  SampleCounts all;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (std::int64_t s = 0; s < source.shards(); ++s) {
      std::int64_t position = 0;
      for (const Seen& sample : read_all(source, {s}, epoch))
        ++all[{epoch, s, position++, sample.first.input, sample.first.output}];
    }
  }
  return all;
}

}  // namespace rota::test
