// Links inside of HDF5 files and from one into another, made by h5py.

#include "formats/h5py.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::hdf5_links_test {

class Hdf5Links : public testing::Test {
 protected:
  [[nodiscard]] auto open_linked(std::vector<std::string> datasets = {}) const {
    return open_hdf5(directory_ / "a.h5", {.datasets = std::move(datasets), .allow_external_links = true});
  }
  [[nodiscard]] auto opening(std::vector<std::string> datasets = {}) const {
    return error_of([&] { (void)open_linked(std::move(datasets)); });
  }
  // That field f is as it was dumped by this name.
  void expect_dumped(const Source& source, std::size_t f, std::string_view name) const {
    const Samples samples(source, all_ids(source));
    std::string bytes;
    for (std::size_t i = 0; i < static_cast<std::size_t>(source.size()); ++i) bytes += samples.sample(f, i);
    EXPECT_EQ(bytes, dumped(directory_, name)) << name;
  }
  void write(std::string_view name, const std::string& script, std::string_view options = "") const {
    h5py(directory_, name, script, options);
  }
  [[nodiscard]] std::string at(std::string_view name) const { return (directory_ / name).string(); }

  TemporaryDirectory directory_;
};

constexpr const char* kOther = R"(
random = np.random.default_rng(1)
values = {'plain': random.normal(size=(50, 3)), 'packed': random.integers(0, 9, (50, 7)), 'small': np.arange(50, dtype='i2'),
          'parts': random.normal(size=90).astype('f4'), 'ends': np.sort(random.integers(0, 91, 51))}
values['ends'][[0, -1]] = 0, 90
for name, array in values.items():
    dump(name, array)
f['g/plain'], f['g/small'] = values['plain'], values['small']
f.create_dataset('g/packed', data=values['packed'], chunks=(8, 4), compression='gzip', shuffle=True)
f['g/t'], f['g/ends'] = values['parts'], values['ends']
)";

TEST_F(Hdf5Links, DatasetsInOtherFilesAreReadLikeOthers) {
  write("other.hdf", kOther, "userblock_size=1024");
  write("a.h5", R"(
f['own'] = np.arange(50)[::-1]
dump('own', np.arange(50)[::-1])
for name in ('plain', 'packed', 'small', 't'):
    f[name] = h5py.ExternalLink('other.hdf', 'g/' + name)
f['t_offsets'] = h5py.ExternalLink('other.hdf', '/g/ends')
)");
  const auto source = open_linked();
  std::vector<std::string> names;
  for (const Field& field : source->fields()) names.push_back(field.name);
  EXPECT_THAT(names, ElementsAre("own", "packed", "plain", "small", "t"));
  expect_dumped(*source, 0, "own");
  expect_dumped(*source, 1, "packed");
  expect_dumped(*source, 2, "plain");
  expect_dumped(*source, 3, "small");
  expect_dumped(*source, 4, "parts");
}

TEST_F(Hdf5Links, GroupsChainsAndSoftLinksAreFollowed) {
  fs::create_directories(directory_ / "sub/deep");
  write("sub/deep/other.hdf", kOther);
  write("sub/between.hdf",
        "f['all'] = h5py.ExternalLink('deep/other.hdf', '/g')\nf['/to/./it'] = h5py.SoftLink('../x')\n"
        "del f['/to/it']\nf['/to/it'] = h5py.SoftLink('/all')");
  write("a.h5", fmt::format(R"(
f['group'] = h5py.ExternalLink('sub/between.hdf', '/to/it')
f['soft'] = h5py.SoftLink('/group/plain')
f['h/near'] = h5py.SoftLink('far')
f['h/far'] = h5py.ExternalLink('{}', '/all/small')
f['s'] = h5py.ExternalLink('./sub/../sub/between.hdf', '/to/it/packed')
)",
                            at("sub/between.hdf")));
  const auto source = open_linked({"soft", "h/near", "s", "group//./plain"});
  expect_dumped(*source, 0, "plain");
  expect_dumped(*source, 1, "small");
  expect_dumped(*source, 2, "packed");
  expect_dumped(*source, 3, "plain");
}

