// NPZ files, made by NumPy.

#include "formats/python.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::npz_test {

class Npz : public testing::Test {
 protected:
  auto numpy(const std::string& script) { return python(directory_, "import numpy as np\n" + script); }
  [[nodiscard]] std::string at(std::string_view name) const { return (directory_ / name).string(); }
  void expect_error(ErrorCode code, std::initializer_list<std::string> words,
                    const NpzOptions& options = {}) {
    EXPECT_THAT(error_of([&] {
                  const auto source = open_npz(directory_.path(), options);
                  const Samples samples(*source, all_ids(*source));
                }),
                is_error(code, words));
  }
  // Sample by sample, field by field.
  static void expect_samples(const Source& source, const std::vector<std::string>& expected) {
    const std::size_t fields = source.fields().size();
    ASSERT_EQ(expected.size(), static_cast<std::size_t>(source.size()) * fields);
    const Samples samples(source, all_ids(source));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(samples.sample(i % fields, i / fields), expected[i]) << i;
    }
  }

  TemporaryDirectory directory_;
};

TEST_F(Npz, FilesAreSamplesStoredOrDeflated) {
  for (const auto* save : {"savez", "savez_compressed"}) {
    const auto arrays = numpy(fmt::format(R"(
for i in range(20):
    random = np.random.default_rng(i)
    x = np.asfortranarray(random.integers(0, 9, (30, 4)).astype('f4'))
    label, tokens = np.int64(i), np.arange(i * 1000, dtype='u2')
    np.{}(f'{{i:03}}.npz', x=x, label=label, tokens=tokens)
    tell(label.tobytes(), tokens.tobytes(), x.tobytes('C'))
)",
                                          save));
    const auto source = open(directory_.path(), "npz");
    EXPECT_THAT(source->fields(),
                ElementsAre(Field{"label", DType::int64}, Field{"tokens", DType::uint16, {}, true},
                            Field{"x", DType::float32, {30, 4}}));
    expect_samples(*source, arrays);
  }
}

TEST_F(Npz, RowsAreSamplesWhereArraysAreStored) {
  const auto rows = numpy(R"(
for i, n in enumerate([5, 0, 3]):
    x, y = np.random.default_rng(i).random((n, 2)), np.arange(n)
    np.savez(f'{i}.npz', x=x, y=y, other=np.zeros(7))
    for k in range(n):
        tell(y[k].tobytes(), x[k].tobytes())
)");
  const auto source = open_npz(directory_.path(), {.arrays = {"y", "x"}, .rows = true});
  EXPECT_THAT(source->fields(), ElementsAre(Field{"y", DType::int64}, Field{"x", DType::float64, {2}}));
  expect_samples(*source, rows);
  expect_error(ErrorCode::unsupported, {"not as many rows"}, {.rows = true});
}

TEST_F(Npz, RowsOfDeflatedArraysAreRefused) {
  numpy("np.savez_compressed('a.npz', x=np.zeros((5, 2)))");
  expect_error(ErrorCode::unsupported, {at("a.npz"), "\"x\"", "is deflated", "NpzOptions::rows"},
               {.rows = true});
}

TEST_F(Npz, ArraysThatAreMissingOrDifferAreNamed) {
  numpy("np.savez('a.npz', x=np.zeros(3), y=np.zeros(3))\nnp.savez('b.npz', x=np.zeros(3))");
  expect_error(ErrorCode::invalid_argument, {at("b.npz"), "no other", "\"y\"", "NpzOptions::arrays"});
  expect_error(ErrorCode::not_found, {at("b.npz"), "no array \"y\"", "\"x\""}, {.arrays = {"y"}});
  expect_error(ErrorCode::invalid_argument, {"NpzOptions::arrays", "\"x\" is named twice"},
               {.arrays = {"x", "x"}});
  EXPECT_EQ(open_npz(directory_.path(), {.arrays = {"x"}})->size(), 2);
}

TEST_F(Npz, ArraysOfOneNameAreDamage) {
  numpy(R"(
import warnings, zipfile
warnings.simplefilter('ignore')
np.savez('a.npz', x=np.zeros(3))
with zipfile.ZipFile('a.npz', 'a') as out:
    out.writestr('x.npy', out.read('x.npy'))
)");
  expect_error(ErrorCode::corrupt, {at("a.npz"), "byte", "two arrays \"x\""});
}

TEST_F(Npz, PicklesAndOtherFilesAreRefused) {
  numpy("np.savez('a.npz', x=np.array([{}], dtype=object))");
  expect_error(ErrorCode::unsupported, {at("a.npz"), "pickle"});
  numpy(
      "import zipfile\nzip = zipfile.ZipFile('a.npz', 'w', zipfile.ZIP_BZIP2)\nzip.writestr('x.npy', b'x' * "
      "999)\n"
      "zip.close()");
  expect_error(ErrorCode::unsupported, {at("a.npz"), "packed by method 12"});
  directory_.write("a.npz", "this is no zip file");
  expect_error(ErrorCode::corrupt, {at("a.npz"), "no zip file"});
}

TEST_F(Npz, DataThatIsDamagedIsFoundByItsChecksum) {
  for (const auto* save : {"savez", "savez_compressed"}) {
    numpy(fmt::format("np.{}('a.npz', x=np.random.default_rng(1).random(1000))", save));
    std::fstream file(directory_ / "a.npz", std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(5000);
    const auto byte = static_cast<char>(file.get());
    file.seekp(5000).put(static_cast<char>(byte ^ 4));
    file.close();
    expect_error(ErrorCode::corrupt, {at("a.npz"), "\"x\""});
  }
}

TEST_F(Npz, DamagedFilesDoNoHarm) {
  numpy("np.savez_compressed('a.npz', x=np.arange(50), y=np.zeros((3, 4), 'f4'))");
  std::string bytes(fs::file_size(directory_ / "a.npz"), '\0');
  std::ifstream(directory_ / "a.npz", std::ios::binary).read(bytes.data(), std::ssize(bytes));
  std::mt19937_64 random(1);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = bytes;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    if (i % 10 == 0) damaged.resize(random() % damaged.size());
    directory_.write("a.npz", damaged);
    refused += error_of([&] {
      const auto source = open_npz(directory_.path());
      const Samples samples(*source, all_ids(*source));
    })
                   ? 1
                   : 0;
  }
  EXPECT_GT(refused, 1500);
}

TEST_F(Npz, FilesOfAPatternAreReadAsThoseThatAreListed) {
  const auto arrays = numpy(R"(
for i in range(12):
    x = np.arange(i * 10, i * 10 + 4, dtype='f4')
    np.savez(f'img_{i:08}_of_12.npz', x=x)
    tell(x.tobytes())
)");
  const Catalog catalog = Catalog::from_pattern(at("img_{index:08}_of_{total}.npz"));
  const auto source = open_npz(catalog);
  EXPECT_EQ(source->fingerprint(), open_npz(directory_.path())->fingerprint());
  expect_samples(*source, arrays);
}

}  // namespace rota::test::npz_test
