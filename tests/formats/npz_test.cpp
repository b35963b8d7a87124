// NPZ files, made by NumPy.

#include "formats/python.hpp"

namespace rota::test::npz_test {

class Npz : public PythonTest {
 protected:
  Npz() : PythonTest("import numpy as np\n") {}
  void expect_error(ErrorCode code, const std::vector<std::string>& words, const NpzOptions& options = {}) {
    EXPECT_ERROR(contents(*open(directory_.path(), options)), code, words);
  }
};

TEST_F(Npz, FilesAreSamplesStoredOrDeflated) {
  const auto arrays = write(R"(
os.mkdir('savez')
os.mkdir('savez_compressed')
for i in range(20):
    random = np.random.default_rng(i)
    x = np.asfortranarray(random.integers(0, 9, (30, 4)).astype('f4'))
    label, tokens = np.int64(i), np.arange(i * 1000, dtype='u2')
    for save in (np.savez, np.savez_compressed):
        save(f'{save.__name__}/{i:03}.npz', x=x, label=label, tokens=tokens)
    tell(label.tobytes(), tokens.tobytes(), x.tobytes('C'))
)");
  for (const auto* save : {"savez", "savez_compressed"}) {
    const auto source = open(directory_ / save, "npz");
    EXPECT_THAT(source->fields(),
                ElementsAre(Field{"label", DType::int64}, Field{"tokens", DType::uint16, {}, true},
                            Field{"x", DType::float32, {30, 4}}));
    expect_samples(*source, arrays);
  }
}

TEST_F(Npz, RowsAreSamplesWhereArraysAreStored) {
  const auto rows = write(R"(
for i, n in enumerate([5, 0, 3]):
    x, y = np.random.default_rng(i).random((n, 2)), np.arange(n)
    np.savez(f'{i}.npz', x=x, y=y, other=np.zeros(7))
    for k in range(n):
        tell(y[k].tobytes(), x[k].tobytes())
)");
  const auto source = open(directory_.path(), NpzOptions{.arrays = {"y", "x"}, .rows = true});
  EXPECT_THAT(source->fields(), ElementsAre(Field{"y", DType::int64}, Field{"x", DType::float64, {2}}));
  expect_samples(*source, rows);
  expect_error(unsupported, {"not as many rows"}, {.rows = true});
}

TEST_F(Npz, ArraysThatAreMissingOrDifferAreNamed) {
  write("np.savez('a.npz', x=np.zeros(3), y=np.zeros(3))\nnp.savez('b.npz', x=np.zeros(3))");
  expect_error(invalid_argument, {at("b.npz"), "no other", "\"y\"", "the option arrays"});
  expect_error(not_found, {at("b.npz"), "no array \"y\"", "\"x\""}, {.arrays = {"y"}});
  expect_error(invalid_argument, {"the option arrays", "\"x\" is named twice"}, {.arrays = {"x", "x"}});
  EXPECT_EQ(open(directory_.path(), NpzOptions{.arrays = {"x"}})->size(), 2);
}

TEST_F(Npz, PicklesRowsOfDeflatedArraysAndOtherFilesAreRefused) {
  preamble_ += "import warnings, zipfile\nwarnings.simplefilter('ignore')\n";
  const std::string deflated = "np.savez_compressed('a.npz', x=np.zeros((5, 2)))\n";
  const std::string again =
      "with zipfile.ZipFile('a.npz', 'a') as out: out.writestr('x.npy', out.read('x.npy'))";
  expect_refused(
      {Refused("np.savez('a.npz', x=np.array([{}], dtype=object))", unsupported, {"a.npz", "pickle"}),
       Refused(
           "with zipfile.ZipFile('a.npz', 'w', zipfile.ZIP_BZIP2) as out: out.writestr('x.npy', b'x' * 9)",
           unsupported, {"a.npz", "packed by method 12"}),
       Refused("open('a.npz', 'w').write('this is no zip file')", corrupt, {"a.npz", "no zip file"}),
       Refused(deflated + again, corrupt, {"a.npz", "byte", "two arrays \"x\""})},
      [](const fs::path& path) { open(path, "npz"); });
  write(deflated);
  EXPECT_ERROR(open(at("a.npz"), NpzOptions{.rows = true}), unsupported,
               {at("a.npz"), "\"x\"", "is deflated", "the option rows"});
}

TEST_F(Npz, FilesOfAPatternAreReadAsThoseThatAreListed) {
  const auto arrays = write(R"(
for i in range(12):
    x = np.arange(i * 10, i * 10 + 4, dtype='f4')
    np.savez(f'img_{i:08}_of_12.npz', x=x)
    tell(x.tobytes())
)");
  const auto source = open(Catalog::from_pattern(at("img_{index:08}_of_{total}.npz")), "npz");
  EXPECT_EQ(source->fingerprint(), open(directory_.path(), "npz")->fingerprint());
  expect_samples(*source, arrays);
}

}  // namespace rota::test::npz_test
