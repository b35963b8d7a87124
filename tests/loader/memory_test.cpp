// A loader holds no more memory than it was told to: the bytes that it may read ahead, and a few batches.

#include "allocations.hpp"
#include "ranks/messages.hpp"
#include "source/documents.hpp"

namespace rota::test::memory_test {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kAhead = 8 * kMiB;

// So many batches that bytes are what bounds.
template <typename Options>
Options options(int workers) {
  return {.global_batch_size = 16, .workers = workers, .read_ahead_batches = 100, .read_ahead_bytes = kAhead};
}

std::size_t bytes_of(const auto& batch) {
  std::size_t bytes = 0;
  for (std::size_t f = 0; f < batch.fields().size(); ++f) bytes += batch.tensor(f).bytes.size();
  return bytes;
}

// Pieces of memory are up to a quarter larger than what is in them.
std::size_t most_for(std::size_t largest_batch) { return (kAhead + 5 * largest_batch) * 5 / 4 + kMiB; }

/// Samples of 64 KiB of bytes, or of sizes about that, of which some are much larger.
std::shared_ptr<const Source> large(bool is_ragged) {
  constexpr std::int64_t kBytes = 64 << 10;
  const auto source = told(
      3000, {{.name = "data", .shape = is_ragged ? Numbers{} : std::vector{kBytes}, .ragged = is_ragged}});
  source->rows_of = [](SampleId id, std::size_t) {
    return id.value % 97 == 0 ? 16 * kBytes : kBytes / 2 + id.value % kBytes;
  };
  source->fill = [](SampleId, std::size_t, std::int64_t, std::span<std::byte> to) {
    to.front() = std::byte{1};
  };
  return source;
}

std::shared_ptr<const Source> packed() {
  return pack(std::make_shared<Documents>(Numbers(3000, 3000), DType::int32), {.length = 4096});
}

struct Case {
  std::string name;
  std::function<Loader(const LoaderOptions&)> make;
};

std::vector<Case> cases() {
  const auto of = [](const auto& make_source) {
    return [make_source](const LoaderOptions& options) { return Loader(make_source(), options); };
  };
  const auto mixture = [](const LoaderOptions& options) {
    return Loader(
        Mixture{.datasets = {{.source = large(true), .weight = 2}, {.source = large(true), .weight = 1}}},
        options);
  };
  return {{"Fixed", of([] { return large(false); })},
          {"Ragged", of([] { return large(true); })},
          {"Packed", of(packed)},
          {"Windows", of([] { return windows(packed(), {.length = 2, .stride = 1}); })},
          {"Mixture", mixture}};
}

class LoaderMemory : public TestWithParam<Case> {};

TEST_P(LoaderMemory, StaysUnderWhatMayBeReadAheadAndAFewBatches) {
  for (const int workers : {0, 1, 3}) {
    watch_held_memory();
    Loader loader = GetParam().make(options<LoaderOptions>(workers));
    std::size_t largest = 0;
    for (const Batch& batch : loader) largest = std::max(largest, bytes_of(batch));
    EXPECT_LE(most_held_memory(), most_for(largest)) << workers << " workers";
  }
}

INSTANTIATE_TEST_SUITE_P(Of, LoaderMemory, ValuesIn(cases()),
                         [](const auto& made) { return made.param.name; });

TEST(StreamLoaderMemory, StaysUnderWhatMayBeReadAheadAndAFewBatches) {
  for (const bool is_ragged : {false, true}) {
    for (const int workers : {0, 1, 3}) {
      watch_held_memory();
      StreamLoader loader(as_stream(large(is_ragged), 5), options<StreamLoaderOptions>(workers));
      std::size_t largest = 0;
      while (const auto batch = loader.next()) largest = std::max(largest, bytes_of(*batch));
      // Samples read ahead when a shard turns out to have ended are in memory of their own.
      EXPECT_LE(most_held_memory(), 2 * most_for(largest)) << is_ragged << ", " << workers << " workers";
    }
  }
}

TEST(LoaderMemory, OfManyBatchesThatTheCallerKeptIsGivenBackWithThem) {
  watch_held_memory();
  Loader loader(large(false), options<LoaderOptions>(1));
  std::vector<Batch> kept;
  for (int i = 0; i < 50; ++i) kept.push_back(*loader.next());
  EXPECT_GT(held_memory(), 50 * kMiB);
  kept.clear();
  EXPECT_LE(held_memory(), most_for(kMiB));
}

TEST(MessageMemory, KeepsNoMoreThanItMayAndIsOutlivedByMessages) {
  watch_held_memory();
  auto memory = std::make_unique<ranks::MessageMemory>(2);
  std::vector<std::shared_ptr<ranks::Bytes>> messages;
  for (int i = 0; i < 5; ++i) messages.push_back(memory->take(8 * kMiB));
  messages.clear();
  EXPECT_GT(held_memory(), 16 * kMiB) << "nothing is kept";
  EXPECT_LT(held_memory(), 20 * kMiB);
  messages.push_back(memory->take(kMiB));
  EXPECT_LT(held_memory(), 12 * kMiB) << "what is of no use is to make room";
  memory.reset();
  std::ranges::fill(*messages.front(), std::byte{1});
  messages.clear();
  EXPECT_LT(held_memory(), kMiB);
}

}  // namespace rota::test::memory_test
