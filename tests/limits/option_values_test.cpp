#include "limits/refusals.hpp"
#include "limits/told_source.hpp"
#include "test.hpp"

namespace rota::test::option_values_test {

using std::chrono::milliseconds;
using test::expect_refused;
using test::kLeast;
using test::kMost;
using test::kTwo62;
using test::Refusal;
using test::told;
using test::told_stream;

/// A row for options of `Options`, which `use` is called with.
template <typename Options>
auto row_of(const std::string& task, std::function<void(const Options&)> use) {
  return [=](const Options& options, const std::string& option, const std::string& value,
             const std::string& range) {
    return Refusal{.what = task + ": " + option,
                   .call = [=] { use(options); },
                   .words = {task + ": " + option + " is " + value, "it must be " + range}};
  };
}

TEST(OptionValues, OfALoaderAreRefusedByName) {
  const auto row =
      row_of<LoaderOptions>("make a loader", [](const LoaderOptions& options) { Loader(told(10), options); });
  const std::string batch = "1 to 2^31 - 1";
  expect_refused({
      row({.global_batch_size = 0}, "global_batch_size", "0", batch),
      row({.global_batch_size = kLeast}, "global_batch_size", "-9223372036854775808", batch),
      row({.global_batch_size = std::int64_t{1} << 31}, "global_batch_size", "2147483648", batch),
      row({.global_batch_size = kTwo62}, "global_batch_size", "4611686018427387904", batch),
      row({.shards = 0}, "shards", "0", "1 to 2^24"),
      row({.shards = -5}, "shards", "-5", "1 to 2^24"),
      row({.shards = kMaxShards + 1}, "shards", "16777217", "1 to 2^24"),
      row({.shards = kMost}, "shards", "9223372036854775807", "1 to 2^24"),
      row({.interleave = -1}, "interleave", "-1", "0 or more (0 = all shards)"),
      row({.shuffle = Shuffle(99)}, "shuffle", "number 99", "one of none, within, global, block"),
      row({.shuffle = Shuffle(-1)}, "shuffle", "number -1", "one of none, within, global, block"),
      row({.block = {.samples = 0}}, "block.samples", "0", "1 or more"),
      row({.block = {.blocks = kLeast}}, "block.blocks", "-92", "1 or more"),
      row({.tail = Tail(4)}, "tail", "number 4", "one of partial, carry, drop, pad"),
      row({.rank_split = Split(3)}, "rank_split", "number 3", "one of by_sample, by_shard, interleaved"),
      row({.worker_split = Split(-3)}, "worker_split", "number -3", "one of by_sample"),
      row({.epochs = -1}, "epochs", "-1", "0 or more"),
      row({.workers = -1}, "workers", "-1", "0 to 4096"),
      row({.workers = 1'000'000}, "workers", "1000000", "0 to 4096"),
      row({.read_ahead_batches = 0}, "read_ahead_batches", "0", "1 to 65536"),
      row({.read_ahead_batches = kMost}, "read_ahead_batches", "92", "1 to 65536"),
      row({.read_ahead_bytes = -1}, "read_ahead_bytes", "-1", "0 or more"),
  });
}

TEST(OptionValues, OfBadSamplesAreRefusedByName) {
  const auto row = row_of<BadSamples>(
      "make a loader", [](const BadSamples& bad) { Loader(told(10), {.workers = 0, .bad_samples = bad}); });
  expect_refused({
      row({.policy = OnBadSample(2)}, "bad_samples.policy", "number 2", "one of fail, skip"),
      row({.max_skipped = -1}, "bad_samples.max_skipped", "-1", "0 or more"),
      row({.io_retries = -1}, "bad_samples.io_retries", "-1", "0 to 100"),
      row({.io_retries = 101}, "bad_samples.io_retries", "101", "0 to 100"),
      row({.retry_wait = milliseconds(-1)}, "bad_samples.retry_wait", "-1", "0 to 86400000 (milliseconds)"),
      row({.retry_wait = milliseconds::max()}, "bad_samples.retry_wait", "92",
          "0 to 86400000 (milliseconds)"),
  });
}

TEST(OptionValues, OfATransformAreRefusedByName) {
  const auto nothing = [](const TransformContext&, const SampleView&, SampleOutput&) {};
  const auto no_batch = [](const Batch&, BatchOutput&) {};
  for (const auto& [fields, why] : test::impossible_fields()) {
    const Transform transform{.apply = nothing, .fields = fields};
    const Collate collate{.apply = no_batch, .fields = fields};
    expect_refused({
        {.what = "transform: " + why,
         .call = [&] { Loader(told(10), {.transform = transform}); },
         .words = {"transform.fields", why}},
        {.what = "collate: " + why,
         .call = [&] { Loader(told(10), {.collate = collate}); },
         .words = {"collate.fields", why}},
    });
  }
  expect_refused({.what = "no function",
                  .call = [&] { Loader(told(10), {.transform = {.fields = test::kOneNumber}}); },
                  .words = {"transform.apply"}});
}

TEST(OptionValues, OfAStreamLoaderAreRefusedByName) {
  const auto row = row_of<StreamLoaderOptions>(
      "make a stream loader",
      [](const StreamLoaderOptions& options) { StreamLoader(told_stream(2), options); });
  expect_refused({
      row({.global_batch_size = 0}, "global_batch_size", "0", "1 to 2^31 - 1"),
      row({.global_batch_size = kTwo62}, "global_batch_size", "46", "1 to 2^31 - 1"),
      row({.epochs = kLeast}, "epochs", "-92", "0 or more"),
      row({.workers = -1}, "workers", "-1", "0 to 4096"),
      row({.workers = 4097}, "workers", "4097", "0 to 4096"),
      row({.read_ahead_batches = 65'537}, "read_ahead_batches", "65537", "1 to 65536"),
      row({.read_ahead_bytes = kLeast}, "read_ahead_bytes", "-92", "0 or more"),
      row({.deadline = milliseconds(-1)}, "deadline", "-1", "0 or more (milliseconds; 0 = never)"),
  });
}

TEST(OptionValues, OfADispatchAreRefusedByName) {
  const auto row = row_of<Dispatch>("dispatch a source", [](const Dispatch& dispatch) {
    StreamLoader(
        Dispatch{.source = told_stream(1), .shards = dispatch.shards, .rank_split = dispatch.rank_split},
        {.workers = 0});
  });
  expect_refused({
      row({.shards = 0}, "shards", "0", "1 to 2^24"),
      row({.shards = kMaxShards + 1}, "shards", "16777217", "1 to 2^24"),
      row({.shards = std::int64_t{1} << 40}, "shards", "1099511627776", "1 to 2^24"),
      row({.rank_split = Split::interleaved}, "rank_split", "number 2", "one of by_sample, by_shard"),
      row({.rank_split = Split(99)}, "rank_split", "number 99", "one of by_sample, by_shard"),
  });
}

TEST(OptionValues, OfAdaptorsAreRefusedByName) {
  const auto documents = told(10, {{.name = "t", .dtype = DType::int32, .ragged = true}});
  const auto packing =
      row_of<PackOptions>("pack documents", [=](const PackOptions& o) { pack(documents, o); });
  const auto window =
      row_of<WindowOptions>("make windows", [](const WindowOptions& o) { windows(told(10), o); });
  expect_refused({
      packing({.length = 0}, "length", "0", "1 to 2^31 - 1 (tokens)"),
      packing({.length = kMost}, "length", "92", "1 to 2^31 - 1 (tokens)"),
      packing({.threads = 0}, "threads", "0", "1 to 4096"),
      packing({.threads = 1'000'000'000}, "threads", "1000000000", "1 to 4096"),
      window({.length = 0}, "length", "0", "1 or more (rows)"),
      window({.length = 1, .stride = kLeast}, "stride", "-92", "1 or more (rows)"),
  });
  expect_refused({
      {.what = "windows longer than all",
       .call = [] { windows(told(10), {.length = kMost}); },
       .words = {"length is"}},
      {.what = "windows of more than 2^50 bytes",
       .call = [] { windows(told(kTwo62), {.length = kTwo62}); },
       .words = {"8 bytes each", "2^50"}},
      {.what = "windows whose fields together are",
       .call =
           [] {
             windows(told(kTwo62, {{.name = "a"}, {.name = "b"}}), {.length = std::int64_t{1} << 50});
           },
       .words = {"a window has a field", "2^50"}},
      {.what = "fractions",
       .call =
           [] {
             split(told(10), std::vector{2.0, -1.0}, 1);
           },
       .words = {"fraction is -1"}},
      {.what = "none", .call = [] { split(told(10), {}, 1); }, .words = {"sum to 0"}},
      {.what = "infinite",
       .call = [] { split(told(10), std::vector<double>{INFINITY}, 1); },
       .words = {"sum to inf"}},
      {.what = "no numbers",
       .call = [] { split(told(10), std::vector<double>{NAN}, 1); },
       .words = {"fraction is nan"}},
  });
}

TEST(OptionValues, OfAMixtureAreRefusedByName) {
  const auto mixture = [](Mixture mixed, LoaderOptions options = {.workers = 0}) {
    if (mixed.datasets.empty()) mixed.datasets = {{.source = told(10)}, {.source = told(20)}};
    Loader(mixed, std::move(options));
  };
  expect_refused({
      {.what = "end",
       .call = [=] { mixture({.end = MixtureEnd(3)}); },
       .words = {"end is number 3", "steps"}},
      {.what = "no steps", .call = [=] { mixture({.end = MixtureEnd::steps}); }, .words = {"steps is 0"}},
      {.what = "steps",
       .call = [=] { mixture({.end = MixtureEnd::steps, .steps = kLeast}); },
       .words = {"steps is -92"}},
      {.what = "steps for nothing", .call = [=] { mixture({.steps = 5}); }, .words = {"steps is 5"}},
      {.what = "shards of all",
       .call = [=] { mixture({}, {.shards = kMaxShards, .workers = 0}); },
       .words = {"shards is 16777216", "all datasets together"}},
  });
}

TEST(OptionValues, OfCatalogsAreRefusedByName) {
  const test::TemporaryDirectory directory;
  std::ofstream(directory.path() / "a") << "text";
  const auto listing = row_of<CatalogOptions>(
      "make a catalog", [&](const CatalogOptions& options) { Catalog(directory.path(), options); });
  const auto tokens = row_of<TokensOptions>(
      "open token files", [&](const TokensOptions& options) { open_tokens(directory.path(), options); });
  expect_refused({
      listing({.change_detection = ChangeDetection(2)}, "change_detection", "number 2",
              "one of by_size, by_name"),
      listing({.listing_threads = 0}, "listing_threads", "0", "1 to 4096"),
      listing({.listing_threads = 1'000'000'000}, "listing_threads", "1000000000", "1 to 4096"),
      listing({.indexing_threads = 4097}, "indexing_threads", "4097", "1 to 4096"),
      listing({.max_open_files = 0}, "max_open_files", "0", "1 or more"),
      listing({.access = Access(4)}, "access", "number 4", "one of cached, direct, mapped, automatic"),
      listing({.shared_memory_limit = -1}, "shared_memory_limit", "-1", "0 or more"),
      tokens({.dtype = DType(77)}, "dtype", "unknown", "uint16 or uint32"),
      tokens({.length = kMost}, "length", "92", "1 to 2^40"),
      tokens({.stride = -1}, "stride", "-1", "0 to 2^40"),
  });
  const auto pattern = row_of<PatternOptions>("make a catalog of a pattern",
                                              [](const PatternOptions& options) { options.validate(); });
  expect_refused({
      pattern({.files = -1}, "files", "-1", "0 to 1000000000000000000"),
      pattern({.first_index = kMost}, "first_index", "92", "0 to 1000000000000000000"),
      pattern({.folders = kLeast}, "folders", "-92", "0 to 1000000000000000000"),
      pattern({.first_folder = -1}, "first_folder", "-1", "0 to 1000000000000000000"),
      pattern({.layout = FolderLayout(9)}, "layout", "number 9", "one of round_robin, blocks, restart"),
      pattern({.confidence = 1.5}, "confidence", "1.5", "0 to 1"),
      pattern({.confidence = std::nan("")}, "confidence", "nan", "0 to 1"),
      pattern({.missing_fraction = 1}, "missing_fraction", "1", "more than 0 and less than 1"),
  });
  const Catalog lavish(directory.path(),
                       {.max_open_files = std::numeric_limits<int>::max(), .shared_memory_limit = kMost});
  EXPECT_EQ(open_files(lavish)->size(), 1);
}

TEST(OptionValues, OfACheckpointPolicyAreRefusedByName) {
  const test::TemporaryDirectory directory;
  const auto row = row_of<CheckpointPolicy>("set a checkpoint policy", [&](const CheckpointPolicy& policy) {
    CheckpointDirectory(mpi::Communicator(), directory.path() / "c", policy);
  });
  expect_refused({
      row({.keep_last = 0}, "keep_last", "0", "1 or more"),
      row({.keep_every = -1}, "keep_every", "-1", "0 or more (0 = none)"),
      row({.deadline = milliseconds(-1)}, "deadline", "-1", "0 or more (milliseconds; 0 = never)"),
      row({.writer = Writer(2)}, "writer", "number 2", "one of direct, collective"),
  });
  expect_refused({.what = "a type that is none",
                  .call = [] { Snapshot().tensor("t", DType(200), {}, 1, std::span<const std::byte>()); },
                  .words = {"\"t\"", "type"}});
}

TEST(OptionValues, OfAnAllocatorAreBothFunctionsOrNone) {
  const auto take = [](std::size_t bytes) { return ::operator new (bytes, std::align_val_t{64}); };
  const auto give = [](void* memory, std::size_t) { ::operator delete (memory, std::align_val_t{64}); };
  expect_refused({
      {.what = "no release",
       .call = [&] { Loader(told(10), {.allocator = {.allocate = take}}); },
       .words = {"release is empty"}},
      {.what = "no allocate",
       .call = [&] { Loader(told(10), {.allocator = {.release = give}}); },
       .words = {"allocate is empty"}},
      {.what = "of a stream loader",
       .call = [&] { StreamLoader(told_stream(1), {.allocator = {.allocate = take}}); },
       .words = {"release is empty"}},
  });
}

TEST(OptionValues, AtTheirLargestAreTaken) {
  const auto source = told(10);
  Loader loader(source, {.global_batch_size = kMaxBatchSize,
                         .shards = kMaxShards,
                         .interleave = kMost,
                         .block = {.samples = kMost, .blocks = kMost},
                         .epochs = kMost,
                         .workers = 0,
                         .read_ahead_batches = 65'536,
                         .read_ahead_bytes = kMost,
                         .bad_samples = {.max_skipped = kMost}});
  EXPECT_EQ((*loader.next()).size(), 10);
  StreamLoader stream(as_stream(source, 3), {.epochs = kMost,
                                             .workers = 0,
                                             .read_ahead_batches = 65'536,
                                             .read_ahead_bytes = kMost,
                                             .deadline = milliseconds::max()});
  EXPECT_EQ((*stream.next()).size(), 10);
  Loader(source, {.shuffle = Shuffle::block, .block = {.samples = kMost, .blocks = kMost}, .workers = 0})
      .next();
}

}  // namespace rota::test::option_values_test
