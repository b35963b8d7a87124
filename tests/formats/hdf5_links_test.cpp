// Links inside of HDF5 files and from one into another, made by h5py.

#include "formats/python.hpp"

namespace rota::test::hdf5_links_test {

// `new(name)` is a file to be written, `link` one that leads into another file.
constexpr const char* kFiles = R"(
import h5py, numpy as np
link, soft = h5py.ExternalLink, h5py.SoftLink
def new(name, **options):
    return h5py.File(name, 'w', **options)
)";

class Hdf5Links : public PythonTest {
 protected:
  Hdf5Links() : PythonTest(kFiles) {}
  auto open_linked(std::vector<std::string> datasets = {}) const {
    return open(directory_ / "a.h5",
                Hdf5Options{.datasets = std::move(datasets), .allow_external_links = true});
  }
};

// `fill(f)` makes datasets, whose samples are in `rows`; `tell_rows` tells those of some.
constexpr const char* kOther = R"(
random = np.random.default_rng(1)
ends = np.sort(random.integers(0, 91, 51))
ends[[0, -1]] = 0, 90
parts = random.normal(size=90).astype('f4')
rows = {'plain': random.normal(size=(50, 3)), 'packed': random.integers(0, 9, (50, 7)), 'small': np.arange(50, dtype='i2'),
        't': np.split(parts, ends[1:-1])}
def fill(f):
    f['g/plain'], f['g/small'], f['g/t'], f['g/ends'] = rows['plain'], rows['small'], parts, ends
    f.create_dataset('g/packed', data=rows['packed'], chunks=(8, 4), compression='gzip', shuffle=True)
    f.close()
def tell_rows(*names):
    for i in range(50):
        tell(*(rows[name][i].tobytes() for name in names))
)";

TEST_F(Hdf5Links, DatasetsInOtherFilesAreReadLikeOthers) {
  const auto told = write(std::string(kOther) + R"(
fill(new('other.hdf', userblock_size=1024))
with new('a.h5') as f:
    f['own'] = rows['own'] = np.arange(50)[::-1]
    for name in ('plain', 'packed', 'small', 't'):
        f[name] = link('other.hdf', 'g/' + name)
    f['t_offsets'] = link('other.hdf', '/g/ends')
tell_rows('own', 'packed', 'plain', 'small', 't')
)");
  const auto source = open_linked();
  EXPECT_THAT(field_names(*source), ElementsAre("own", "packed", "plain", "small", "t"));
  expect_samples(*source, told);
}

TEST_F(Hdf5Links, GroupsChainsAndSoftLinksAreFollowed) {
  const auto told = write(std::string(kOther) + R"(
os.makedirs('sub/deep')
fill(new('sub/deep/other.hdf'))
with new('sub/between.hdf') as f:
    f['all'] = link('deep/other.hdf', '/g')
    f['/to/./it'] = soft('../x')
    del f['/to/it']
    f['/to/it'] = soft('/all')
with new('a.h5') as f:
    f['group'] = link('sub/between.hdf', '/to/it')
    f['soft'] = soft('/group/plain')
    f['h/near'] = soft('far')
    f['h/far'] = link(os.path.abspath('sub/between.hdf'), '/all/small')
    f['s'] = link('./sub/../sub/between.hdf', '/to/it/packed')
tell_rows('plain', 'small', 'packed', 'plain')
)");
  expect_samples(*open_linked({"soft", "h/near", "s", "group//./plain"}), told);
}

TEST_F(Hdf5Links, AbsoluteNamesLeadOutOfADirectoryBehindASymbolicLink) {
  write(R"(
os.makedirs('real/deep')
os.symlink('real/deep', 'link')
with new('other.hdf') as f: f['x'] = np.arange(5) * 3
with new('link/a.h5') as f: f['x'] = link(os.path.abspath('other.hdf'), 'x')
)");
  const auto source = open(directory_ / "link", Hdf5Options{.allow_external_links = true});
  EXPECT_EQ(Samples(*source, ids({4})).values<std::int64_t>(0, 0)[0], 12);
}

TEST_F(Hdf5Links, ThreadsReadManyFilesThatLeadIntoOthers) {
  write(R"(
for i in range(20):
    with new('%02d.hdf' % i) as f: f['y'] = np.arange(10) + 10 * i
    with new('%02d.h5' % i) as f: f['x'], f['z'] = (link('%02d.hdf' % n, 'y') for n in (i, 19 - i))
)");
  const auto source = open(directory_.path(), Hdf5Options{.allow_external_links = true});
  ASSERT_EQ(source->size(), 200);
  in_threads(4, [&](std::size_t seed) {
    std::mt19937_64 random(seed);
    const Ids wanted = random_ids(*source, 500, random);
    const Samples samples(*source, wanted);
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      const std::int64_t id = wanted[k].value;
      EXPECT_EQ(samples.values<std::int64_t>(0, k)[0], id);
      EXPECT_EQ(samples.values<std::int64_t>(1, k)[0], 10 * (19 - id / 10) + id % 10);
    }
  });
}

