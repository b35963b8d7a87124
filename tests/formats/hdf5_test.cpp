#include <sys/file.h>

#include "files/descriptor.hpp"
#include "formats/python.hpp"

namespace rota::test::hdf5_test {

using Hdf5 = PythonTest;

TEST_F(Hdf5, ReadsAllDatasetsOfNumbersAtAnyDepthByName) {
  const auto source = open_h5(R"(
f['y'] = np.arange(4, dtype='f4')
f['g/h/x'] = np.arange(8, dtype='i2').reshape(4, 2)
f['g/label'] = ['a', 'b', 'c', 'd']
f['version'] = 3
f['g/rec'] = np.zeros(7, dtype=[('a', 'i4')])
)");
  EXPECT_THAT(field_names(*source), ElementsAre("g/h/x", "y"));
  const Samples samples(*source, ids({3, 0}));
  EXPECT_THAT(samples.values<std::int16_t>(0, 0), ElementsAre(6, 7));
  EXPECT_THAT(samples.values<float>(1, 0), ElementsAre(3.F));
  EXPECT_THAT(samples.values<std::int16_t>(0, 1), ElementsAre(0, 1));
}

// As NetCDF-4 has them.
TEST_F(Hdf5, LeavesOutTheScalesOfDimensionsUnlessTheyAreNamed) {
  const auto source = open_h5(R"(
for name, n in dict(time=5, lat=3).items():
    f[name] = np.arange(n, dtype='f4')
    f[name].make_scale(name)
f['t'] = np.zeros((5, 3), 'f4')
f['t'].dims[0].attach_scale(f['time'])
)");
  EXPECT_THAT(field_names(*source), ElementsAre("t"));
  EXPECT_EQ(open(directory_ / "a.h5", Hdf5Options{.datasets = {"t", "time"}})->fields().size(), 2U);
}

TEST_F(Hdf5, TakesGroupsThatDifferByANumberAloneForSamples) {
  const std::string write_groups = R"(
for i in range(12):
    f.create_dataset('demo_%d/x' % i, data=np.full((i, 3), i, 'i2'), **(dict(compression='gzip') if i else {}))
    f['demo_%d/y' % i], f['demo_%d/z' % i], f['demo_%d/name' % i] = np.float32(i), np.full((2, 3), i), 'a name'
)";
  const auto source = open_h5(write_groups);
  ASSERT_EQ(source->size(), 12);
  EXPECT_EQ(source->fields(), (std::vector<Field>{{"x", DType::int16, {3}, true},
                                                  {"y", DType::float32, {}, false},
                                                  {"z", DType::int64, {2, 3}, false}}));
  const Samples samples(*source, ids({11, 2, 0, 10}));
  EXPECT_THAT(samples.values<std::int16_t>(0, 0), AllOf(SizeIs(33), Each(11)));
  EXPECT_THAT(samples.values<std::int16_t>(0, 2), IsEmpty());
  EXPECT_THAT(samples.values<float>(1, 1), ElementsAre(2));
  EXPECT_THAT(samples.values<std::int64_t>(2, 3), AllOf(SizeIs(6), Each(10)));
  h5py(directory_, "b.h5", "f['train/x'], f['test/x'] = np.arange(3), np.arange(4)");
  EXPECT_ERROR(open(directory_ / "b.h5", "hdf5"), invalid_argument, {"same number of samples"});
  h5py(directory_, "b.h5", "f['s1/x'], f['s2/x'] = np.zeros((2, 3)), np.zeros((2, 4))");
  EXPECT_EQ(open(directory_ / "b.h5", "hdf5")->fields()[0], (Field{"x", DType::float64, {}, true}));
  h5py(directory_, "b.h5", "f['s1/x'], f['s2/x'] = np.zeros((2, 3)), np.zeros(2)");
  EXPECT_ERROR(open(directory_ / "b.h5", "hdf5"), invalid_argument,
               {"\"/s2/x\"", "\"/s1/x\"", "another number of extents"});
}

// Which is marked in the file from HDF5 1.10's format on, and locked while a process has it open.
TEST_F(Hdf5, RefusesAFileThatIsBeingWrittenOrThatItsWriterLeft) {
  write(R"(
import h5py, numpy as np
for name, options in dict(killed=dict(libver='latest'), block=dict(libver='latest', userblock_size=1024)).items():
    if os.fork() == 0:
        f = h5py.File(name + '.h5', 'w', **options)
        f['x'] = np.arange(9)
        f.flush()
        os._exit(0)
    os.wait()
with h5py.File('closed.h5', 'w', libver='latest') as f:
    f['x'] = np.arange(9)
)");
  for (const auto* name : {"killed.h5", "block.h5"}) {
    EXPECT_ERROR(open(directory_ / name, "hdf5"), busy,
                 {name, "its writer ended without closing it", "h5clear"});
  }
  EXPECT_EQ(open(directory_ / "closed.h5", "hdf5")->size(), 9);
  const Descriptor writer = open_for_reading(AT_FDCWD, (directory_ / "closed.h5").c_str());
  ASSERT_EQ(::flock(writer.get(), LOCK_EX), 0);
  EXPECT_ERROR(open(directory_ / "closed.h5", "hdf5"), busy, {"closed.h5", "a writer has locked it"});
  ASSERT_EQ(::flock(writer.get(), LOCK_SH), 0);  // as those who read it do
  EXPECT_EQ(open(directory_ / "closed.h5", "hdf5")->size(), 9);
}

