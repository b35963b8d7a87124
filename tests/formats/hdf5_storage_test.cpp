#include "formats/python.hpp"
#include "hdf5/hdf5.hpp"

namespace rota::test::hdf5_storage_test {

using Hdf5Storage = PythonTest;

// What the kernel counts of this process: "rchar" bytes and "syscr" calls that read.
std::int64_t counter(const std::string& name) {
  std::ifstream file("/proc/self/io");
  for (std::string key; file >> key;) {
    std::int64_t value = 0;
    file >> value;
    if (key == name + ":") return value;
  }
  return -1;
}

TEST_F(Hdf5Storage, NeverWrittenReadsAsTheFillValue) {
  const auto source = open_h5(R"(
f.create_dataset('a', (3,), 'i4', fillvalue=7)
f.create_dataset('b', (3,), 'i4')
f.create_dataset('c', (3,), 'i4', chunks=(2,), fillvalue=-1)
)");
  const Samples samples(*source, ids({2, 0}));
  EXPECT_THAT(samples.values<std::int32_t>(0, 0), ElementsAre(7));
  EXPECT_THAT(samples.values<std::int32_t>(1, 0), ElementsAre(0));
  EXPECT_THAT(samples.values<std::int32_t>(2, 1), ElementsAre(-1));
}

TEST_F(Hdf5Storage, CompactDatasetsAreRead) {
  const auto source = open_h5(R"(
p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
p.set_layout(h5py.h5d.COMPACT)
d = h5py.h5d.create(f.id, b'a', h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((4, 2)), p)
d.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(8, dtype='i4'))
)");
  EXPECT_THAT(Samples(*source, ids({3})).values<std::int32_t>(0, 0), ElementsAre(6, 7));
}

TEST_F(Hdf5Storage, FiltersLeftOutOfAChunkAreLeftOutInReading) {
  const auto source = open_h5(R"(
import zlib
d = f.create_dataset('a', (8,), 'u2', chunks=(2,), compression='gzip', shuffle=True)
d.id.write_direct_chunk((0,), np.array([1, 2], 'u2').tobytes(), filter_mask=3)
d.id.write_direct_chunk((2,), zlib.compress(np.array([3, 4], 'u2').tobytes()), filter_mask=1)
d.id.write_direct_chunk((4,), bytes([5, 6, 0, 0]), filter_mask=2)
d.id.write_direct_chunk((6,), zlib.compress(bytes([7, 8, 0, 0])), filter_mask=0)
)");
  const Samples samples(*source, all_ids(*source));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_THAT(samples.values<std::uint16_t>(0, i), ElementsAre(i + 1));
}

// As the filter 32015 of hdf5plugin writes chunks, which h5py needs not know to have them put where they
// belong.
TEST_F(Hdf5Storage, ZstdIsUndoneWithAndWithoutShuffle) {
  const auto source = open_h5(R"(
from writers import zstd
for name in ('plain', 'shuffled'):
    p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    p.set_chunk((100,))
    if name == 'shuffled':
        p.set_shuffle()
    p.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))
    d = h5py.h5d.create(f.id, name.encode(), h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((200,)), p)
    for at in (0, 100):
        chunk = np.arange(at, at + 100, dtype='i4')
        raw = np.frombuffer(chunk.tobytes(), 'u1').reshape(100, 4)
        d.write_direct_chunk((at,), zstd((raw.T if name == 'shuffled' else raw).tobytes(), "--stream-size=400"))
)");
  ASSERT_EQ(source->fields().size(), 2U);
  const Samples samples(*source, all_ids(*source));
  for (std::size_t i = 0; i < 400; ++i) {
    EXPECT_THAT(samples.values<std::int32_t>(i % 2, i / 2), ElementsAre(i / 2));
  }
}

