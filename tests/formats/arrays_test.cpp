// NPY files and files of tokens, made by NumPy.

#include "formats/python.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::arrays_test {

class Arrays : public testing::Test {
 protected:
  auto numpy(const std::string& script) { return python(directory_, "import numpy as np\n" + script); }
  [[nodiscard]] std::string at(std::string_view name) const { return (directory_ / name).string(); }

  // Each sample of `source` is what was told.
  static void expect_samples(const Source& source, const std::vector<std::string>& expected) {
    ASSERT_EQ(source.size(), std::ssize(expected));
    std::mt19937_64 random(1);
    for (const Ids& wanted : {all_ids(source), random_ids(source, 2 * expected.size(), random)}) {
      const Samples samples(source, wanted);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_EQ(samples.sample(0, i), expected[static_cast<std::size_t>(wanted[i].value)]) << i;
      }
    }
  }
  void expect_error(ErrorCode code, std::initializer_list<std::string> words,
                    const NpyOptions& options = {}) {
    EXPECT_THAT(error_of([&] { open_npy(directory_.path(), options); }), is_error(code, words));
  }

  TemporaryDirectory directory_;
};

using Npy = Arrays;
using Tokens = Arrays;

TEST_F(Npy, RowsAreSamplesOfEveryNativeType) {
  for (const std::string type : {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                                 "uint64", "float16", "float32", "float64"}) {
    const TemporaryDirectory directory;
    const auto rows = python(directory, fmt::format(R"(
import numpy as np
for f, n in enumerate([5, 0, 300]):
    rows = (np.random.default_rng(f).random((n, 3, 2)) * 100).astype('{}')
    np.save(f'{{f}}.npy', rows)
    tell(*(row.tobytes() for row in rows))
)",
                                                    type));
    const auto source = open(directory.path());
    const auto dtype = type == "bool" ? DType::boolean : parse_dtype(type);
    EXPECT_THAT(source->fields(), ElementsAre(Field{"data", dtype, {3, 2}, false}));
    expect_samples(*source, rows);
  }
}

TEST_F(Npy, FilesAreSamplesWithTheirLeadingExtents) {
  const auto arrays = numpy(R"(
for f, n in enumerate([5, 0, 7]):
    array = np.random.default_rng(f).random((n, 3))
    np.save(f'{f}.npy', array)
    tell(array.tobytes())
)");
  const auto source = open_npy(directory_.path(), {.file_is_sample = true});
  EXPECT_THAT(source->fields(), ElementsAre(Field{"data", DType::float64, {3}, true}));
  expect_samples(*source, arrays);
}

TEST_F(Npy, FilesOfOneShapeMakeAFixedField) {
  const auto arrays = numpy(R"(
for f in range(3):
    array = np.arange(f, f + 12, dtype='int32').reshape(3, 4)
    np.save(f'{f}.npy', array)
    tell(array.tobytes())
)");
  const auto source = open_npy(directory_.path(), {.file_is_sample = true});
  EXPECT_THAT(source->fields(), ElementsAre(Field{"data", DType::int32, {3, 4}, false}));
  expect_samples(*source, arrays);
}

TEST_F(Npy, FortranOrderIsTurnedIntoThatOfC) {
  const auto arrays = numpy(R"(
for f in range(3):
    array = np.asfortranarray(np.random.default_rng(f).random((f + 1, 3, 4)).astype('float32'))
    np.save(f'{f}.npy', array)
    tell(array.tobytes('C'))
)");
  expect_samples(*open_npy(directory_.path(), {.file_is_sample = true}), arrays);
  expect_error(ErrorCode::unsupported, {"Fortran order", "file_is_sample"});
}

TEST_F(Npy, OneDimensionIsTheSameInBothOrders) {
  const auto rows = numpy(R"(
array = np.lib.stride_tricks.as_strided(np.arange(5.0), (5,), (8,))
np.lib.format.write_array(open('a.npy', 'wb'), array, version=(2, 0))
tell(*(row.tobytes() for row in array))
)");
  expect_samples(*open_npy(directory_.path()), rows);
}

TEST_F(Npy, WhatOnlyAPickleCanHoldIsRefused) {
  numpy("np.save('a.npy', np.array([{}, []], dtype=object), allow_pickle=True)");
  expect_error(ErrorCode::unsupported, {at("a.npy"), "pickle"});
}

TEST_F(Npy, OtherTypesAreRefused) {
  for (const auto* type : {">f4", "U5", "c16", "M8[s]", "i4,f4"}) {
    numpy(fmt::format("np.save('a.npy', np.zeros(3, dtype='{}'))", type));
    expect_error(ErrorCode::unsupported, {at("a.npy"), "convert it"});
  }
}

