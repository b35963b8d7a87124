#include "order/permutation.hpp"
#include "source/documents.hpp"
#include "source/reading.hpp"

namespace rota::test::packing_test {

using Lengths = Numbers;
using Packed = std::shared_ptr<const Source>;

constexpr std::int64_t kMostLength = std::numeric_limits<std::int32_t>::max();

std::shared_ptr<Documents> documents(Lengths lengths, DType dtype = DType::int64) {
  return std::make_shared<Documents>(std::move(lengths), dtype);
}

struct Sequence {
  Numbers tokens;
  std::vector<std::int32_t> segments;
  std::vector<std::int32_t> positions;
  friend bool operator==(const Sequence&, const Sequence&) = default;
};

/// What packing should make: the documents written one behind the other, and cut.
std::vector<Sequence> packed_naively(const Lengths& lengths, const PackOptions& options) {
  const auto size = std::ssize(lengths);
  const Permutation order(size, derive_key(options.seed, 0, Purpose::packing, 0));
  std::vector<Sequence> sequences;
  const auto add = [&](std::int64_t token, std::int64_t document, std::int64_t& last) {
    if (sequences.empty() || std::ssize(sequences.back().tokens) == options.length) sequences.emplace_back();
    Sequence& s = sequences.back();
    const bool goes_on = document == last && !s.tokens.empty();
    const std::int32_t segment = s.tokens.empty() ? 1 : s.segments.back() + (goes_on ? 0 : 1);
    s.positions.push_back(goes_on ? s.positions.back() + 1 : 0);
    s.segments.push_back(segment);
    s.tokens.push_back(token);
    last = document;
  };
  std::int64_t last = -1;
  for (std::int64_t place = 0; place < size; ++place) {
    const std::int64_t document = options.shuffle_documents ? order(place) : place;
    if (options.bos) add(*options.bos, document, last);
    for (std::int64_t k = 0; k < lengths[static_cast<std::size_t>(document)]; ++k) {
      add(Documents::token(document, k), document, last);
    }
    if (options.eos) add(*options.eos, document, last);
  }
  if (sequences.empty()) return sequences;
  const auto length = static_cast<std::size_t>(options.length);
  sequences.back().tokens.resize(length, options.pad);
  sequences.back().segments.resize(length, 0);
  sequences.back().positions.resize(length, 0);
  return sequences;
}

std::vector<Sequence> read(const Source& packed, const Ids& wanted) {
  const Samples samples(packed, wanted);
  std::vector<Sequence> sequences;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    sequences.push_back({samples.values<std::int64_t>(0, i), samples.values<std::int32_t>(1, i),
                         samples.values<std::int32_t>(2, i)});
  }
  return sequences;
}

std::vector<Sequence> read(const Source& packed) { return read(packed, all_ids(packed)); }

PackOptions random_options(std::mt19937_64& random) {
  PackOptions options{.length = draw(random, 1, 40),
                      .pad = draw(random, -3, 3),
                      .seed = random(),
                      .shuffle_documents = draw(random, 0, 3) != 0,
                      .threads = static_cast<int>(draw(random, 1, 4))};
  if (draw(random, 0, 1) == 0) options.bos = -1;
  if (draw(random, 0, 1) == 0) options.eos = -2;
  return options;
}

TEST(Packing, IsTheDocumentsOneBehindTheOtherAndCut) {
  for_seeds(400, [&](std::uint64_t, std::mt19937_64& random) {
    const PackOptions options = random_options(random);
    const Lengths lengths = random_lengths(random, 60, options.length);
    const auto expected = packed_naively(lengths, options);
    const Packed packed = pack(documents(lengths), options);
    ASSERT_EQ(packed->size(), std::ssize(expected));
    ASSERT_EQ(read(*packed), expected);
    if (expected.empty()) return;
    const Ids some = random_ids(*packed, 20, random);
    const auto got = read(*packed, some);
    for (std::size_t i = 0; i < some.size(); ++i) {
      ASSERT_EQ(got[i], expected[static_cast<std::size_t>(some[i].value)]);
    }
  });
}

