#include "formats/h5py.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::hdf5_property_test {

// Writes 40 datasets of 97 rows, of types, shapes, chunks, filters and fill values drawn at random, some
// ragged, some written in part, and the bytes that h5py reads back from them.
constexpr std::string_view kDraw = R"(
N = 97
def layout(shape):
    options = {}
    kind = r.integers(5)
    if kind > 0 and all(shape):
        options['chunks'] = tuple(int(r.integers(1, s + 3 if r.integers(2) else min(s, 5) + 1)) for s in shape)
        grows = r.integers(3)
        if grows == 0:
            options['chunks'] = tuple(min(c, s) for c, s in zip(options['chunks'], shape))
        elif grows == 1:
            options['maxshape'] = (None,) + tuple(s + 5 for s in shape[1:])
        else:
            options['maxshape'] = tuple(None for s in shape)
        if r.integers(2): options['compression'] = 'gzip'
        if r.integers(2): options['shuffle'] = True
    if r.integers(3) == 0: options['fillvalue'] = 1
    return options
def values(dtype, shape):
    if dtype == '?': return r.integers(2, size=shape).astype('?')
    if dtype[0] == 'f': return r.standard_normal(shape).astype(dtype)
    return r.integers(0, 100, size=shape).astype(dtype)
for i in range(40):
    dtype = r.choice(['?', 'i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8', 'f2', 'f4', 'f8'])
    ragged = r.integers(4) == 0
    rows = N
    name = 'g%d/d%02d' % (i % 3, i)
    if ragged:
        lengths = r.integers(0, 9, size=N) * (r.random(N) < 0.8)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = int(offsets[-1])
        f.create_dataset(name + '_offsets', data=offsets.astype('i8'), chunks=(10,), compression='gzip')
        dump(name + '_offsets', offsets.astype('i8'))
    shape = (rows,) + tuple(int(s) for s in r.integers(1, 7, size=r.integers(4)))
    d = f.create_dataset(name, shape, dtype, **layout(shape))
    if r.integers(4) == 0:
        for k in range(3):
            at = int(r.integers(rows))
            d[at:at + 5] = values(dtype, d[at:at + 5].shape)
    else:
        d[...] = values(dtype, shape)
    dump(name, d[...])
)";

struct Written {
  std::string values;
  std::vector<std::int64_t> offsets;
};

Written written(const TemporaryDirectory& directory, const Field& field) {
  std::string name = field.name;
  name.replace(name.find('/'), 1, ".");
  Written result{dumped(directory, name), {}};
  const std::string offsets = field.ragged ? dumped(directory, name + "_offsets") : "";
  result.offsets.resize(offsets.size() / sizeof(std::int64_t));
  if (!offsets.empty()) std::memcpy(result.offsets.data(), offsets.data(), offsets.size());
  return result;
}

std::string expected(const Field& field, const Written& all, std::int64_t id) {
  const auto i = static_cast<std::size_t>(id);
  const auto first = field.ragged ? static_cast<std::size_t>(all.offsets[i]) : i;
  const auto last = field.ragged ? static_cast<std::size_t>(all.offsets[i + 1]) : i + 1;
  return all.values.substr(first * field.row_bytes(), (last - first) * field.row_bytes());
}

void expect_same(const TemporaryDirectory& directory, const Source& source, const std::vector<Ids>& wanted) {
  std::vector<Samples> samples;
  for (const Ids& one : wanted) samples.emplace_back(source, one);
  for (std::size_t f = 0; f < source.fields().size(); ++f) {
    const Field& field = source.fields()[f];
    const Written all = written(directory, field);
    for (std::size_t w = 0; w < wanted.size(); ++w) {
      for (std::size_t i = 0; i < wanted[w].size(); ++i) {
        ASSERT_EQ(samples[w].sample(f, i), expected(field, all, wanted[w][i].value))
            << field.name << " sample " << wanted[w][i].value;
      }
    }
  }
}

class Hdf5Property : public testing::TestWithParam<int> {};

TEST_P(Hdf5Property, AnyLayoutReadsAsH5pyReadsIt) {
  const TemporaryDirectory directory;
  const int seed = GetParam();
  const std::string script = "r = np.random.default_rng(" + std::to_string(seed) + ")" + std::string(kDraw);
  const auto path = h5py(directory, "a.h5", script,
                         std::string(seed % 2 == 0 ? "libver='earliest'" : "libver='latest'") +
                             (seed % 3 == 0 ? ", userblock_size=1024" : ""));
  const auto source = open_hdf5(path);
  ASSERT_EQ(source->size(), 97);
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  expect_same(
      directory, *source,
      {all_ids(*source), random_ids(*source, 300, random), random_ids(*source, 5, random), ids({96}), {}});
}

INSTANTIATE_TEST_SUITE_P(Seeds, Hdf5Property, testing::Range(0, 12));

}  // namespace rota::test::hdf5_property_test
