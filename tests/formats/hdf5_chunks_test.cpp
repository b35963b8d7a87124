// Compressed chunks of many rows: each is decoded once where memory allows, whatever the order, the workers
// and what is made of the rows.

#include "formats/hdf5/chunk_memory.hpp"
#include "formats/open_files.hpp"
#include "formats/python.hpp"
#include "messages.hpp"
#include "rota/loader.hpp"
#include "rota/windows.hpp"

namespace rota::test::hdf5_chunks_test {

constexpr std::int64_t kRows = 2400;
constexpr std::int64_t kChunks = 100;
constexpr std::int64_t kBytes = kRows * 256;  // decoded
constexpr const char* kWriter = R"(
import h5py, numpy as np
def rows(first, count): return np.repeat(np.arange(first, first + count, dtype='i4'), 64).reshape(count, 64)
)";

class Hdf5Chunks : public PythonTest {
 protected:
  Hdf5Chunks() : PythonTest(kWriter) {
    write(
        "with h5py.File('a.h5', 'w') as f:\n"
        "    f.create_dataset('x', data=rows(0, 2400), chunks=(24, 64), compression='gzip', shuffle=True)\n");
  }
  std::shared_ptr<const Source> open_with(std::int64_t decoded_bytes) const {
    return open(Catalog(directory_ / "a.h5", {.decoded_bytes = decoded_bytes}), "hdf5");
  }
};

// Each value of a row says which it is.
void expect_right(const Batch& batch) {
  if (batch.size() == 0) return;
  const auto values = batch.tensor(0).as<std::int32_t>();
  const std::size_t row = values.size() / static_cast<std::size_t>(batch.size());
  for (std::size_t i = 0; i < batch.ids().size(); ++i)
    EXPECT_EQ(values[i * row + row - 1], batch.ids()[i].value);
}

LoaderStats read_all(const std::shared_ptr<const Source>& source, LoaderOptions options, World world = {}) {
  options.global_batch_size = 32;
  Loader loader(source, options, world);
  std::int64_t samples = 0;
  while (auto batch = loader.next()) {
    expect_right(*batch);
    samples += batch->size();
  }
  if (world.size == 1) EXPECT_EQ(samples, source->size());
  return loader.stats();
}

struct Case {
  const char* name;
  std::int64_t decoded_bytes;
  LoaderOptions options;
};

class Hdf5ChunksInOrder : public Hdf5Chunks, public WithParamInterface<Case> {};

TEST_P(Hdf5ChunksInOrder, AreDecodedOnce) {
  for (const int workers : {0, 1, 3}) {
    LoaderOptions options = GetParam().options;
    options.workers = workers;
    const LoaderStats stats = read_all(open_with(GetParam().decoded_bytes), options);
    EXPECT_EQ(stats.decodes, kChunks) << workers;
    EXPECT_EQ(stats.chunks, kChunks);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Orders, Hdf5ChunksInOrder,
    Values(Case{"global", 2 * kBytes, {}}, Case{"none", kBytes / 16, {.shards = 1, .shuffle = Shuffle::none}},
           Case{"within", kBytes / 4, {.shards = 20, .interleave = 2, .shuffle = Shuffle::within}},
           Case{"unit_shards",
                kBytes / 4,
                {.shards = kUnitShards, .interleave = 10, .shuffle = Shuffle::within}},
           Case{"unit_blocks", kBytes / 4, {.shards = 1, .shuffle = Shuffle::block, .block = {0, 8}}}),
    [](const auto& made) { return made.param.name; });

// Of 24 rows of a chunk, each by itself would be decoded 24 times; of a quarter of the chunks that are kept
// as wholes, 18 times.
TEST_F(Hdf5Chunks, AreDecodedAFewTimesWhereMemoryHoldsAQuarter) {
  const LoaderStats stats = read_all(open_with(kBytes / 4), {.workers = 2});
  EXPECT_GT(stats.decodes, kChunks);
  EXPECT_LT(stats.decodes, 5 * kChunks);
}

TEST_F(Hdf5Chunks, AreDecodedByEachRankAtMostOnce) {
  for (const int ranks : {1, 2, 4}) {
    std::int64_t by_shard = 0;
    std::int64_t global = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const World world{.rank = rank, .size = ranks};
      const LoaderOptions options{
          .shards = kUnitShards, .interleave = 8, .shuffle = Shuffle::within, .rank_split = Split::by_shard};
      by_shard += read_all(open_with(kBytes / 4), options, world).decodes;
      global += read_all(open_with(2 * kBytes), {}, world).decodes;
    }
    EXPECT_EQ(by_shard, kChunks);
    EXPECT_LE(global, ranks * kChunks);
  }
}