TEST_F(Npy, ArraysThatDoNotGoTogetherAreNamed) {
  numpy("np.save('a.npy', np.zeros((3, 2)))\nnp.save('b.npy', np.zeros((3, 4)))");
  expect_error(ErrorCode::invalid_argument, {at("b.npy"), "[3, 4]", "[3, 2]", at("a.npy")});
  numpy("np.save('b.npy', np.zeros((3, 2), dtype='f4'))");
  expect_error(ErrorCode::invalid_argument, {at("b.npy"), "float32", "float64"});
}

TEST_F(Npy, DamagedHeadersDoNoHarm) {
  numpy("np.save('a.npy', np.arange(6.0).reshape(3, 2))");
  std::string bytes(fs::file_size(directory_ / "a.npy"), '\0');
  std::ifstream(directory_ / "a.npy", std::ios::binary).read(bytes.data(), std::ssize(bytes));
  std::mt19937_64 random(1);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = bytes;
    for (auto flips = 1 + random() % 3; flips > 0; --flips)
      damaged[random() % 128] = static_cast<char>(random());
    directory_.write("a.npy", damaged);
    refused += error_of([&] {
      const auto source = open_npy(directory_.path());
      if (source->size() > 0) Samples(*source, ids({source->size() - 1}));
    })
                   ? 1
                   : 0;
  }
  EXPECT_GT(refused, 500);
}

TEST_F(Npy, AbsurdShapesTakeNoMemory) {
  numpy("np.save('a.npy', np.zeros((3, 2)))");
  std::string bytes(fs::file_size(directory_ / "a.npy"), '\0');
  std::ifstream(directory_ / "a.npy", std::ios::binary).read(bytes.data(), std::ssize(bytes));
  const std::string before = "(3, 2), }                   ";
  for (const std::string shape :
       {"(9223372036854775807, 2), }", "(0, 9223372036854775807, 9),", "(99999999999, 2), }"}) {
    std::string absurd = bytes;
    absurd.replace(absurd.find(before), shape.size(), shape);
    directory_.write("a.npy", absurd);
    expect_error(ErrorCode::corrupt, {at("a.npy")});
  }
}

TEST_F(Tokens, AreWindowsThatReachIntoNoOtherFile) {
  const auto windows = numpy(R"(
for f, n in enumerate([100, 9, 64, 0]):
    tokens = np.random.default_rng(f).integers(0, 65536, n, dtype='uint16')
    tokens.tofile(f'{f}.bin')
    tell(*(tokens[at:at + 10].tobytes() for at in range(0, n - 9, 10)))
)");
  const auto source = open_tokens(directory_.path(), {.length = 10});
  EXPECT_THAT(source->fields(), ElementsAre(Field{"tokens", DType::uint16, {10}, false}));
  expect_samples(*source, windows);
}

TEST_F(Tokens, MayOverlapOrLeaveGaps) {
  for (const int stride : {1, 4, 10, 17}) {
    const auto windows = numpy(fmt::format(R"(
tokens = np.random.default_rng(1).integers(0, 1 << 32, 100, dtype='uint32')
tokens.tofile('a.bin')
tell(*(tokens[at:at + 10].tobytes() for at in range(0, 91, {})))
)",
                                           stride));
    expect_samples(*open_tokens(directory_.path(), {.dtype = DType::uint32, .length = 10, .stride = stride}),
                   windows);
  }
}

TEST_F(Tokens, ThatAreNotWholeAreDamage) {
  directory_.write("a.bin", "12345");
  EXPECT_THAT(error_of([&] { open_tokens(directory_.path(), {.length = 2}); }),
              is_error(ErrorCode::corrupt, {at("a.bin"), "5 bytes", "uint16"}));
}

TEST_F(Tokens, NeedOptionsThatMakeSense) {
  const auto refused = [&](const TokensOptions& options) {
    return error_of([&] { open_tokens(directory_.path(), options); });
  };
  EXPECT_THAT(refused({.dtype = DType::int32}), is_error(ErrorCode::invalid_argument, {"dtype is int32"}));
  EXPECT_THAT(refused({.length = 0}), is_error(ErrorCode::invalid_argument, {"length is 0"}));
  EXPECT_THAT(refused({.stride = -1}), is_error(ErrorCode::invalid_argument, {"stride is -1"}));
}

}  // namespace rota::test::arrays_test
