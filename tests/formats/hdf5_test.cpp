#include "formats/h5py.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::hdf5_test {

class Hdf5 : public testing::Test {
 public:
  TemporaryDirectory directory;
};

std::vector<std::string> names(const Source& source) {
  std::vector<std::string> result;
  for (const Field& field : source.fields()) result.push_back(field.name);
  return result;
}

TEST_F(Hdf5, ReadsAllDatasetsOfNumbersAtAnyDepthByName) {
  const auto source = open_hdf5(h5py(directory, "a.h5", R"(
f['y'] = np.arange(4, dtype='f4')
f['g/h/x'] = np.arange(8, dtype='i2').reshape(4, 2)
f['g/label'] = ['a', 'b', 'c', 'd']
f['version'] = 3
f['g/rec'] = np.zeros(7, dtype=[('a', 'i4')])
)"));
  EXPECT_THAT(names(*source), ElementsAre("g/h/x", "y"));
  const Samples samples(*source, ids({3, 0}));
  EXPECT_THAT(samples.values<std::int16_t>(0, 0), ElementsAre(6, 7));
  EXPECT_THAT(samples.values<float>(1, 0), ElementsAre(3.F));
  EXPECT_THAT(samples.values<std::int16_t>(0, 1), ElementsAre(0, 1));
}

TEST_F(Hdf5, ReadsTheDatasetsThatWereNamedInThatOrder) {
  const auto path = h5py(directory, "a.h5", "for n in 'xyz': f[n] = np.full(3, ord(n), 'u1')");
  const auto source = open_hdf5(path, {.datasets = {"/z", "x"}});
  EXPECT_THAT(names(*source), ElementsAre("z", "x"));
  const Samples samples(*source, ids({1}));
  EXPECT_EQ(samples.sample(0, 0) + samples.sample(1, 0), "zx");
}

TEST_F(Hdf5, KnowsTheTypesThatNumpyHas) {
  const auto source = open_hdf5(h5py(directory, "a.h5", R"(
for i, t in enumerate(['?', 'i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8', 'f2', 'f4', 'f8']):
    f[chr(97 + i)] = np.ones(2, dtype=t)
)"));
  std::vector<DType> types;
  for (const Field& field : source->fields()) types.push_back(field.dtype);
  EXPECT_THAT(types, ElementsAre(DType::boolean, DType::int8, DType::int16, DType::int32, DType::int64,
                                 DType::uint8, DType::uint16, DType::uint32, DType::uint64, DType::float16,
                                 DType::float32, DType::float64));
}

TEST_F(Hdf5, ReadsRaggedPairsOfValuesAndOffsets) {
  const auto source = open_hdf5(h5py(directory, "a.h5", R"(
f['t'] = np.arange(12, dtype='i4').reshape(6, 2)
f['t_offsets'] = np.array([0, 1, 1, 4, 6], dtype='u4')
f['y'] = np.arange(4.0)
)"));
  ASSERT_EQ(source->size(), 4);
  EXPECT_EQ(source->fields()[0], (Field{"t", DType::int32, {2}, true}));
  const Samples samples(*source, ids({2, 0, 1, 3, 2}));
  EXPECT_THAT(samples.values<std::int32_t>(0, 0), ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(samples.values<std::int32_t>(0, 1), ElementsAre(0, 1));
  EXPECT_THAT(samples.values<std::int32_t>(0, 2), ElementsAre());
  EXPECT_THAT(samples.values<std::int32_t>(0, 3), ElementsAre(8, 9, 10, 11));
  EXPECT_EQ(samples.sample(0, 4), samples.sample(0, 0));
}

TEST_F(Hdf5, ReadsOffsetsAsAFieldWhereTheyAreNamedAlone) {
  const auto path = h5py(directory, "a.h5", "f['t'] = np.arange(6)\nf['t_offsets'] = np.array([0, 2, 6])");
  EXPECT_EQ(open_hdf5(path, {.datasets = {"t_offsets"}})->size(), 3);
  EXPECT_EQ(open_hdf5(path, {.datasets = {"t", "t_offsets"}})->size(), 2);
  EXPECT_EQ(open_hdf5(path, {.datasets = {"t"}})->size(), 2);
}

class Hdf5Join : public Hdf5 {
 protected:
  // 300 files of 0, 1, 2, 3, 0, ... samples, whose values count up over all files.
  void write_files(int count) const {
    h5py(directory, "script.h5", "import shutil\nn = 0\nfor i in range(" + std::to_string(count) + R"():
    os.makedirs('d/%d' % (i // 100), exist_ok=True)
    with h5py.File('d/%d/%03d.%s' % (i // 100, i, ['h5', 'hdf5'][i % 2]), 'w') as g:
        rows = np.arange(n, n + i % 4)
        g.create_dataset('x', data=rows)
        g.create_dataset('z', data=rows * 10, **(dict(chunks=(min(2, len(rows)),), compression='gzip') if len(rows) else {}))
        g['t'] = np.repeat(rows, rows % 5)
        g['t_offsets'] = np.concatenate([[0], np.cumsum(rows % 5)])
        n += i % 4
open('d/readme.txt', 'w').close()
)");
  }

  static void expect_counting(const Source& source, const Ids& wanted) {
    const Samples samples(source, wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const std::int64_t id = wanted[i].value;
      const std::vector<std::int64_t> repeated(static_cast<std::size_t>(id % 5), id);
      ASSERT_EQ(samples.values<std::int64_t>(0, i), repeated);
      ASSERT_THAT(samples.values<std::int64_t>(1, i), ElementsAre(id));
      ASSERT_THAT(samples.values<std::int64_t>(2, i), ElementsAre(id * 10));
    }
  }
};

TEST_F(Hdf5Join, PutsFilesOneAfterTheOtherInTheOrderOfTheirNames) {
  write_files(10);
  const auto source = open_hdf5(directory / "d");
  ASSERT_EQ(source->size(), 13);
  expect_counting(*source, all_ids(*source));
  EXPECT_EQ(source->where({3}), (directory / "d/0/003.hdf5").string() + ", row 0");
}

TEST_F(Hdf5Join, KeepsFewFilesOpenHoweverManyThereAre) {
  write_files(300);
  const auto open_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = open_descriptors();
  const auto source = open_hdf5(directory / "d");
  EXPECT_LT(open_descriptors() - before, 10);
  std::mt19937_64 random(3);
  expect_counting(*source, random_ids(*source, 2000, random));
}

TEST_F(Hdf5Join, TakesTheFilesOfAGlob) {
  write_files(10);
  EXPECT_EQ(open_hdf5(directory / "d/0/*.hdf5")->size(), 1 + 3 + 1 + 3 + 1);
}

TEST_F(Hdf5Join, IsReadByManyThreadsAtOnce) {
  write_files(40);
  const auto source = open_hdf5(directory / "d");
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int round = 0; round < 20; ++round) expect_counting(*source, random_ids(*source, 200, random));
    });
  }
}

TEST_F(Hdf5, HasTheSameFingerprintWhereverItLies) {
  const TemporaryDirectory other;
  const auto script = "f['x'] = np.arange(5)";
  const auto one = h5py(directory, "a.h5", script);
  h5py(other, "a.h5", "f['x'] = np.arange(5) * 2");
  EXPECT_EQ(open_hdf5(one)->fingerprint(), open_hdf5(other.path())->fingerprint());
}

TEST_F(Hdf5, ChangesItsFingerprintWithNamesTypesAndExtents) {
  const auto fingerprint = [&](std::string_view name, std::string_view script) {
    return open_hdf5(h5py(directory, name, script))->fingerprint();
  };
  const std::vector<Fingerprint> all = {
      fingerprint("a.h5", "f['x'] = np.arange(5)"),
      fingerprint("b.h5", "f['x'] = np.arange(5)"),
      fingerprint("a.h5", "f['y'] = np.arange(5)"),
      fingerprint("a.h5", "f['x'] = np.arange(5, dtype='i4')"),
      fingerprint("a.h5", "f['x'] = np.arange(6)"),
      fingerprint("a.h5", "f['x'] = np.arange(10).reshape(5, 2)"),
      fingerprint("a.h5", "f['x'] = np.arange(9)\nf['x_offsets'] = np.array([0, 1, 2, 3, 4, 9])"),
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(all[i], all[j]) << i << " and " << j;
  }
}

TEST_F(Hdf5, MayHaveNoSamplesAndRowsOfNothing) {
  const auto empty = open_hdf5(h5py(directory, "a.h5", "f['x'] = np.zeros((0, 3))"));
  EXPECT_EQ(empty->size(), 0);
  const auto hollow = open_hdf5(h5py(directory, "b.h5", "f['x'] = np.zeros((3, 0))"));
  EXPECT_EQ(Samples(*hollow, ids({2, 0})).sample(0, 1), "");
}

}  // namespace rota::test::hdf5_test