// Two loaders over one source, in memory for a quarter of it; one of them goes back and on, and changes its
// world.
TEST_F(Hdf5Chunks, AreRightWhereverLoadersGo) {
  const auto source = open_with(kBytes / 4);
  Loader one(source, {.seed = 1, .workers = 2});
  auto other = std::make_unique<Loader>(source, LoaderOptions{.seed = 2, .workers = 2});
  Position back;
  for (int step = 0; step < 120; ++step) {
    if (step == 20) back = one.position();
    if (step == 50) one.seek(back);
    if (step == 60) other.reset();
    if (step == 70) one.rescale({.rank = 1, .size = 3});
    if (const auto batch = one.next()) expect_right(*batch);
    const auto batch = other ? other->next() : std::nullopt;
    if (batch) expect_right(*batch);
  }
  EXPECT_EQ(read_all(source, {}).samples, kRows);
}

TEST_F(Hdf5Chunks, OfWindowsJoinsAndSplitsAreKeptToo) {
  const LoaderOptions in_order{.shards = 1, .shuffle = Shuffle::none};
  const auto rows = [&] { return open_with(kBytes / 4); };
  EXPECT_EQ(read_all(rows(), in_order).decodes, kChunks);
  Loader windowed(windows(rows(), {.length = 48, .stride = 7}), in_order);
  while (windowed.next()) {
  }
  EXPECT_EQ(windowed.stats().decodes, kChunks);
  for (const auto& source : {join({rows(), rows()}), split(rows(), {0.5, 0.5}, 7)[0]}) {
    Loader loader(source, {});
    while (loader.next()) {
    }
    EXPECT_LE(loader.stats().decodes, source->size() / 24 * 7);
  }
}

TEST_F(Hdf5Chunks, AreDecodedOnceForAllThreads) {
  const auto source = open_with(2 * kBytes);
  in_threads(4, [&](std::size_t /*thread*/) {
    const Samples samples(*source, all_ids(*source));
    EXPECT_EQ(samples.values<std::int32_t>(0, 77)[0], 77);
  });
  EXPECT_EQ(read_all(source, {}).decodes, 0) << "all are kept";
}

TEST_F(Hdf5Chunks, ThatAreDamagedAreNamedByEachThreadThatWantsThem) {
  write("with h5py.File('a.h5', 'r+') as f: f['x'].id.write_direct_chunk((48, 0), b'no chunk')\n");
  const auto source = open_with(2 * kBytes);
  in_threads(3, [&](std::size_t thread) {
    for (int i = 0; i < 20; ++i) {
      const auto at = static_cast<std::int64_t>(48 + (7 * thread) % 24);
      EXPECT_THAT(reading(*source, {at}), is_error(corrupt, {"a.h5", "\"/x\"", "8 bytes cannot be decoded"}));
    }
  });
  EXPECT_FALSE(reading(*source, {47, 72}));
}