TEST_F(Hdf5Links, AbsoluteNamesLeadOutOfADirectoryBehindASymbolicLink) {
  const TemporaryDirectory elsewhere;
  h5py(elsewhere, "other.hdf", "f['x'] = np.arange(5) * 3");
  fs::create_directories(directory_ / "real/deep");
  fs::create_directory_symlink("real/deep", directory_ / "link");
  write("link/a.h5",
        fmt::format("f['x'] = h5py.ExternalLink('{}', 'x')", (elsewhere / "other.hdf").string()));
  const auto source = open_hdf5(directory_ / "link", {.allow_external_links = true});
  EXPECT_EQ(Samples(*source, ids({4})).values<std::int64_t>(0, 0)[0], 12);
}

TEST_F(Hdf5Links, ThreadsReadManyFilesThatLeadIntoOthers) {
  constexpr int kFiles = 20;
  for (int i = 0; i < kFiles; ++i) {
    write(fmt::format("{:02}.hdf", i), fmt::format("f['y'] = np.arange(10) + {}", 10 * i));
    write(fmt::format("{:02}.h5", i),
          fmt::format(
              "f['x'] = h5py.ExternalLink('{:02}.hdf', 'y')\nf['z'] = h5py.ExternalLink('{:02}.hdf', 'y')", i,
              kFiles - 1 - i));
  }
  const auto source = open_hdf5(directory_.path(), {.allow_external_links = true});
  ASSERT_EQ(source->size(), 10 * kFiles);
  const auto read_some = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const Ids wanted = random_ids(*source, 500, random);
    const Samples samples(*source, wanted);
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      const std::int64_t id = wanted[k].value;
      EXPECT_EQ(samples.values<std::int64_t>(0, k)[0], id);
      EXPECT_EQ(samples.values<std::int64_t>(1, k)[0], 10 * (kFiles - 1 - id / 10) + id % 10);
    }
  };
  std::vector<std::jthread> threads;
  for (std::uint64_t seed = 0; seed < 4; ++seed) threads.emplace_back(read_some, seed);
}

TEST_F(Hdf5Links, AMissingFileIsNamedWithTheLink) {
  write("a.h5", "f['x'] = h5py.ExternalLink('nowhere.hdf', '/g/x')");
  for (const std::vector<std::string>& datasets : {std::vector<std::string>{"x"}, {}}) {
    EXPECT_THAT(opening(datasets), is_error(ErrorCode::not_found, {at("a.h5"), "\"/x\"", "\"/g/x\"",
                                                                   at("nowhere.hdf"), "no file"}));
  }
  fs::create_directory(directory_ / "nowhere.hdf");
  EXPECT_THAT(opening(), is_error(ErrorCode::not_found, {at("nowhere.hdf"), "no file"}));
  fs::remove(directory_ / "nowhere.hdf");
  directory_.write("nowhere.hdf", "this is text, however it is called");
  EXPECT_THAT(opening(), is_error(ErrorCode::corrupt, {at("nowhere.hdf")}));
}

TEST_F(Hdf5Links, AMissingDatasetIsNamedWithTheLink) {
  write("other.hdf", "f['x'] = np.arange(5)");
  write("a.h5",
        "f['y'] = h5py.ExternalLink('other.hdf', 'z')\nf['g'] = h5py.ExternalLink('other.hdf', '/')\n"
        "f['x'] = np.arange(5)\nf['x_offsets'] = h5py.ExternalLink('other.hdf', 'w')");
  EXPECT_THAT(opening({"y"}),
              is_error(ErrorCode::not_found, {at("a.h5"), "\"/y\"", "\"/z\"", at("other.hdf")}));
  EXPECT_THAT(opening({"g/z"}),
              is_error(ErrorCode::not_found, {at("a.h5"), "\"/g/z\"", "\"/z\"", at("other.hdf")}));
  EXPECT_THAT(opening({"x"}),
              is_error(ErrorCode::not_found, {at("a.h5"), "\"/x_offsets\"", "\"/w\"", at("other.hdf")}));
}

