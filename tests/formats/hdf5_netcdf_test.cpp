// Numbers that stand for others, as NetCDF's attributes have it; and rows whose offsets have a name of their
// own, as in AnnData's files.

#include "formats/python.hpp"
#include "messages.hpp"
#include "rota/catalog.hpp"
#include "rota/windows.hpp"

namespace rota::test::hdf5_netcdf_test {

class NetCdf : public PythonTest {
 protected:
  NetCdf()
      : PythonTest(R"(
import h5py, numpy as np
def put(f, name, values, dtype, **attributes):
    f.create_dataset(name, data=np.array(values, dtype), chunks=(2,), compression='gzip')
    for key, value in attributes.items(): f[name].attrs[key] = value
)") {}
  auto unpacked() const { return open(directory_.path(), Hdf5Options{.unpack = true}); }
};

constexpr const char* kTwoFiles = R"(
for name, scale, offset in ('a.h5', 0.5, 100.), ('b.h5', 2., -1.):
    with h5py.File(name, 'w') as f:
        put(f, 't', [0, 3, -7], '>i2', scale_factor=scale, add_offset=offset, _FillValue=np.int16(-7))
        put(f, 'u', [250, 4, 9], 'u1', scale_factor=np.float32(.5))
        put(f, 'w', [-0., 1e20, 4], 'f4', missing_value=1e20, _FillValue=np.float32('nan'))
        put(f, 'flag', [1, -1, 2], 'i4', missing_value=np.array([-1, -2], 'i4'))
)";

TEST_F(NetCdf, FieldsAreWhatEachFileMeansWithUnpack) {
  write(kTwoFiles);
  const auto source = unpacked();
  EXPECT_EQ(source->fields(), (std::vector<Field>{{"flag", DType::int32, {}, false},
                                                  {"t", DType::float64, {}, false},
                                                  {"u", DType::float32, {}, false},
                                                  {"w", DType::float32, {}, false}}));
  const Samples samples(*source, ids({4, 0, 5, 1, 3}));
  const auto all = [&](auto zero, std::size_t field) {
    std::vector<double> values;
    for (std::size_t i = 0; i < 5; ++i)
      values.push_back(static_cast<double>(samples.values<decltype(zero)>(field, i)[0]));
    return values;
  };
  EXPECT_THAT(all(0.0, 1), ElementsAre(5, 100, testing::IsNan(), 101.5, -1));
  EXPECT_THAT(all(0.F, 2), ElementsAre(2, 125, 4.5, 2, 125));
  EXPECT_THAT(all(0.F, 3), ElementsAre(testing::IsNan(), 0, 4, testing::IsNan(), 0));
  EXPECT_THAT(all(0, 0), ElementsAre(-1, 1, 2, -1, 1));
  EXPECT_TRUE(std::signbit(samples.values<float>(3, 1)[0]));
}

TEST_F(NetCdf, WindowsOverFilesAreUnpackedTooAndTheDatasetStaysTheSame) {
  write(kTwoFiles);
  const auto source = unpacked();
  const auto over = windows(source, {.length = 4, .across_files = true});
  EXPECT_THAT(Samples(*over, ids({1})).values<double>(1, 0), ElementsAre(101.5, testing::IsNan(), -1, 5));
  EXPECT_EQ(source->fingerprint(), open(directory_.path(), "hdf5")->fingerprint());
  EXPECT_EQ(source->part_sizes(), (Numbers{3, 3}));
}

TEST_F(NetCdf, ASavedCatalogKeepsWhatFilesMean) {
  write(kTwoFiles);
  const Catalog catalog(directory_.path());
  open(catalog, "hdf5");
  const TemporaryDirectory elsewhere;
  catalog.save(elsewhere / "saved.rota");
  const auto source = open(Catalog(elsewhere / "saved.rota"), Hdf5Options{.unpack = true});
  EXPECT_THAT(Samples(*source, ids({4})).values<double>(1, 0), ElementsAre(5));
}

TEST_F(NetCdf, WhatIsReadAsItIsStoredIsSaid) {
  write(kTwoFiles);
  const SinkMessages messages;
  open(directory_.path(), "hdf5");
  static_cast<void>(unpacked());
  EXPECT_THAT(
      messages.lines,
      ElementsAre(AllOf(HasSubstr(at("a.h5") + " (times 1 plus 0, missing: [-1, -2]), \"t\" of "),
                        HasSubstr(" (times 0.5 plus 100, missing: [-7]), \"u\" of "),
                        HasSubstr(" (times 1 plus 0, missing: [1e+20]);"), HasSubstr("the option unpack")),
                  AllOf(HasSubstr("\"flag\""), Not(HasSubstr("\"t\"")), Not(HasSubstr("unpack")))));
}