TEST_F(Hdf5Links, WhatOneLeadsToInVainIsNamedWithIt) {
  write(R"(
os.mkdir('folder.hdf')
open('text.hdf', 'w').write('this is text, however it is called')
with new('other.hdf') as f:
    f['x'], f['round'] = np.arange(5), link('a.h5', 'round')
    f.create_dataset('out', (3,), 'i4', external=[('b.raw', 0, 12)])
    v = h5py.VirtualLayout((3,), 'i4')
    v[:] = h5py.VirtualSource('b.h5', 'x', shape=(3,))
    f.create_virtual_dataset('virtual', v)
with new('a.h5') as f:
    f['a'], f['folder'], f['text'] = (link(name + '.hdf', '/g/x') for name in ('nowhere', 'folder', 'text'))
    f['x'], f['x_offsets'] = np.arange(5), link('other.hdf', 'w')
    f['y'], f['g'], f['self'] = link('other.hdf', 'z'), link('other.hdf', '/'), soft('self')
    for name in 'out', 'virtual', 'round': f[name] = link('other.hdf', name)
)");
  struct Vain {
    std::vector<std::string> datasets;
    ErrorCode code;
    std::vector<std::string> words;
  };
  const std::string a = at("a.h5");
  const std::string other = at("other.hdf");
  for (const auto& [datasets, code, words] :
       std::vector<Vain>{{{"a"}, not_found, {a, "\"/a\"", "\"/g/x\"", at("nowhere.hdf"), "no file"}},
                         {{}, not_found, {a, "\"/a\"", "\"/g/x\"", at("nowhere.hdf"), "no file"}},
                         {{"folder"}, not_found, {at("folder.hdf"), "no file"}},
                         {{"text"}, corrupt, {at("text.hdf")}},
                         {{"y"}, not_found, {a, "\"/y\"", "\"/z\"", other}},
                         {{"g/z"}, not_found, {a, "\"/g/z\"", "\"/z\"", other}},
                         {{"x"}, not_found, {a, "\"/x_offsets\"", "\"/w\"", other}},
                         {{"out"}, unsupported, {other, "\"/out\"", "in other files"}},
                         {{"virtual"}, not_found, {other, "\"/virtual\"", "a view of", "b.h5"}},
                         {{"round"}, unsupported, {a, "more than 16 links"}},
                         {{"self"}, unsupported, {a, "more than 16 links"}}}) {
    EXPECT_ERROR(open_linked(datasets), code, words);
  }
}

// HDF5 would follow a soft link into the other file, whose addresses are not this file's.
TEST_F(Hdf5Links, ASoftLinkToAnExternalOneIsRefusedAsThatIs) {
  write(R"(
with new('other.hdf') as f: f['x'] = np.arange(5)
with new('a.h5') as f: f['far'], f['x'], f['y'] = link('other.hdf', '/'), soft('/far/x'), np.arange(500)
)");
  for (const auto* name : {"x", "far/x", "./far/./x"}) {
    EXPECT_ERROR(open(directory_ / "a.h5", Hdf5Options{.datasets = {name}}), unsupported,
                 {at("a.h5"), "external link", "other.hdf", "allow_external_links"});
  }
  EXPECT_EQ(open(directory_ / "a.h5", "hdf5")->fields().size(), 1);
}

TEST_F(Hdf5Links, TheFingerprintKnowsTheOtherFileByNameAndSize) {
  write(R"(
for name in 'bcd':
    with new(name + '.hdf') as f: f['x'] = np.arange(5)
    with new(name + '.h5') as f: f['x'] = link(name + '.hdf', 'x')
with h5py.File('d.hdf', 'a') as f: f['y'] = np.arange(5000)
)");
  const auto fingerprint = [&](const char* name) {
    fs::copy_file(directory_ / name, directory_ / "a.h5", fs::copy_options::overwrite_existing);
    return open_linked()->fingerprint();
  };
  const Fingerprint first = fingerprint("b.h5");
  EXPECT_EQ(fingerprint("b.h5"), first);
  EXPECT_NE(fingerprint("c.h5"), first);
  fs::rename(directory_ / "d.hdf", directory_ / "b.hdf");
  EXPECT_NE(fingerprint("b.h5"), first);
}

TEST_F(Hdf5Links, ATargetThatIsCutShortIsNamed) {
  write(R"(
with new('other.hdf') as f: f['y'] = np.arange(50000)
with new('a.h5') as f: f['x'] = link('other.hdf', 'y')
)");
  const auto source = open_linked();
  fs::resize_file(directory_ / "other.hdf", 5000);
  EXPECT_THAT(reading(*source, {49999}), is_error(corrupt, {at("other.hdf"), "cut short"}));
  EXPECT_ERROR(open_linked(), corrupt, {at("other.hdf")});
}

}  // namespace rota::test::hdf5_links_test