TEST_F(Hdf5Chunks, MakeUnitsOfTheFilesTheyAreIn) {
  write(R"(
for name, n in dict(b=100, c=24, d=1, **{'e%d' % i: 24 for i in range(20)}).items():
    with h5py.File('many-%s.h5' % name, 'w') as f: f.create_dataset('x', data=rows(0, n), chunks=(min(24, n), 64), compression='lzf')
with h5py.File('ragged.h5', 'w') as f:
    f.create_dataset('t', data=np.arange(100), chunks=(10,), compression='gzip')
    f['t_offsets'] = np.array([0, 5, 10, 11, 35, 39, 100])
with h5py.File('plain.h5', 'w') as f: f['x'] = rows(0, 10)
)");
  Numbers units{24, 24, 24, 24, 4, 24, 1};
  units.resize(units.size() + 20, 24);
  testing::internal::CaptureStderr();  // where HDF5 would tell what several threads look for in vain
  EXPECT_THAT(open(directory_.path() / "many-*.h5", "hdf5")->unit_sizes(), ElementsAreArray(units));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(open(directory_ / "ragged.h5", "hdf5")->unit_sizes(), ElementsAre(2, 2, 2));
  const auto plain = open(directory_ / "plain.h5", "hdf5");
  EXPECT_THAT(plain->unit_sizes(), IsEmpty());
  EXPECT_ERROR(Loader(plain, {.shuffle = Shuffle::block, .block = {0, 4}}), invalid_argument, {"unit_sizes"});
  EXPECT_ERROR(Loader(plain, {.shards = kUnitShards}), invalid_argument, {"unit_sizes"});
}

// As h5py, HDF5 and its registered plug-ins write them, which h5py needs not know to have them put there.
TEST_F(Hdf5Chunks, OfOtherFiltersAreRead) {
  write(R"(
import struct
data = rows(0, 48)
with h5py.File('a.h5', 'w') as f:
    for name, options in dict(lzf=dict(compression='lzf'), sum=dict(fletcher32=True), both=dict(compression='gzip', shuffle=True, fletcher32=True),
                              offset=dict(scaleoffset=0)).items():
        f.create_dataset(name, data=data, chunks=(24, 30), **options)
    p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    p.set_chunk((24, 64))
    p.set_filter(32004, h5py.h5z.FLAG_OPTIONAL, ())
    d = h5py.h5d.create(f.id, b'lz4', h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((48, 64)), p)
    raw = data[:24].tobytes()
    d.write_direct_chunk((0, 0), struct.pack('>QI', len(raw), 4000) + struct.pack('>I', 4000) + raw[:4000] + struct.pack('>I', len(raw) - 4000) + raw[4000:])
    run = bytes([0x1f, 7, 1, 0]) + b'\xff' * 23 + bytes([6144 - 5 - 1 - 4 - 15 - 23 * 255]) + b'\x50' + b'\x07' * 5
    d.write_direct_chunk((24, 0), struct.pack('>QI', 6144, 1 << 20) + struct.pack('>I', len(run)) + run)
)");
  const auto source = open(directory_ / "a.h5", "hdf5");
  ASSERT_THAT(field_names(*source), ElementsAre("both", "lz4", "lzf", "offset", "sum"));
  const Samples samples(*source, all_ids(*source));
  for (std::size_t i = 0; i < 48; ++i) {
    for (std::size_t f = 0; f < 5; ++f) {
      const int expected = f == 1 && i >= 24 ? 0x07070707 : static_cast<int>(i);
      EXPECT_THAT(samples.values<std::int32_t>(f, i), Each(expected)) << f << " " << i;
    }
  }
}

