// What each format says of the parts of a dataset.

#include "formats/python.hpp"
#include "source/numbered_rows.hpp"

namespace rota::test::part_sizes_test {

// Three files of 5, 0 and 3 rows, of each format.
constexpr std::string_view kThreeFiles = R"(
import numpy as np
for f, n in enumerate([5, 0, 3]):
    x = np.arange(n * 2, dtype='i4').reshape(n, 2) + 100 * f
    for folder in ['npy', 'npz', 'lines', 'tokens']: os.makedirs(folder, exist_ok=True)
    np.save(f'npy/{f}.npy', x)
    np.savez(f'npz/{f}.npz', x=x, y=x[:, 0])
    open(f'lines/{f}.jsonl', 'w').write('{}\n' * n)
    np.arange(n, dtype='u2').tofile(f'tokens/{f}')
)";

TEST(PartSizes, AreTheSamplesOfEachFile) {
  const TemporaryDirectory directory;
  python(directory, kThreeFiles);
  for (int f = 0; f < 3; ++f) {
    std::filesystem::create_directories(directory / "hdf5");
    h5py(directory, "hdf5/" + std::to_string(f) + ".h5",
         "f['x'] = np.arange([5, 0, 3][" + std::to_string(f) + "])");
  }
  EXPECT_THAT(open(directory / "hdf5")->part_sizes(), ElementsAre(5, 0, 3));
  EXPECT_THAT(open(directory / "npy")->part_sizes(), ElementsAre(5, 0, 3));
  EXPECT_THAT(open(directory / "npy", NpyOptions{.file_is_sample = true})->part_sizes(),
              ElementsAre(1, 1, 1));
  EXPECT_THAT(open(directory / "npz", NpzOptions{.rows = true})->part_sizes(), ElementsAre(5, 0, 3));
  EXPECT_THAT(open(directory / "lines")->part_sizes(), ElementsAre(5, 0, 3));
  EXPECT_THAT(open(directory / "tokens", TokensOptions{.length = 2})->part_sizes(), ElementsAre(2, 0, 1));
}

TEST(PartSizes, AreNotKnownWhereSamplesAreAtRandom) {
  const auto rows = std::make_shared<NumberedRows>(Numbers{4, 4});
  EXPECT_THAT(split(rows, std::vector<double>{0.5, 0.5}, 1)[0]->part_sizes(), IsEmpty());
}

}  // namespace rota::test::part_sizes_test
