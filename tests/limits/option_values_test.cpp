#include "limits/refusals.hpp"
#include "limits/told_stream.hpp"

namespace rota::test::option_values_test {

using std::chrono::milliseconds;

/// What calls `use` with options, and expects that it says which option is what, and what it must be.
template <typename Options, typename Use>
auto refuser(const std::string& task, Use use) {
  return [=](const Options& options, const std::string& option, const std::string& value,
             const std::string& range, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const Words words{task + ": " + option + " is " + value, "it must be " + range};
    refused(
        words, [&] { use(options); }, file, line);
    if constexpr (requires { options.validate(); })
      refused(
          words, [&] { options.validate(); }, file, line);
  };
}

TEST(OptionValues, OfALoaderAreRefusedByName) {
  const auto row = refuser<LoaderOptions>("make a loader", [](const auto& o) { Loader(told(10), o); });
  const std::string batch = "1 to 2^31 - 1";
  row({.global_batch_size = 0}, "global_batch_size", "0", batch);
  row({.global_batch_size = kLeast}, "global_batch_size", "-9223372036854775808", batch);
  row({.global_batch_size = std::int64_t{1} << 31}, "global_batch_size", "2147483648", batch);
  row({.global_batch_size = kTwo62}, "global_batch_size", "4611686018427387904", batch);
  row({.shards = -5}, "shards", "-5", "0 to 2^24");
  row({.shards = kMaxShards + 1}, "shards", "16777217", "0 to 2^24");
  row({.shards = kMost}, "shards", "9223372036854775807", "0 to 2^24");
  row({.interleave = -1}, "interleave", "-1", "0 or more (0 = all shards)");
  row({.shuffle = Shuffle(99)}, "shuffle", "number 99", "one of none, within, global, block");
  row({.shuffle = Shuffle(-1)}, "shuffle", "number -1", "one of none, within, global, block");
  row({.block = {.samples = -1}}, "block.samples", "-1", "0 or more (0 = the source's units)");
  row({.block = {.blocks = 0}}, "block.blocks", "0", "1 or more");
  row({.block = {.blocks = kLeast}}, "block.blocks", "-92", "1 or more");
  row({.tail = Tail(4)}, "tail", "number 4", "one of partial, carry, drop, pad");
  row({.rank_split = Split(4)}, "rank_split", "number 4",
      "one of by_sample, by_shard, interleaved, balanced");
  row({.worker_split = Split(-3)}, "worker_split", "number -3", "one of by_sample");
  row({.epochs = 0}, "epochs", "0", "1 or more");
  row({.workers = -1}, "workers", "-1", "0 to 4096");
  row({.workers = 1'000'000}, "workers", "1000000", "0 to 4096");
  row({.read_ahead_batches = 0}, "read_ahead_batches", "0", "1 to 65536");
  row({.read_ahead_batches = kMost}, "read_ahead_batches", "92", "1 to 65536");
  row({.read_ahead_bytes = -1}, "read_ahead_bytes", "-1", "0 or more");
  row({.bad_samples = {.policy = BadSamples::Policy(2)}}, "policy", "number 2", "one of fail, skip");
  row({.bad_samples = {.max_skipped = -1}}, "max_skipped", "-1", "0 or more");
  row({.bad_samples = {.io_retries = -1}}, "io_retries", "-1", "0 to 100");
  row({.bad_samples = {.io_retries = 101}}, "io_retries", "101", "0 to 100");
  const std::string wait = "0 to 86400 s";
  row({.bad_samples = {.retry_wait = milliseconds(-1)}}, "retry_wait", "-0.001 s", wait);
  row({.bad_samples = {.retry_wait = milliseconds::max()}}, "retry_wait", "92", wait);
}

TEST(OptionValues, OfALoaderAreTakenToTheirRim) {
  const std::vector<LoaderOptions> rim{
      {},
      {.global_batch_size = 1},
      {.global_batch_size = 1000},
      {.shards = 1},
      {.shards = 1000},
      {.interleave = 1},
      {.interleave = kMost},
      {.shuffle = Shuffle::block, .seed = std::numeric_limits<std::uint64_t>::max(), .block = {kMost, kMost}},
      {.workers = 0},
      {.workers = 50},
      {.read_ahead_bytes = 0},
      {.read_ahead_bytes = 1},
      {.read_ahead_bytes = kMost}};
  for (std::size_t i = 0; i < rim.size(); ++i) {
    Loader loader(told(20), rim[i]);
    std::int64_t seen = 0;
    for (const Batch& batch : loader) seen += batch.real();
    EXPECT_EQ(seen, 20) << "row " << i;
  }
}

TEST(OptionValues, OfATransformAreRefusedByName) {
  const auto nothing = [](const TransformContext&, const SampleView&, SampleOutput&) {};
  const auto no_batch = [](const Batch&, BatchOutput&) {};
  for (const auto& wrong : impossible_fields()) {
    const Transform transform{.apply = nothing, .fields = wrong.fields};
    const Collate collate{.apply = no_batch, .fields = wrong.fields};
    refused({"transform fields", wrong.why}, [&] { Loader(told(10), {.transform = transform}); });
    refused({"collate fields", wrong.why}, [&] { Loader(told(10), {.collate = collate}); });
  }
  const LoaderOptions no_function{.transform = {.fields = kOneNumber}};
  refused({"transform is missing"}, [&] { Loader(told(10), no_function); });
  refused({"transform is missing"}, [&] { no_function.validate(); });
  refused({"collate is missing"}, [&] { Loader(told(10), {.collate = {.fields = kOneNumber}}); });
  refused({"collate is without fields"}, [&] { Loader(told(10), {.collate = {.apply = no_batch}}); });
}

TEST(OptionValues, OfAStreamLoaderAreRefusedByName) {
  const auto row = refuser<StreamLoaderOptions>("make a stream loader",
                                                [](const auto& o) { StreamLoader(told_stream(2), o); });
  row({.global_batch_size = 0}, "global_batch_size", "0", "1 to 2^31 - 1");
  row({.global_batch_size = -1}, "global_batch_size", "-1", "1 to 2^31 - 1");
  row({.global_batch_size = kTwo62}, "global_batch_size", "46", "1 to 2^31 - 1");
  row({.epochs = 0}, "epochs", "0", "1 or more");
  row({.epochs = kLeast}, "epochs", "-92", "1 or more");
  row({.workers = -1}, "workers", "-1", "0 to 4096");
  row({.workers = 4097}, "workers", "4097", "0 to 4096");
  row({.read_ahead_batches = 0}, "read_ahead_batches", "0", "1 to 65536");
  row({.read_ahead_batches = 65'537}, "read_ahead_batches", "65537", "1 to 65536");
  row({.read_ahead_bytes = kLeast}, "read_ahead_bytes", "-92", "0 or more");
  row({.deadline = milliseconds(-1)}, "deadline", "-0.001 s", "0 s or more (0 = never)");
}

TEST(OptionValues, OfAStreamLoaderAreTakenToTheirRim) {
  const std::vector<StreamLoaderOptions> rim{{},
                                             {.global_batch_size = 1},
                                             {.global_batch_size = 1000},
                                             {.epochs = 2},
                                             {.workers = 0},
                                             {.workers = 9},
                                             {.read_ahead_bytes = 1},
                                             {.read_ahead_bytes = kMost},
                                             {.deadline = milliseconds::zero()},
                                             {.deadline = milliseconds::max()}};
  for (std::size_t i = 0; i < rim.size(); ++i) {
    StreamLoader loader(told_stream(4), rim[i]);
    EXPECT_EQ(samples_left(loader), 12 * rim[i].epochs) << "row " << i;
  }
}

TEST(OptionValues, OfADispatchAreRefusedByName) {
  const auto row = refuser<Dispatch>("dispatch a source", [](Dispatch dispatch) {
    dispatch.source = told_stream(1);
    StreamLoader(dispatch, {.workers = 0});
  });
  row({.shards = 0}, "shards", "0", "1 to 2^24");
  row({.shards = kMaxShards + 1}, "shards", "16777217", "1 to 2^24");
  row({.shards = std::int64_t{1} << 40}, "shards", "1099511627776", "1 to 2^24");
  row({.rank_split = Split::interleaved}, "rank_split", "number 2", "one of by_sample, by_shard");
  row({.rank_split = Split::balanced}, "rank_split", "number 3", "one of by_sample, by_shard");
  row({.rank_split = Split(99)}, "rank_split", "number 99", "one of by_sample, by_shard");
}

TEST(OptionValues, OfAdaptorsAreRefusedByName) {
  const auto documents = told(10, {{.name = "t", .dtype = DType::int32, .ragged = true}});
  const auto packing = refuser<PackOptions>("pack documents", [=](const auto& o) { pack(documents, o); });
  const auto window = refuser<WindowOptions>("make windows", [](const auto& o) { windows(told(10), o); });
  packing({.length = 0}, "length", "0", "1 to 2^31 - 1 (tokens)");
  packing({.length = kMost}, "length", "92", "1 to 2^31 - 1 (tokens)");
  packing({.threads = 0}, "threads", "0", "1 to 4096");
  packing({.threads = 1'000'000'000}, "threads", "1000000000", "1 to 4096");
  window({.length = 0}, "length", "0", "1 or more (rows)");
  window({.length = -1}, "length", "-1", "1 or more (rows)");
  window({.length = 1, .stride = 0}, "stride", "0", "1 or more (rows)");
  window({.length = 1, .stride = kLeast}, "stride", "-92", "1 or more (rows)");
  window({.stride = 0, .offsets = {0}}, "stride", "0", "1 or more (rows)");
  window({.offsets = {0, -1}}, "offsets", "-1 behind 0", "rising, each once");
  window({.offsets = {2, 2}}, "offsets", "2 behind 2", "rising, each once");
  window({.offsets = {-kTwo62 - 1}}, "offsets", "-4611686018427387905", "-4611686018427387904 to 2^62");
  window({.offsets = {kMost}}, "offsets", "92", "-4611686018427387904 to 2^62");
  window({.length = 1, .edges = Edges(2)}, "edges", "number 2", "one of drop, clamp");
  window({.length = 1, .jitter = -1}, "jitter", "-1", "0 to 2^31 (rows)");
  window({.length = 1, .jitter = (std::int64_t{1} << 31) + 1}, "jitter", "2147483649", "0 to 2^31 (rows)");
  window({.length = 1, .episodes = {5, -1, 6}}, "episodes", "-1", "0 to 2^62 (rows each)");
  window({.length = 1, .episodes = {5, kMost}}, "episodes", "92", "0 to 2^62 (rows each)");
  refused({"across_files is set", "give one of both"},
          [] { windows(told(10), {.length = 2, .across_files = true, .episodes = {10}}); });
  refused({"length is 2", "give one of both"}, [] { windows(told(10), {.length = 2, .offsets = {0}}); });
  refused({"length is 11"}, [] { windows(told(10), {.length = 11}); });
  refused({"length is 92"}, [] { windows(told(10), {.length = kMost}); });
  refused({"8 bytes each", "2^50"}, [] { windows(told(kTwo62), {.length = kTwo62}); });
  const Fields two{{.name = "a"}, {.name = "b"}};
  refused({"a window has a field", "2^50"},
          [&] { windows(told(kTwo62, two), {.length = std::int64_t{1} << 50}); });
  const auto fractions = [](std::vector<double> values) { split(told(10), values, 1); };
  refused({"fraction is -1"}, [&] { fractions({2, -1}); });
  refused({"fraction is nan"}, [&] { fractions({NAN}); });
  refused({"sum to 0"}, [&] { fractions({}); });
  refused({"sum to 1.1"}, [&] { fractions({0.9, 0.2}); });
  refused({"sum to inf"}, [&] { fractions({INFINITY}); });
}

TEST(OptionValues, OfAMixtureAreRefusedByName) {
  const auto mixture = [](Mixture mixed, const LoaderOptions& options = {.workers = 0}) {
    if (mixed.datasets.empty()) mixed.datasets = {{.source = told(10)}, {.source = told(20)}};
    Loader(mixed, options);
  };
  refused({"end is number 3", "steps"}, [&] { mixture({.end = MixtureEnd(3)}); });
  refused({"steps is 0"}, [&] { mixture({.end = MixtureEnd::steps}); });
  refused({"steps is -92"}, [&] { mixture({.end = MixtureEnd::steps, .steps = kLeast}); });
  refused({"steps is 5"}, [&] { mixture({.steps = 5}); });
  refused({"shards is 16777216", "all datasets together"},
          [&] { mixture({}, {.shards = kMaxShards, .workers = 0}); });
}

TEST(OptionValues, OfCatalogsAreRefusedByName) {
  const TemporaryDirectory directory;
  directory.write("a", "text");
  const auto listing =
      refuser<CatalogOptions>("make a catalog", [&](const auto& o) { Catalog(directory.path(), o); });
  const auto tokens =
      refuser<TokensOptions>("open token files", [&](const auto& o) { open(directory.path(), o); });
  listing({.change_detection = ChangeDetection(2)}, "change_detection", "number 2",
          "one of by_size, by_name");
  listing({.listing_threads = 0}, "listing_threads", "0", "1 to 4096");
  listing({.listing_threads = 1'000'000'000}, "listing_threads", "1000000000", "1 to 4096");
  listing({.indexing_threads = 4097}, "indexing_threads", "4097", "1 to 4096");
  listing({.max_open_files = 0}, "max_open_files", "0", "1 or more");
  listing({.access = Access(4)}, "access", "number 4", "one of cached, direct, mapped, automatic");
  listing({.shared_memory_limit = -1}, "shared_memory_limit", "-1", "0 or more");
  listing({.decoded_bytes = -1}, "decoded_bytes", "-1", "0 or more");
  tokens({.dtype = DType(77)}, "dtype", "unknown", "uint16 or uint32");
  tokens({.dtype = DType::float32}, "dtype", "float32", "uint16 or uint32");
  tokens({.length = 0}, "length", "0", "1 to 2^40");
  tokens({.length = kMost}, "length", "92", "1 to 2^40");
  tokens({.stride = -1}, "stride", "-1", "0 to 2^40");
  const Catalog lavish(directory.path(),
                       {.max_open_files = std::numeric_limits<int>::max(), .shared_memory_limit = kMost});
  EXPECT_EQ(open(lavish, "files")->size(), 1);
}

TEST(OptionValues, OfAPatternAreRefusedByName) {
  const auto pattern =
      refuser<PatternOptions>("make a catalog of a pattern", [](const auto& o) { o.validate(); });
  pattern({.files = -1}, "files", "-1", "0 to 2^40");
  pattern({.folders = kLeast}, "folders", "-92", "0 to 2^22");
  pattern({.layout = FolderLayout(9)}, "layout", "number 9", "one of round_robin, blocks, restart");
}

TEST(OptionValues, OfACheckpointPolicyAreRefusedByNameAndTakenToTheirRim) {
  const TemporaryDirectory directory;
  const auto row = refuser<CheckpointPolicy>("set a checkpoint policy", [&](const auto& policy) {
    CheckpointDirectory({}, directory / "c", policy);
  });
  row({.keep_last = 0}, "keep_last", "0", "1 or more");
  row({.keep_last = -1}, "keep_last", "-1", "1 or more");
  row({.keep_every = -1}, "keep_every", "-1", "0 or more (0 = none)");
  row({.deadline = milliseconds(-1)}, "deadline", "-0.001 s", "0 s or more (0 = never)");
  for (const CheckpointPolicy& right :
       {CheckpointPolicy{}, CheckpointPolicy{.keep_last = kMost, .keep_every = kMost},
        CheckpointPolicy{.deadline = milliseconds::zero()},
        CheckpointPolicy{.deadline = milliseconds::max()}}) {
    EXPECT_NO_THROW(right.validate());
  }
}

TEST(OptionValues, OfAnAllocatorAreBothFunctionsOrNone) {
  const Allocator take{.allocate = [](std::size_t) -> void* { return nullptr; }};
  const Allocator give{.release = [](void*, std::size_t) {}};
  refused({"release is empty"}, [&] { Loader(told(10), {.allocator = take}); });
  refused({"allocate is empty"}, [&] { Loader(told(10), {.allocator = give}); });
  refused({"release is empty"}, [&] { StreamLoader(told_stream(1), {.allocator = take}); });
  refused({"allocator"}, [&] { LoaderOptions{.allocator = give}.validate(); });
}

TEST(OptionValues, OfAWorldAreRefusedByName) {
  constexpr int kMostRanks = std::numeric_limits<int>::max();
  refused({"rank 0 of 0"}, [] { World{0, 0}.validate(); });
  refused({"rank -1 of 4"}, [] { World{-1, 4}.validate(); });
  refused({"rank 4 of 4"}, [] { World{4, 4}.validate(); });
  refused({"replica -1"}, [] { World{0, 1, -1}.validate(); });
  World{kMostRanks - 1, kMostRanks, kMostRanks}.validate();
}

TEST(OptionValues, ThatAreWordsAreRefusedWithThoseThatThereAre) {
  refused({"no such type"}, [] { parse_dtype(""); });
  refused({"float128"}, [] { parse_dtype("float128"); });
  refused({"Float32"}, [] { parse_dtype("Float32"); });
  refused({"random", "none, within, global, block"}, [] { parse_shuffle("random"); });
  refused({"cut", "partial, carry, drop, pad"}, [] { parse_tail("cut"); });
  refused({"by_shard"}, [] { parse_split("by_rank"); });
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