TEST_F(NetCdf, WhatCannotBeUndoneIsRefused) {
  for (const std::string attributes :
       {"'i2', scale_factor='0.5'", "'i2', add_offset=np.inf", "'i2', _Unsigned='maybe'",
        "'c8', add_offset=1", "'f2', missing_value=1", "'i4', missing_value='1'",
        "'f4', scale_factor=[1., 2.]"}) {
    write("with h5py.File('a.h5', 'w') as f: put(f, 't', [0, 1, 2], " + attributes + ")\n");
    EXPECT_ERROR(unpacked(), unsupported, {"a.h5", "\"t\"", "scale_factor", "unpack"});
    EXPECT_EQ(open(directory_.path(), "hdf5")->size(), 3);
  }
}

TEST_F(NetCdf, AScaleOfOneMakesFloatsAndOneFileMaySayAllThere) {
  write(R"(
with h5py.File('a.h5', 'w') as f: put(f, 't', [0, 3], 'i2')
with h5py.File('b.h5', 'w') as f: put(f, 't', [1, 2], 'i2', scale_factor=np.float32(1), add_offset=np.float32(0))
)");
  EXPECT_THAT(Samples(*unpacked(), ids({1, 2})).values<float>(0, 0), ElementsAre(3));
  const SinkMessages messages;
  write("with h5py.File('b.h5', 'r+') as f: f['t'].attrs['scale_factor'] = .5\n");
  open(directory_.path(), "hdf5");
  EXPECT_THAT(messages.lines, ElementsAre(HasSubstr(at("b.h5") + " (times 0.5 plus 0, missing: [])")));
}

// Which a double does not hold.
TEST_F(NetCdf, WhatIsMissingIsComparedExactly) {
  write(R"(
with h5py.File('a.h5', 'w') as f:
    put(f, 'i', [2**53, 2**53 + 1, 2**53 + 2], 'i8', _FillValue=np.int64(2**53 + 1), scale_factor=np.float32(1))
    put(f, 'u', [2**64 - 1, 2**64 - 2, 2**64 - 3], 'u8', missing_value=np.uint64(2**64 - 2), add_offset=0.)
)");
  const auto source = unpacked();
  for (const std::size_t field : {0U, 1U}) {
    const Samples samples(*source, ids({0, 1, 2}));
    EXPECT_FALSE(std::isnan(samples.values<double>(field, 0)[0]));
    EXPECT_TRUE(std::isnan(samples.values<double>(field, 1)[0]));
    EXPECT_FALSE(std::isnan(samples.values<double>(field, 2)[0]));
  }
}

TEST_F(NetCdf, OfGroupsThatAreSamplesIsNotUndone) {
  write(R"(
with h5py.File('a.h5', 'w') as f:
    for i in range(3): put(f, 'demo_%d/x' % i, [0, 1], 'i2', scale_factor=.5)
)");
  EXPECT_ERROR(unpacked(), unsupported, {"a.h5", "groups", "unpack"});
  EXPECT_ERROR(open(directory_.path(), Hdf5Options{.offsets = "nope"}), unsupported, {"groups", "offsets"});
}

TEST_F(NetCdf, OffsetsMayHaveANameOfTheirOwn) {
  write(R"(
with h5py.File('a.h5', 'w') as f:
    f['X/data'], f['X/indices'], f['X/indptr'] = np.arange(7.), np.arange(7) * 2, [0, 3, 3, 7]
    f['obs/n'] = np.arange(3)
)");
  const std::vector<std::string> names{"X/data", "X/indices", "obs/n"};
  const auto rows = open(directory_ / "a.h5", Hdf5Options{.datasets = names, .offsets = "indptr"});
  ASSERT_EQ(rows->size(), 3);
  const Samples samples(*rows, ids({2, 1, 0}));
  EXPECT_THAT(samples.values<double>(0, 0), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(samples.values<std::int64_t>(1, 2), ElementsAre(0, 2, 4));
  EXPECT_THAT(samples.values<double>(0, 1), IsEmpty());
  EXPECT_FALSE(rows->fields()[2].ragged);
  EXPECT_ERROR(open(directory_ / "a.h5", Hdf5Options{.datasets = {"X/data"}, .offsets = "indpt"}), not_found,
               {"\"indpt\"", "\"/X/indptr\""});
  EXPECT_ERROR(open(directory_ / "a.h5", Hdf5Options{.datasets = {"X/indptr"}, .offsets = "indptr"}),
               not_found, {"\"indptr\""});
}

}  // namespace rota::test::hdf5_netcdf_test
