// NPY files and files of tokens, made by NumPy.

#include "formats/python.hpp"

namespace rota::test::arrays_test {

class Arrays : public PythonTest {
 protected:
  // `save(f, array)` writes f.npy.
  Arrays() : PythonTest("import numpy as np\ndef save(f, array): np.save(f'{f}.npy', array)\n") {}
  void expect_error(ErrorCode code, const std::vector<std::string>& words) const {
    EXPECT_ERROR(open(directory_.path(), "npy"), code, words);
  }
};

using Npy = Arrays;
using Tokens = Arrays;

TEST_F(Npy, RowsAreSamplesOfEveryNativeType) {
  const std::vector<std::string> types = {"bool",   "int8",   "int16",  "int32",   "int64",   "uint8",
                                          "uint16", "uint32", "uint64", "float16", "float32", "float64"};
  const auto told = write(fmt::format(R"(
for type in {}:
    os.mkdir(type)
    for f, n in enumerate([5, 0, 300]):
        rows = (np.random.default_rng(f).random((n, 3, 2)) * 100).astype(type)
        save(f'{{type}}/{{f}}', rows)
        tell(*(row.tobytes() for row in rows))
)",
                                      types));
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto source = open(directory_ / types[i]);
    const auto dtype = i == 0 ? DType::boolean : parse_dtype(types[i]);
    EXPECT_THAT(source->fields(), ElementsAre(Field{"data", dtype, {3, 2}, false}));
    const auto begin = told.begin() + static_cast<std::ptrdiff_t>(305 * i);
    expect_samples(*source, {begin, begin + 305});
  }
}

TEST_F(Npy, FilesAreSamplesOfAFixedShapeOrOfTheirLeadingExtents) {
  const auto arrays = write(R"(
for kind in 'ragged', 'fixed', 'fortran':
    os.mkdir(kind)
    for f, n in enumerate([5, 0, 7]):
        array = np.random.default_rng(f).random((3 if kind == 'fixed' else n, 3, 4)).astype('float32')
        save(f'{kind}/{f}', np.asfortranarray(array) if kind == 'fortran' else array)
        tell(array.tobytes())
)");
  const std::vector<Field> fields = {{"data", DType::float32, {3, 4}, true},
                                     {"data", DType::float32, {3, 3, 4}}};
  for (const auto& [kind, field, first] :
       {std::tuple{"ragged", fields[0], 0}, {"fixed", fields[1], 3}, {"fortran", fields[0], 6}}) {
    const auto source = open(directory_ / kind, NpyOptions{.file_is_sample = true});
    EXPECT_THAT(source->fields(), ElementsAre(field));
    expect_samples(*source, {arrays.begin() + first, arrays.begin() + first + 3});
  }
  EXPECT_ERROR(open(directory_ / "fortran", "npy"), unsupported, {"Fortran order", "file_is_sample"});
}

TEST_F(Npy, OneDimensionIsTheSameInBothOrders) {
  const auto rows = write(R"(
array = np.lib.stride_tricks.as_strided(np.arange(5.0), (5,), (8,))
np.lib.format.write_array(open('a.npy', 'wb'), array, version=(2, 0))
tell(*(row.tobytes() for row in array))
)");
  expect_samples(*open(directory_.path(), "npy"), rows);
}

TEST_F(Npy, OtherTypesAndWhatOnlyAPickleCanHoldAreRefused) {
  for (const fs::path& one :
       write_each({"save(0, np.zeros(3, 'g'))", "save(0, np.array([{}, []], dtype=object))"})) {
    const std::string what = one.filename() == "1" ? "pickle" : "convert it";
    EXPECT_ERROR(open(one, "npy"), unsupported, {one / "0.npy", what});
  }
}

TEST_F(Npy, ArraysThatDoNotGoTogetherAreNamed) {
  write("save('a', np.zeros((3, 2)))\nsave('b', np.zeros((3, 4)))\nsave('c', np.zeros((3, 2), 'f4'))");
  expect_error(invalid_argument, {at("b.npy"), "[3, 4]", "[3, 2]", at("a.npy")});
  fs::rename(directory_ / "c.npy", directory_ / "b.npy");
  expect_error(invalid_argument, {at("b.npy"), "float32", "float64"});
}

TEST_F(Tokens, AreWindowsThatReachIntoNoOtherFile) {
  const auto windows = write(R"(
for f, n in enumerate([100, 9, 64, 0]):
    tokens = np.random.default_rng(f).integers(0, 65536, n, dtype='uint16')
    tokens.tofile(f'{f}.bin')
    tell(*(tokens[at:at + 10].tobytes() for at in range(0, n - 9, 10)))
)");
  const auto source = open(directory_.path(), TokensOptions{.length = 10});
  EXPECT_THAT(source->fields(), ElementsAre(Field{"tokens", DType::uint16, {10}, false}));
  expect_samples(*source, windows);
}

TEST_F(Tokens, MayOverlapOrLeaveGaps) {
  const auto tokens = write(R"(
tokens = np.random.default_rng(1).integers(0, 1 << 32, 100, dtype='uint32')
tokens.tofile('a.bin')
tell(tokens.tobytes())
)");
  for (const std::int64_t stride : {1, 4, 10, 17}) {
    std::vector<std::string> windows;
    for (std::int64_t at = 0; at <= 90; at += stride) {
      windows.push_back(tokens[0].substr(static_cast<std::size_t>(4 * at), 40));
    }
    expect_samples(
        *open(directory_.path(), TokensOptions{.dtype = DType::uint32, .length = 10, .stride = stride}),
        windows);
  }
}

TEST_F(Tokens, ThatAreNotWholeAreDamage) {
  directory_.write("a.bin", "12345");
  EXPECT_ERROR(open(directory_.path(), TokensOptions{.length = 2}), corrupt,
               {at("a.bin"), "5 bytes", "uint16"});
}

}  // namespace rota::test::arrays_test