TEST_F(Hdf5Storage, EdgeChunksThatWereNotFilteredAreRead) {
  const auto path = at("a.h5");
  {
    const auto guard = hdf5::lock();
    const hdf5::Properties access(H5Pcreate(H5P_FILE_ACCESS), "");
    H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    const hdf5::File file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), "");
    const hsize_t extent = 10;
    const hsize_t chunk = 4;
    const hdf5::Dataspace space(H5Screate_simple(1, &extent, nullptr), "");
    const hdf5::Properties properties(H5Pcreate(H5P_DATASET_CREATE), "");
    H5Pset_chunk(properties.get(), 1, &chunk);
    H5Pset_deflate(properties.get(), 6);
    H5Pset_chunk_opts(properties.get(), H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
    const hdf5::Dataset data(
        H5Dcreate2(file.get(), "x", H5T_STD_I64LE, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
        "");
    const std::array<std::int64_t, 10> values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    H5Dwrite(data.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  }
  const Samples samples(*open(path, "hdf5"), ids({9, 3}));
  EXPECT_THAT(samples.values<std::int64_t>(0, 0), ElementsAre(9));
  EXPECT_THAT(samples.values<std::int64_t>(0, 1), ElementsAre(3));
}

TEST_F(Hdf5Storage, DecodesAChunkOnceHoweverManyOfItsRowsAreRead) {
  const auto source = open_h5(R"(
r = np.random.default_rng(1)
f.create_dataset('a', data=r.integers(2**60, size=(4000, 4)), chunks=(2000, 4), compression='gzip')
)");
  std::mt19937_64 random(1);
  const Ids wanted = random_ids(*source, 1000, random);
  const std::int64_t before = counter("rchar");
  const Samples samples(*source, wanted);
  EXPECT_LT(counter("rchar") - before, 4000 * 4 * 8 + 4096);
}

TEST_F(Hdf5Storage, NeighboursAreReadInOneGo) {
  const auto source = open_h5(
      "f['a'] = np.arange(4000)\nf['t'] = np.arange(8000)\n"
      "f['t_offsets'] = np.arange(0, 8001, 2)\n"
      "f.create_dataset('z', data=np.arange(4000), chunks=(1000,))");
  const std::int64_t before = counter("syscr");
  const Samples samples(*source, all_ids(*source), false);
  EXPECT_LT(counter("syscr") - before, 20);
  EXPECT_THAT(samples.values<std::int64_t>(2, 3999), ElementsAre(3999));
}

TEST_F(Hdf5Storage, RowsOfPlainChunksAreReadAlone) {
  const auto source = open_h5("f.create_dataset('a', data=np.arange(100000), chunks=(50000,))");
  const std::int64_t before = counter("rchar");
  EXPECT_THAT(Samples(*source, ids({77777})).values<std::int64_t>(0, 0), ElementsAre(77777));
  EXPECT_LT(counter("rchar") - before, 4096);
}

// Of each kind of index that HDF5 has: one chunk, a list without holes, fixed and growing arrays, trees.
TEST_F(Hdf5Storage, AsManyChunksAreFoundAsEveryKindOfIndexCounts) {
  write(R"(
import h5py, numpy as np
for i in range(30):
    with h5py.File('%d.h5' % i, 'w', libver=('earliest', 'latest')[i % 2]) as f:
        d = f.create_dataset('a', (8000,), 'i8', chunks=((8000,), (7,), (1,))[i % 3],
                             **(dict(maxshape=(8000,)), dict(maxshape=(8000,), compression='gzip'), dict(maxshape=(9000,)),
                                dict(maxshape=(None,)), dict(maxshape=(None,), compression='gzip'))[i % 5])
        d[100:250] = np.arange(100, 250)
        d[6000] = 6000
)");
  for (int i = 0; i < 30; ++i) {
    const Samples samples(*open(directory_ / fmt::format("{}.h5", i), "hdf5"),
                          ids({0, 100, 249, 6000, 7999}));
    Numbers read;
    for (std::size_t k = 0; k < 5; ++k) read.push_back(samples.values<std::int64_t>(0, k)[0]);
    EXPECT_THAT(read, ElementsAre(0, 100, 249, 6000, 0)) << i;
  }
}

}  // namespace rota::test::hdf5_storage_test