TEST(Packing, NumbersSegmentsAndPositionsAnewInEachSequence) {
  const auto got =
      read(*pack(documents({2, 0, 1, 5}), {.length = 4, .eos = 9, .pad = 7, .shuffle_documents = false}));
  ASSERT_EQ(got.size(), 3U);
  const auto token = &Documents::token;
  EXPECT_EQ(got[0], (Sequence{{token(0, 0), token(0, 1), 9, 9}, {1, 1, 1, 2}, {0, 1, 2, 0}}));
  EXPECT_EQ(got[1], (Sequence{{token(2, 0), 9, token(3, 0), token(3, 1)}, {1, 1, 2, 2}, {0, 1, 0, 1}}));
  EXPECT_EQ(got[2], (Sequence{{token(3, 2), token(3, 3), token(3, 4), 9}, {1, 1, 1, 1}, {0, 1, 2, 3}}));
  EXPECT_EQ(read(*pack(documents({1}), {.length = 3, .pad = 7}))[0],
            (Sequence{{token(0, 0), 7, 7}, {1, 0, 0}, {0, 0, 0}}));
}

TEST(Packing, ReadsOfALongDocumentOnlyWhatASequenceHolds) {
  const auto long_ones = documents({10'000, 10'000});
  const Packed packed = pack(long_ones, {.length = 100});
  read(*packed, ids({3}));
  EXPECT_EQ(long_ones->rows_read, 100);
}

TEST(Packing, KeepsEveryTypeOfIntegers) {
  for (const DType dtype : {DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8,
                            DType::uint16, DType::uint32, DType::uint64}) {
    const Packed packed =
        pack(documents({3, 5}, dtype), {.length = 9, .eos = 77, .pad = 78, .shuffle_documents = false});
    EXPECT_EQ(packed->fields()[0], (Field{"tokens", dtype, {9}}));
    const std::string bytes = Samples(*packed, ids({0})).sample(0, 0);
    std::vector<int> low;
    for (std::size_t k = 0; k < bytes.size(); k += size_of(dtype)) low.push_back(bytes[k]);
    EXPECT_THAT(low, ElementsAre(0, 1, 2, 77, 0, 1, 2, 3, 4)) << to_string(dtype);
  }
}

TEST(Packing, OrdersDocumentsBySeedAloneWhateverTheThreads) {
  std::mt19937_64 random(1);
  Lengths lengths(30'000);
  for (auto& length : lengths) length = draw(random, 0, 5);
  const auto source = documents(lengths);
  const auto first = read(*pack(source, {.length = 64, .seed = 5, .threads = 1}));
  EXPECT_EQ(read(*pack(source, {.length = 64, .seed = 5, .threads = 7})), first);
  EXPECT_NE(read(*pack(source, {.length = 64, .seed = 6})), first);
}

TEST(Packing, NeverChangesFromOneReleaseToTheNext) {
  const auto got = read(*pack(documents(Lengths(10, 1)), {.length = 10, .seed = 7}));
  Numbers order;
  for (const std::int64_t token : got[0].tokens) order.push_back(token >> 20);
  EXPECT_THAT(order, ElementsAre(5, 7, 4, 9, 0, 6, 2, 3, 8, 1));
  EXPECT_EQ(to_string(pack(documents({1, 2}), {.length = 4, .bos = 1, .seed = 7})->fingerprint()),
            "91cd5333b2f65f7c7cdde78907edf08d");
}

TEST(Packing, OfNothingIsNothing) {
  EXPECT_EQ(pack(documents({}), {})->size(), 0);
  EXPECT_EQ(pack(documents({}), {.bos = 1})->size(), 0);
  EXPECT_EQ(pack(documents({0, 0, 0}), {})->size(), 0);
  EXPECT_EQ(pack(documents({0, 0, 0}), {.length = 3, .bos = 1})->size(), 1);
}

TEST(Packing, CountsAsFarAsTokensGo) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  const Packed packed = pack(documents({kMost - 3, 3}), {.length = 10, .shuffle_documents = false});
  EXPECT_EQ(packed->size(), kMost / 10 + 1);
  EXPECT_EQ(read(*packed, ids({kMost / 10}))[0].segments,
            (std::vector<std::int32_t>{1, 2, 2, 2, 0, 0, 0, 0, 0, 0}));
  for (const Lengths& lengths : {Lengths{kMost, 1}, Lengths{kMost, kMost, kMost}}) {
    EXPECT_ERROR(pack(documents(lengths), {}), out_of_range, {"2^62 tokens"});
  }
  for (const std::int64_t length : {std::int64_t{-1}, kMost + 1}) {
    EXPECT_ERROR(pack(documents({length}), {}), callback, {"document 0", std::to_string(length)});
  }
}

