#pragma once

// Dispatches whose items say who they are, and what all ranks together got of them.

#include "mpi/collectives.hpp"
#include "stream/numbered_stream.hpp"
#include "test.hpp"

namespace rota::test {

/// Item numbers of a step or of a run, in the order of the source.
using Items = std::vector<std::int64_t>;

/// **Collective.** What each rank gave, on every rank.
inline std::vector<Items> gather(const mpi::Communicator& comm, const Items& mine) {
  if (comm.size() == 1) return {mine};
  const auto sizes = mpi::gather(comm, std::ssize(mine));
  const std::vector<int> counts(sizes.begin(), sizes.end());
  std::vector<int> offsets(counts.size() + 1);
  for (std::size_t r = 0; r < counts.size(); ++r) offsets[r + 1] = offsets[r] + counts[r];
  Items together(static_cast<std::size_t>(offsets.back()));
  MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), MPI_INT64_T, together.data(), counts.data(),
                 offsets.data(), MPI_INT64_T, comm.get());
  std::vector<Items> all;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    all.emplace_back(together.begin() + offsets[r], together.begin() + offsets[r + 1]);
  }
  return all;
}

/// The numbers of a batch's items, which must hold what a NumberedStream of one shard gives as those.
inline Items items_of(const StreamBatch& batch, std::int64_t shards) {
  Items items;
  const auto samples = seen(batch);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const StreamId& id = batch.ids()[i];
    const std::int64_t item = id.input * shards + id.shard.value;
    std::string bytes(16 + static_cast<std::size_t>(item % 5), static_cast<char>(item));
    std::memset(bytes.data(), 0, 8);
    std::memcpy(bytes.data() + 8, &item, 8);
    EXPECT_EQ(samples[i].second, bytes) << to_string(id);
    EXPECT_EQ(batch.positions()[i], id.input);
    EXPECT_EQ(id.output, 0);
    items.push_back(item);
  }
  return items;
}

/// A step as all ranks have it.
struct DispatchedStep {
  StreamPosition start;
  std::vector<Items> ranks = {};
};

/// **Collective.** The next step, in which all ranks must take part.
inline std::optional<DispatchedStep> take_step(StreamLoader& loader, const mpi::Communicator& comm) {
  const auto batch = loader.next();
  const auto has = mpi::gather(comm, batch ? 1 : 0);
  EXPECT_THAT(has, ::testing::Each(has[0]));
  if (!batch) return std::nullopt;
  return DispatchedStep{.start = batch->start(),
                        .ranks = gather(comm, items_of(*batch, loader.source().shards()))};
}

/// Items first, ..., first + count - 1 as each rank is to get them.
inline std::vector<Items> dealt(std::int64_t first, std::int64_t count, std::int64_t shards, Split split,
                                int ranks) {
  Items canonical;
  for (std::int64_t i = first; i < first + count; ++i) canonical.push_back(i);
  std::ranges::stable_sort(canonical, {}, [&](std::int64_t i) { return i % shards; });
  std::vector<Items> all(static_cast<std::size_t>(ranks));
  for (std::int64_t at = 0; at < count; ++at) {
    const std::int64_t item = canonical[static_cast<std::size_t>(at)];
    int rank = 0;
    while (split == Split::by_sample && at >= share(count, rank + 1, ranks)) ++rank;
    if (split == Split::by_shard) rank = static_cast<int>(item % shards % ranks);
    all[static_cast<std::size_t>(rank)].push_back(item);
  }
  return all;
}

/// A pipe: what was read of it is gone, whoever reads on. As a program that has just begun has it, which
/// takes its word for where the pipe stands.
class Pipe : public NumberedStream {
 public:
  /// `gone` items were read of it by all programs.
  Pipe(std::int64_t length, std::shared_ptr<std::int64_t> gone)
      : NumberedStream({length}), gone_(std::move(gone)) {}

  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                  const StreamCursor& cursor) const override {
    const std::int64_t next = cursor.is_start() ? 0 : cursor.numbers.at(0);
    if (std::exchange(was_opened_, true) && (next != *gone_ || epoch > 0)) {
      throw Error(ErrorCode::io, "a pipe at item " + std::to_string(*gone_) + " cannot go to item " +
                                     std::to_string(next) + " of epoch " + std::to_string(epoch));
    }
    return std::make_unique<Reader>(*this, NumberedStream::open(shard, epoch, at(*gone_)));
  }

 private:
  class Reader : public ShardStream {
   public:
    Reader(const Pipe& pipe, std::unique_ptr<ShardStream> stream) : pipe_(pipe), stream_(std::move(stream)) {}
    bool next(StreamSample& out) override {
      const bool is_there = stream_->next(out);
      *pipe_.gone_ += is_there ? 1 : 0;
      return is_there;
    }
    void cursor(StreamCursor& out) const override { stream_->cursor(out); }

   private:
    const Pipe& pipe_;
    std::unique_ptr<ShardStream> stream_;
  };
  [[nodiscard]] StreamCursor at(std::int64_t item) const {
    return {.numbers = {item, item + 7}, .blob = std::string(blob_bytes, 'b')};
  }

  std::shared_ptr<std::int64_t> gone_;  // of one reader at a time
  mutable bool was_opened_ = false;
};

}  // namespace rota::test