TEST_F(Hdf5, ReadsTheDatasetsThatWereNamedInThatOrderAndOffsetsWhereTheyAreNamedAlone) {
  const auto path = h5py(directory_, "a.h5",
                         "for n in 'xyz': f[n] = np.full(2, ord(n), 'u1')\n"
                         "f['t'] = np.arange(6)\nf['t_offsets'] = np.array([0, 2, 6])");
  const auto source = open(path, Hdf5Options{.datasets = {"/z", "x"}});
  EXPECT_THAT(field_names(*source), ElementsAre("z", "x"));
  EXPECT_EQ(contents(*source), (Contents{{"z", "x"}, {"z", "x"}}));
  EXPECT_EQ(open(path, Hdf5Options{.datasets = {"t_offsets"}})->size(), 3);
  EXPECT_EQ(open(path, Hdf5Options{.datasets = {"t", "t_offsets"}})->size(), 2);
  EXPECT_EQ(open(path, Hdf5Options{.datasets = {"t"}})->size(), 2);
}

TEST_F(Hdf5, KnowsTheTypesThatNumpyHas) {
  const auto source = open_h5(R"(
for i, t in enumerate(['?', 'i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8', 'f2', 'f4', 'f8']):
    f[chr(97 + i)] = np.ones(2, dtype=t)
f['z'], f['z_offsets'] = np.ones((6, 2), 'i4'), [0, 1, 6]
)");
  EXPECT_EQ(source->fields()[12], (Field{"z", DType::int32, {2}, true}));
  std::vector<DType> types;
  for (const Field& field : source->fields()) types.push_back(field.dtype);
  EXPECT_THAT(types, ElementsAre(DType::boolean, DType::int8, DType::int16, DType::int32, DType::int64,
                                 DType::uint8, DType::uint16, DType::uint32, DType::uint64, DType::float16,
                                 DType::float32, DType::float64, DType::int32));
}

/// Files of 0, 1, 2, 3, 0, ... samples, whose values count up over all files.
class Hdf5Join : public Hdf5 {
 protected:
  void write_files(int count) const {
    write("import h5py, numpy as np\nn = 0\nfor i in range(" + std::to_string(count) + R"():
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
      const Numbers repeated(static_cast<std::size_t>(id % 5), id);
      ASSERT_EQ(samples.values<std::int64_t>(0, i), repeated);
      ASSERT_THAT(samples.values<std::int64_t>(1, i), ElementsAre(id));
      ASSERT_THAT(samples.values<std::int64_t>(2, i), ElementsAre(id * 10));
    }
  }
};

TEST_F(Hdf5Join, PutsFilesOneAfterTheOtherInTheOrderOfTheirNames) {
  write_files(10);
  const auto source = open(directory_ / "d", "hdf5");
  ASSERT_EQ(source->size(), 13);
  expect_counting(*source, all_ids(*source));
  EXPECT_EQ(source->where({3}), at("d/0/003.hdf5") + ", row 0");
  EXPECT_EQ(open(directory_ / "d/0/*.hdf5", "hdf5")->size(), 1 + 3 + 1 + 3 + 1);
}

TEST_F(Hdf5Join, KeepsFewFilesOpenHoweverManyThereAreAndIsReadByManyThreads) {
  write_files(300);
  const auto open_descriptors = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), {}); };
  const auto before = open_descriptors();
  const auto source = open(directory_ / "d", "hdf5");
  EXPECT_LT(open_descriptors() - before, 10);
  in_threads(8, [&](std::size_t seed) {
    std::mt19937_64 random(seed);
    for (int round = 0; round < 5; ++round) expect_counting(*source, random_ids(*source, 400, random));
  });
}

TEST_F(Hdf5, HasTheSameFingerprintWhereverItLiesAndAnotherWithNamesTypesAndExtents) {
  const auto all = h5py_each({"f['x'] = np.arange(5)", "f['x'] = np.arange(5) * 2", "f['y'] = np.arange(5)",
                              "f['x'] = np.arange(5, dtype='i4')", "f['x'] = np.arange(6)",
                              "f['x'] = np.arange(10).reshape(5, 2)",
                              "f['x'] = np.arange(9)\nf['x_offsets'] = np.array([0, 1, 2, 3, 4, 9])"});
  const auto first = open(all[0] / "a.h5", "hdf5")->fingerprint();
  EXPECT_EQ(open(all[1], "hdf5")->fingerprint(), first);
  fs::rename(all[1] / "a.h5", all[1] / "b.h5");
  std::set<std::string> different;
  for (const fs::path& one : all) different.insert(to_string(open(one, "hdf5")->fingerprint()));
  EXPECT_EQ(different.size(), all.size());
}

TEST_F(Hdf5, MayHaveNoSamplesAndRowsOfNothing) {
  const auto all = h5py_each({"f['x'] = np.zeros((0, 3))", "f['x'] = np.zeros((3, 0))"});
  EXPECT_EQ(open(all[0], "hdf5")->size(), 0);
  EXPECT_EQ(Samples(*open(all[1], "hdf5"), ids({2, 0})).sample(0, 1), "");
}

}  // namespace rota::test::hdf5_test