TEST(Packing, TellsByFingerprintWhatItPacksAndHow) {
  const auto of = [](const PackOptions& options, Lengths lengths = {3, 4, 5}) {
    return to_string(pack(documents(std::move(lengths)), options)->fingerprint());
  };
  EXPECT_EQ(of({}), of({.field = "tokens", .threads = 1}));
  EXPECT_EQ(of({.seed = 1, .shuffle_documents = false}), of({.seed = 2, .shuffle_documents = false}));
  const std::set<std::string> different = {of({}),
                                           of({.length = 9}),
                                           of({.bos = 0}),
                                           of({.eos = 0}),
                                           of({.bos = 0, .eos = 0}),
                                           of({.bos = 1}),
                                           of({.pad = 1}),
                                           of({.seed = 1}),
                                           of({.shuffle_documents = false}),
                                           of({}, {3, 4, 6}),
                                           of({}, {3, 4, 5, 0})};
  EXPECT_EQ(different.size(), 11U);
}

TEST(Packing, NamesTheDocumentsOfASequence) {
  const Packed packed = pack(documents({3, 0, 4, 5}), {.length = 3, .shuffle_documents = false});
  EXPECT_EQ(documents_of(*packed, {0}), ids({0}));
  EXPECT_EQ(documents_of(*packed, {2}), ids({2, 3}));
  EXPECT_ERROR((void)documents_of(*packed, {4}), out_of_range, {"sample 4", "4 samples"});
  EXPECT_ERROR((void)documents_of(*documents({3}), {0}), invalid_argument, {"none of pack()"});
  EXPECT_EQ(packed->where({0}), "from document 0 on, shelf 0");
  EXPECT_EQ(packed->where({1}), "from document 2 on, shelf 2");
  EXPECT_EQ(packed->where({3}), "from document 3 on, shelf 3");
  EXPECT_EQ(packed->where({4}), "");
  EXPECT_ERROR(read(*packed, ids({4})), out_of_range, {"sample 4", "4 samples"});
}

TEST(Packing, RefusesWhatCannotBe) {
  const auto one = [](const PackOptions& options, DType dtype = DType::uint16) {
    return pack(documents({1}, dtype), options);
  };
  EXPECT_ERROR(one({.length = kMostLength + 1}), invalid_argument, {"length is 2147483648"});
  EXPECT_ERROR(one({.bos = 65'536}), invalid_argument, {"bos is 65536", "uint16", "0 to 65535"});
  EXPECT_ERROR(one({.eos = -1}), invalid_argument, {"eos is -1"});
  EXPECT_ERROR(one({.pad = -129}, DType::int8), invalid_argument, {"pad is -129", "-128 to 127"});
  EXPECT_ERROR(one({}, DType::float32), invalid_argument, {"0 of their fields", "\"tokens\" float32[*]"});
  EXPECT_ERROR(one({.field = "label"}), invalid_argument, {"\"label\" is not ragged"});
  EXPECT_ERROR(one({.field = "text"}), not_found, {"\"text\"", "\"tokens\""});
}

}  // namespace rota::test::packing_test