// Of rows, of columns, and of the file itself.
TEST_F(Hdf5Chunks, ThatAVirtualDatasetPointsToAreRead) {
  write(R"(
for i in 0, 1: h5py.File('part%d.hdf' % i, 'w').create_dataset('x', data=rows(24 * i, 24), chunks=(24, 64), compression='gzip')
with h5py.File('a.h5', 'w') as f:
    f['own'] = rows(0, 48)[:, :32]
    v, w = h5py.VirtualLayout((48, 64), 'i4'), h5py.VirtualLayout((48, 64), 'i4')
    for i in 0, 1:
        v[24 * i:24 * i + 24] = h5py.VirtualSource('part%d.hdf' % i, 'x', (24, 64))
        w[:, 32 * i:32 * i + 32] = h5py.VirtualSource('.', 'own', (48, 32))
    f.create_virtual_dataset('by_rows', v)
    f.create_virtual_dataset('by_columns', w)
    h = h5py.VirtualLayout((48, 64), 'i4')
    h[:24] = h5py.VirtualSource('part0.hdf', 'x', (24, 64))
    f.create_virtual_dataset('half', h)
)");
  const SinkMessages messages;
  const auto source = open(directory_ / "a.h5", Hdf5Options{.datasets = {"by_rows", "by_columns"}});
  EXPECT_THAT(messages.lines,
              ElementsAre(HasSubstr("\"by_rows\", \"by_columns\" are views or have filters")));
  for (const std::size_t i : {0U, 23U, 24U, 47U}) {
    const Samples samples(*source, ids({static_cast<std::int64_t>(i)}));
    for (const std::size_t f : {0U, 1U}) EXPECT_THAT(samples.values<std::int32_t>(f, 0), Each(i));
  }
  EXPECT_ERROR(open(directory_ / "a.h5", Hdf5Options{.datasets = {"half"}}), unsupported,
               {"\"/half\"", "gaps"});
  const auto unread = open(directory_ / "a.h5", Hdf5Options{.datasets = {"by_rows"}});
  fs::remove(directory_ / "part1.hdf");
  EXPECT_THAT(reading(*open(directory_ / "a.h5", Hdf5Options{.datasets = {"by_columns"}}), {7}),
              Eq(std::nullopt));
  EXPECT_THAT(reading(*unread, {7}), is_error(not_found, {"part1.hdf", "\"/by_rows\""}));
  EXPECT_ERROR(open(directory_ / "a.h5", "hdf5"), not_found, {"part1.hdf", "\"/by_rows\""});
}

TEST_F(Hdf5Chunks, ThatMemoryCannotHoldAreRefused) {
  if (memory_bytes() / 4 > 8e9) GTEST_SKIP() << "this machine could hold them";
  write(R"(
with h5py.File('a.h5', 'w') as f:
    d = f.create_dataset('x', (1, 2**32 - 64), 'u1', chunks=(1, 2**32 - 64), compression='gzip', shuffle=True)
    d.id.write_direct_chunk((0, 0), bytes(5 << 20))
)");
  EXPECT_ERROR(open(directory_ / "a.h5", "hdf5"), unsupported, {"\"/x\"", "take 8589934464 bytes"});
}

TEST_F(Hdf5Chunks, WhoseFilterIsNotThereAreNamed) {
  write(R"(
p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
p.set_chunk((24,))
p.set_filter(31999, h5py.h5z.FLAG_OPTIONAL, ())
with h5py.File('a.h5', 'w') as f:
    d = h5py.h5d.create(f.id, b'x', h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((48,)), p)
    d.write_direct_chunk((0,), b'whatever')
    v = h5py.VirtualLayout((48,), 'i4')
    v[:] = h5py.VirtualSource('.', 'x', (48,))
    f.create_virtual_dataset('view', v)
    f.create_dataset('left_to_HDF5', data=range(48), chunks=(24,), scaleoffset=0, compression='lzf')
)");
  for (const std::string name : {"x", "view", "left_to_HDF5"}) {
    EXPECT_ERROR(open(directory_ / "a.h5", Hdf5Options{.datasets = {name}}), unsupported,
                 {name, name == "left_to_HDF5" ? "filter 32000" : "filter 31999", "HDF5_PLUGIN_PATH"});
  }
}

// Of which another thread decodes the first.
TEST_F(Hdf5Chunks, ThatAreNeededNextAreGivenToWhoWouldWait) {
  Hdf5Dataset dataset;
  dataset.extent = {72, 64};
  dataset.chunk = {24, 64};
  ChunkMemory memory(3 * 24 * 64 + 1000);
  std::array<std::byte, 64> row{};
  const RowPiece wanted{0, 5, 1, row.data()};
  ChunkMemory::Claim first;
  ChunkMemory::Plan plan(memory, 200);
  std::vector<ChunkMemory::Rows> told;
  for (const std::int64_t slab : {0, 2, 1}) told.push_back({&dataset, slab, 0, 24, slab});
  plan.tell(told, 72);
  EXPECT_EQ(memory.take(dataset, {&wanted, 1}, false, first), ChunkMemory::Answer::claimed);
  ChunkMemory::Claim again;
  EXPECT_EQ(memory.take(dataset, {&wanted, 1}, false, again), ChunkMemory::Answer::coming);
  ChunkMemory::Claim next;
  const auto slab = memory.take_next(next);
  ASSERT_TRUE(slab && next.is_whole());
  EXPECT_EQ(slab->slab, 2);
  EXPECT_EQ(slab->dataset, &dataset);
  ChunkMemory::Claim last;
  EXPECT_EQ(memory.take_next(last)->slab, 1);
  EXPECT_FALSE(memory.take_next(again));
  std::memset(next.kept()[0].to, 9, 24 * 64);
  next.publish();
  const RowPiece of_next{2, 3, 1, row.data()};
  EXPECT_EQ(memory.take(dataset, {&of_next, 1}, true, again), ChunkMemory::Answer::copied);
  EXPECT_THAT(row, Each(std::byte{9}));
  EXPECT_EQ(memory.decoded().decodes, 3);
}

