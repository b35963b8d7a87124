#include <xxhash.h>

#include "source/reading.hpp"
#include "source/told_source.hpp"

namespace rota::test::source_test {

// The least that a user writes.
class Plain final : public Source {
 public:
  Plain(std::int64_t size, std::vector<Field> fields) : size_(size), fields_(std::move(fields)) {}
  std::int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::span<const SampleId> /*ids*/, const BatchView& /*out*/) const override {}

 private:
  std::int64_t size_;
  std::vector<Field> fields_;
};

TEST(Field, KnowsTheBytesOfARow) {
  EXPECT_EQ((Field{"x", DType::float32, {}}.row_bytes()), 4U);
  EXPECT_EQ((Field{"x", DType::int16, {3, 5}}.row_bytes()), 30U);
  EXPECT_EQ((Field{"x", DType::int16, {3, 0}}.row_bytes()), 0U);
}

TEST(Source, HasUsableDefaults) {
  const Plain source(3, {{"x", DType::uint8, {}}});
  EXPECT_EQ(source.where({1}), "");
  EXPECT_THAT(source.shard_lengths(2), IsEmpty());
}

TEST(Source, SaysThatARaggedFieldNeedsRows) {
  const Plain source(3, {{"x", DType::uint8, {}, true}});
  Numbers rows(1);
  EXPECT_ERROR(source.rows(ids({0}), 0, rows), unsupported, {"\"x\"", "rows()"});
}

TEST(Source, ChangesItsDefaultFingerprintWithSizeAndFields) {
  const Plain source(3, {{"x", DType::uint8, {2}}});
  EXPECT_EQ(source.fingerprint(), Plain(3, {{"x", DType::uint8, {2}}}).fingerprint());
  EXPECT_NE(source.fingerprint(), Plain(4, {{"x", DType::uint8, {2}}}).fingerprint());
  EXPECT_NE(source.fingerprint(), Plain(3, {{"y", DType::uint8, {2}}}).fingerprint());
  EXPECT_NE(source.fingerprint(), Plain(3, {{"x", DType::int8, {2}}}).fingerprint());
  EXPECT_NE(source.fingerprint(), Plain(3, {{"x", DType::uint8, {1, 2}}}).fingerprint());
  EXPECT_NE(source.fingerprint(), Plain(3, {{"x", DType::uint8, {2}, true}}).fingerprint());
}

// Has no read_rows of its own.
std::shared_ptr<ToldSource> words() {
  auto source = told(3, {{"word", DType::uint8, {}, true}, {"x", DType::int32, {2}, true}, {"y"}});
  static const std::vector<std::string> kWords = {"packing", "", "documents"};
  const auto word = [](SampleId id) {
    return std::as_bytes(std::span(kWords[static_cast<std::size_t>(id.value)]));
  };
  source->rows_of = [word](SampleId id, std::size_t f) { return f == 0 ? std::ssize(word(id)) : 3; };
  source->fill = [word](SampleId id, std::size_t f, std::int64_t, std::span<std::byte> to) {
    if (f == 0) std::ranges::copy(word(id), to.begin());
  };
  return source;
}

TEST(ReadRows, CopiesFromWholeSamplesUnlessASourceKnowsBetter) {
  std::string got(8, '.');
  const auto at = [&](std::size_t k) { return reinterpret_cast<std::byte*>(&got[k]); };
  words()->read_rows(
      std::vector<SampleRows>{{{2}, 3, 4, at(0)}, {{2}, 0, 1, at(4)}, {{1}, 0, 0, at(5)}, {{0}, 5, 2, at(6)}},
      0);
  EXPECT_EQ(got, "umend.ng");
}

TEST(ReadRows, RefusesSamplesAndRowsThatThereAreNot) {
  const auto source = words();
  const auto error = [&](SampleRows wanted) { return error_of([&] { source->read_rows({&wanted, 1}, 0); }); };
  EXPECT_THAT(error({{3}, 0, 0, nullptr}), is_error(out_of_range, {"sample 3", "3 samples"}));
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 8},
                                     {7, 1},
                                     {8, 0},
                                     {-1, 1},
                                     {0, -1},
                                     {3, kMost},
                                     {kMost, 1}}) {
    EXPECT_THAT(error({{0}, first, count, nullptr}), is_error(out_of_range, {"sample 0", "7 rows"}));
  }
  source->rows_of = [](SampleId id, std::size_t f) { return f == 0 ? 7 - id.value : -1; };
  EXPECT_THAT(error({{0}, 0, 1, nullptr}), is_error(callback, {"\"x\"", "-1 rows"}));
}

TEST(CheckIds, TakesThoseOfTheSourceOnly) {
  const Plain source(3, {});
  EXPECT_NO_THROW(check_ids(source, ids({0, 2, 2})));
  EXPECT_ERROR(check_ids(source, ids({0, 3})), out_of_range, {"sample 3", "3 samples"});
  EXPECT_ERROR(check_ids(source, ids({-1})), out_of_range, {"sample -1"});
}

TEST(Fingerprint, IsXxh3OfLengthPrefixedLittleEndianParts) {
  const std::string bytes = std::string("\x02\0\0\0\0\0\0\0ab", 10) + std::string("\x08\0\0\0\0\0\0\0", 8) +
                            std::string("\x01\x02\0\0\0\0\0\0", 8);
  const XXH128_hash_t expected = XXH3_128bits(bytes.data(), bytes.size());
  EXPECT_EQ(FingerprintBuilder().add("ab").add(0x0201).finish(),
            (Fingerprint{expected.high64, expected.low64}));
}

TEST(Fingerprint, TellsWhereOnePartEndsAndTheNextBegins) {
  const auto of = [](std::string_view one, std::string_view two) {
    return FingerprintBuilder().add(one).add(two).finish();
  };
  EXPECT_NE(of("ab", "c"), of("a", "bc"));
  EXPECT_NE(of("", "a"), of("a", ""));
}

TEST(Fingerprint, NeverChangesFromOneReleaseToTheNext) {
  const Numbers numbers = {1, -2, 3};
  EXPECT_EQ(to_string(FingerprintBuilder().add("rota").add(42).add(numbers).finish()),
            "12d5704ebaca0edec468e6cef9129c8e");
  EXPECT_EQ(to_string(Fingerprint{1, 0xABC}), "00000000000000010000000000000abc");
}

}  // namespace rota::test::source_test