TEST_F(Hdf5Links, WhatIsRefusedIsRefusedBehindALink) {
  write("other.hdf",
        "f.create_dataset('out', (3,), 'i4', external=[('b.raw', 0, 12)])\n"
        "v = h5py.VirtualLayout((3,), 'i4')\nv[:] = h5py.VirtualSource('b.h5', 'x', shape=(3,))\n"
        "f.create_virtual_dataset('virtual', v)");
  write("a.h5", "for name in 'out', 'virtual': f[name] = h5py.ExternalLink('other.hdf', name)");
  EXPECT_THAT(opening({"out"}),
              is_error(ErrorCode::unsupported, {at("other.hdf"), "\"/out\"", "in other files"}));
  EXPECT_THAT(opening({"virtual"}),
              is_error(ErrorCode::unsupported, {at("other.hdf"), "\"/virtual\"", "virtual"}));
}

// HDF5 would follow a soft link into the other file, whose addresses are not this file's.
TEST_F(Hdf5Links, ASoftLinkToAnExternalOneIsRefusedAsThatIs) {
  write("other.hdf", "f['x'] = np.arange(5)");
  write("a.h5",
        "f['far'] = h5py.ExternalLink('other.hdf', '/')\nf['x'] = h5py.SoftLink('/far/x')\nf['y'] = "
        "np.arange(500)");
  for (const auto* name : {"x", "far/x", "./far/./x"}) {
    EXPECT_THAT(
        error_of([&] { open_hdf5(directory_ / "a.h5", {.datasets = {name}}); }),
        is_error(ErrorCode::unsupported, {at("a.h5"), "external link", "other.hdf", "allow_external_links"}));
  }
  EXPECT_EQ(open_hdf5(directory_ / "a.h5")->fields().size(), 1);
}

TEST_F(Hdf5Links, LinksThatGoRoundInACircleAreRefused) {
  write("other.hdf", "f['x'] = h5py.ExternalLink('a.h5', 'x')");
  write("a.h5", "f['x'] = h5py.ExternalLink('other.hdf', 'x')\nf['y'] = h5py.SoftLink('y')");
  EXPECT_THAT(opening({"x"}), is_error(ErrorCode::unsupported, {at("a.h5"), "more than 16 links"}));
  EXPECT_THAT(opening({"y"}), is_error(ErrorCode::unsupported, {at("a.h5"), "more than 16 links"}));
}

TEST_F(Hdf5Links, TheFingerprintKnowsTheOtherFileByNameAndSize) {
  const std::string script = "f['x'] = h5py.ExternalLink('{}', 'x')";
  write("b.hdf", "f['x'] = np.arange(5)");
  write("c.hdf", "f['x'] = np.arange(5)");
  write("d.hdf", "f['x'] = np.arange(5)\nf['y'] = np.arange(5000)");
  write("a.h5", fmt::format(fmt::runtime(script), "b.hdf"));
  const Fingerprint first = open_linked()->fingerprint();
  EXPECT_EQ(open_linked()->fingerprint(), first);
  write("a.h5", fmt::format(fmt::runtime(script), "c.hdf"));
  EXPECT_NE(open_linked()->fingerprint(), first);
  fs::rename(directory_ / "d.hdf", directory_ / "b.hdf");
  write("a.h5", fmt::format(fmt::runtime(script), "b.hdf"));
  EXPECT_NE(open_linked()->fingerprint(), first);
}

TEST_F(Hdf5Links, ATargetThatIsCutShortIsNamed) {
  write("other.hdf", "f['y'] = np.arange(50000)");
  write("a.h5", "f['x'] = h5py.ExternalLink('other.hdf', 'y')");
  const auto source = open_linked();
  fs::resize_file(directory_ / "other.hdf", 5000);
  EXPECT_THAT(error_of([&] { Samples(*source, ids({49999})); }),
              is_error(ErrorCode::corrupt, {at("other.hdf"), "cut short"}));
  EXPECT_THAT(opening(), is_error(ErrorCode::corrupt, {at("other.hdf")}));
}

}  // namespace rota::test::hdf5_links_test