// Which has told what it will read, and does not go on.
TEST_F(Hdf5Chunks, OfALoaderAtRestDoNotTakeAllMemory) {
  const auto source = open_with(kBytes / 4);
  Loader resting(source, {.global_batch_size = 32, .shuffle = Shuffle::global, .workers = 1});
  expect_right(*resting.next());
  resting.warm_up();  // what it decodes meanwhile would count
  for (const bool has_ended : {false, true}) {
    if (has_ended) Loader(source, resting.options()).warm_up();
    const LoaderStats stats = read_all(source, {.shards = 1, .shuffle = Shuffle::block, .block = {0, 4}});
    EXPECT_LE(stats.decodes, 2 * kChunks) << has_ended;
  }
}

// One that cannot be had is no fault of what was wanted.
TEST_F(Hdf5Chunks, ThatAreDecodedAheadHarmNobody) {
  write(R"(
for i in range(2):
    with h5py.File('ahead-%d.h5' % i, 'w') as f: f.create_dataset('x', data=rows(480 * i, 480), chunks=(240, 64), compression='gzip')
)");
  for (int round = 0; round < 20; ++round) {
    const auto copy = directory_ / fmt::format("round{}", round);
    fs::create_directory(copy);
    for (const char* name : {"ahead-0.h5", "ahead-1.h5"}) fs::copy(directory_ / name, copy / name);
    const auto source = open(Catalog(copy, {.max_open_files = 1}), "hdf5");
    fs::remove(copy / "ahead-1.h5");
    Loader loader(source, {.global_batch_size = 16, .shuffle = Shuffle::none, .workers = 8});
    for (int batch = 0; batch < 480 / 16; ++batch) ASSERT_NO_THROW(expect_right(*loader.next()));
    EXPECT_ERROR(loader.next(), not_found, {"ahead-1.h5"});
  }
}

TEST_F(Hdf5Chunks, OfEachFilterAreCorruptWhereTheyAreDamaged) {
  const auto is_named = is_error(corrupt, {"a.h5", "\"/x\"", "byte "});
  for (const std::string options : {"compression='gzip'", "compression='lzf'", "fletcher32=True"}) {
    write(
        "with h5py.File('a.h5', 'w') as f:\n"
        "    x = f.create_dataset('x', data=rows(0, 48), chunks=(24, 64), " +
        options +
        ")\n    f.flush()\n"
        "    mask, chunk = x.id.read_direct_chunk((0, 0))\n"
        "    x.id.write_direct_chunk((0, 0), bytes(b ^ 0x55 for b in chunk[:40]) + chunk[40:-1], mask)\n");
    EXPECT_THAT(reading(*open(directory_ / "a.h5", "hdf5"), {3}), is_named) << options;
  }
  for (const std::string filter : {"32004", "32015"}) {  // lz4, zstd
    write(
        "p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)\n"
        "p.set_chunk((24, 64))\np.set_filter(" +
        filter +
        ", h5py.h5z.FLAG_OPTIONAL, ())\n"
        "with h5py.File('a.h5', 'w') as f:\n"
        "    x = h5py.h5d.create(f.id, b'x', h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((48, 64)), p)\n"
        "    x.write_direct_chunk((0, 0), bytes(range(200)))\n");
    EXPECT_THAT(reading(*open(directory_ / "a.h5", "hdf5"), {3}), is_named) << filter;
  }
}

}  // namespace rota::test::hdf5_chunks_test
