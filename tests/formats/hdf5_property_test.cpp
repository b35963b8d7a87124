#include "formats/python.hpp"

namespace rota::test::hdf5_property_test {

// Writes 12 files of 40 datasets of 97 rows, of types, shapes, chunks, filters and fill values drawn at
// random, some ragged, some written in part, and tells what h5py reads back from them.
constexpr std::string_view kDraw = R"(
import h5py, numpy as np
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
        if r.integers(2): options['compression'] = ('gzip', 'lzf')[r.integers(2)]
        if r.integers(2): options['shuffle'] = True
        if r.integers(3) == 0: options['fletcher32'] = True
    if r.integers(3) == 0: options['fillvalue'] = 1
    return options
def values(dtype, shape):
    if dtype == '?': return r.integers(2, size=shape).astype('?')
    if dtype[0] == 'f': return r.standard_normal(shape).astype(dtype)
    return r.integers(0, 100, size=shape).astype(dtype)
for seed in range(12):
    r = np.random.default_rng(seed)
    f = h5py.File('%02d.h5' % seed, 'w', libver=('earliest', 'latest')[seed % 2], userblock_size=(1024, 0, 0)[seed % 3])
    rows_of = {}
    for i in range(40):
        dtype = r.choice(['?', 'i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8', 'f2', 'f4', 'f8'])
        ragged = r.integers(4) == 0
        offsets = np.arange(N + 1)
        name = 'g%d/d%02d' % (i % 3, i)
        if ragged:
            lengths = r.integers(0, 9, size=N) * (r.random(N) < 0.8)
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            f.create_dataset(name + '_offsets', data=offsets.astype(r.choice(['i8', 'u4', 'i2'])), chunks=(10,), compression='gzip')
        rows = int(offsets[-1])
        shape = (rows,) + tuple(int(s) for s in r.integers(1, 7, size=r.integers(4)))
        d = f.create_dataset(name, shape, dtype, **layout(shape))
        if r.integers(4) == 0:
            for k in range(3):
                at = int(r.integers(rows))
                d[at:at + 5] = values(dtype, d[at:at + 5].shape)
        else:
            d[...] = values(dtype, shape)
        rows_of[name] = [part.tobytes() for part in np.split(d[...], offsets[1:-1])]
    for parts in zip(*(rows_of[name] for name in sorted(rows_of))):
        tell(*parts)
    f.close()
)";

TEST(Hdf5Property, AnyLayoutReadsAsH5pyReadsIt) {
  const TemporaryDirectory directory;
  const auto told = python(directory, kDraw);
  for (std::size_t file = 0; file < 12; ++file) {
    SCOPED_TRACE(file);
    const auto source = open(directory / fmt::format("{:02}.h5", file), "hdf5");
    ASSERT_EQ(source->size(), 97);
    const auto begin = told.begin() + static_cast<std::ptrdiff_t>(file * (told.size() / 12));
    expect_samples(*source, {begin, begin + std::ssize(told) / 12});
    Samples(*source, {});
  }
}

}  // namespace rota::test::hdf5_property_test
