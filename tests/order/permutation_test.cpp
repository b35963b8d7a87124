#include "order/permutation.hpp"
#include "test.hpp"

namespace rota::test::permutation_test {

Permutation permutation(std::int64_t n, std::int64_t key) {
  return {n, derive_key(1, key, Purpose::global, 0)};
}

Numbers image(const Permutation& p) {
  Numbers values(static_cast<std::size_t>(p.size()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = p(static_cast<std::int64_t>(i));
  return values;
}

/// How many standard deviations (Wilson and Hilferty, 1931) chi-square is from its mean. Bins of small
/// expectation are pooled with their neighbours.
double chi_square_sigmas(const std::vector<double>& seen, const std::vector<double>& expected) {
  double chi_square = 0;
  double pooled_seen = 0;
  double pooled_expected = 0;
  int bins = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    pooled_seen += seen[i];
    pooled_expected += expected[i];
    if (pooled_expected < 20) continue;
    chi_square += (pooled_seen - pooled_expected) * (pooled_seen - pooled_expected) / pooled_expected;
    pooled_seen = pooled_expected = 0;
    ++bins;
  }
  const double freedom = bins - 1;
  const double spread = 2.0 / (9.0 * freedom);
  return (std::cbrt(chi_square / freedom) - (1 - spread)) / std::sqrt(spread);
}

// Two-sided p > 10^-4.
constexpr double kSigmas = 3.89;

// What has an inverse everywhere is a bijection.
void expect_inverse(const Permutation& p, std::int64_t i) {
  const std::int64_t value = p(i);
  ASSERT_TRUE(value >= 0 && value < p.size()) << "n = " << p.size();
  ASSERT_EQ(p.inverse(value), i) << "n = " << p.size();
}

TEST(Permutation, IsABijectionAtEverySmallSizeAndAtPrimesPowersAndTheirNeighbours) {
  Numbers sizes{1021,  1023,  1024,    1025,      4093,      4096,    4097,    65535,  65536,
                65537, 99991, 999'999, 1'000'000, 1'000'003, 1048575, 1048576, 1048577};
  for (std::int64_t n = 1; n <= 600; ++n) sizes.push_back(n);
  for (const std::int64_t n : sizes) {
    const Permutation p = permutation(n, n);
    for (std::int64_t i = 0; i < n; ++i) ASSERT_NO_FATAL_FAILURE(expect_inverse(p, i));
  }
}

TEST(Permutation, InvertsAtSizesUpToTheLargest) {
  for (const std::int64_t n :
       {(std::int64_t{1} << 40) + 1, (std::int64_t{1} << 61) - 1, std::int64_t{1} << 62}) {
    const Permutation p = permutation(n, 5);
    for (std::int64_t k = 0; k < 1000; ++k) {
      ASSERT_NO_FATAL_FAILURE(expect_inverse(p, k));
      ASSERT_NO_FATAL_FAILURE(expect_inverse(p, n - 1 - k));
    }
  }
}

TEST(Permutation, NeverChangesItsGoldenVectors) {
  EXPECT_THAT(image(permutation(10, 0)), ElementsAre(4, 3, 6, 0, 5, 8, 2, 1, 9, 7));
  const auto at = [](std::int64_t n) {
    const Permutation p = permutation(n, 7);
    return Numbers{p(0), p(1), p(n / 2), p(n - 1)};
  };
  EXPECT_THAT(at(1000), ElementsAre(269, 337, 688, 801));
  EXPECT_THAT(at(100'000), ElementsAre(91, 38579, 58193, 38246));
  EXPECT_THAT(at(1'000'000'007), ElementsAre(272044548, 773349592, 62871036, 151895946));
  EXPECT_THAT(at((std::int64_t{1} << 40) + 1),
              ElementsAre(490644131083, 218373504827, 184960829004, 171694447988));
  EXPECT_THAT(at(std::int64_t{1} << 62),
              ElementsAre(1186086642207067315, 889625086146563665, 2589000361012661601, 549120773268986220));
}

TEST(Permutation, KeysOfNearbySeedsAndEpochsAreUnrelated) {
  EXPECT_NE(derive_key(7, 1, Purpose::global, 0), derive_key(8, 0, Purpose::global, 0));
  EXPECT_NE(derive_key(7, 1, Purpose::global, 0), derive_key(7, 1, Purpose::within, 0));
  EXPECT_NE(derive_key(7, 1, Purpose::within, 0), derive_key(7, 1, Purpose::within, 1));
  EXPECT_NE(image(permutation(100, 0)), image(permutation(100, 1)));
}

// In a random permutation p(i + 1) - p(i) is d != 0 with probability (n - |d|) / (n (n - 1)), exactly.
void expect_random_differences(std::int64_t n, int keys) {
  SCOPED_TRACE(fmt::format("n = {}, {} keys", n, keys));
  std::vector<double> seen(static_cast<std::size_t>(2 * n - 1));
  for (int key = 0; key < keys; ++key) {
    const Permutation p = permutation(n, key);
    for (std::int64_t i = 0; i + 1 < n; ++i) ++seen[static_cast<std::size_t>(p(i + 1) - p(i) + n - 1)];
  }
  const double total = std::accumulate(seen.begin(), seen.end(), 0.0);
  const auto nd = static_cast<double>(n);
  std::vector<double> expected;
  for (std::int64_t d = 1 - n; d < n; ++d) {
    expected.push_back(total * (nd - std::abs(static_cast<double>(d))) / (nd * (nd - 1)));
  }
  EXPECT_EQ(seen[static_cast<std::size_t>(n - 1)], 0);
  seen.erase(seen.begin() + n - 1);
  expected.erase(expected.begin() + n - 1);
  EXPECT_LT(std::abs(chi_square_sigmas(seen, expected)), kSigmas);
}

TEST(PermutationBias, NeighbourDifferencesPooledOverKeysAreRandom) {
  expect_random_differences(8, 400'000);
  expect_random_differences(33, 100'000);
  expect_random_differences(64, 60'000);
  expect_random_differences(1000, 5'000);
  expect_random_differences(10'000, 1'000);
}

// Where a stretch of neighbours lands, and how far apart its members land, in 1,000 bins.
TEST(PermutationBins, NeighboursSpreadEvenly) {
  constexpr std::int64_t kBins = 1000;
  constexpr std::int64_t kDraws = 100;
  constexpr std::int64_t kKeys = 10'000;
  for (const std::int64_t n : {1'000'000, 1'000'000'000}) {
    std::vector<double> places(kBins);
    std::vector<double> distances(kBins);
    for (std::int64_t key = 0; key < kKeys; ++key) {
      const Permutation p = permutation(n, key);
      const std::int64_t start = n / kKeys * key;
      for (std::int64_t i = 0; i < kDraws; i += 2) {
        const std::int64_t a = p(start + i % (n - start));
        const std::int64_t b = p(start + (i + 1) % (n - start));
        ++places[static_cast<std::size_t>(a * kBins / n)];
        ++distances[static_cast<std::size_t>((b - a + n) % n * kBins / n)];
      }
    }
    const std::vector<double> even(kBins, static_cast<double>(kKeys * kDraws) / 2 / kBins);
    EXPECT_LT(std::abs(chi_square_sigmas(places, even)), kSigmas) << "n = " << n;
    EXPECT_LT(std::abs(chi_square_sigmas(distances, even)), kSigmas) << "n = " << n;
  }
}

bool is_odd(const Permutation& p) {
  const auto values = image(p);
  std::vector<bool> seen(values.size());
  std::int64_t even_cycles = 0;
  for (std::size_t begin = 0; begin < values.size(); ++begin) {
    std::int64_t length = 0;
    for (std::size_t i = begin; !seen[i]; i = static_cast<std::size_t>(values[i]), ++length) seen[i] = true;
    if (length > 0 && length % 2 == 0) ++even_cycles;
  }
  return even_cycles % 2 != 0;
}

TEST(PermutationParity, IsOddForHalfOfTheKeysAtEverySize) {
  constexpr std::int64_t kKeys = 1000;
  double chi_square = 0;  // of 127 degrees of freedom
  for (std::int64_t n = 2; n <= 128; ++n) {
    std::int64_t odd = 0;
    for (std::int64_t key = 0; key < kKeys; ++key) odd += is_odd(permutation(n, 1000 * n + key)) ? 1 : 0;
    const double sigmas = static_cast<double>(2 * odd - kKeys) / std::sqrt(static_cast<double>(kKeys));
    EXPECT_LT(std::abs(sigmas), 4.2) << odd << " of " << kKeys << " are odd at n = " << n;
    chi_square += sigmas * sigmas;
  }
  EXPECT_LT(chi_square, 127 + kSigmas * std::sqrt(2 * 127.0));
}

TEST(PermutationParity, IsThatOfAFairCoinForKeysThatDifferInOneHalf) {
  for (const std::uint64_t low_step : {0U, 1U}) {
    std::int64_t odd = 0;
    for (std::uint64_t k = 0; k < 1000; ++k)
      odd += is_odd(Permutation(25, {.low = low_step * k, .high = 7 + (1 - low_step) * k})) ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(odd), 500, 66);
  }
}

TEST(Permutation, OfManyPlacesIsThatOfEach) {
  for (const std::int64_t n : {1, 2, 5, 100, 1023, 1025, 99'991}) {
    const Permutation p = permutation(n, 9);
    for (std::int64_t count = 0; count < 12; ++count) {
      std::vector<SampleId> places;
      for (std::int64_t i = 0; i < count; ++i) places.push_back({(i * 7919 + n / 2) % n});
      std::vector<SampleId> expected;
      for (const SampleId place : places) expected.push_back({p(place.value)});
      p.apply(places);
      EXPECT_EQ(places, expected) << "n = " << n;
    }
  }
}

// Half-network a x b: places that are b apart, or whose images are next to one another, keep that distance
// with probability 1 / a. With four rounds it is about 2 / a, as it is enough that their halves collide once.
void expect_distance_kept_by_chance(std::int64_t n) {
  const auto a = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(n))));
  const std::int64_t b = (n + a - 1) / a;
  constexpr std::int64_t kKept = 2500;  // by chance
  constexpr std::int64_t kRun = 200;    // pairs of a key
  std::int64_t high = 0;
  std::int64_t low = 0;
  for (std::int64_t key = 0; key < kKept * a / kRun; ++key) {
    const Permutation p = permutation(n, key);
    const std::int64_t start = key * 7919 % (n - b - kRun);
    for (std::int64_t i = start; i < start + kRun; ++i) {
      if ((p(i + b) / b - p(i) / b + a) % a == 1) ++high;
      if ((p.inverse(i + 1) % b - p.inverse(i) % b + b) % b == 1) ++low;
    }
  }
  const double slack = 4 * std::sqrt(static_cast<double>(kKept)) + 3.0 * kKept / static_cast<double>(b);
  EXPECT_NEAR(static_cast<double>(high), kKept, slack) << "n = " << n;
  EXPECT_NEAR(static_cast<double>(low), kKept, slack) << "n = " << n;
}

// What the shuffles of 10^6, 2^20, 2^22 and 2^24 samples in 250 to 257 shards are made of: all samples
// (global); shards (within); blocks of 256, and windows of 16 of them (block). None is made of none.
TEST(PermutationDistance, OfPlacesOneRadixApartIsKeptNoMoreOftenThanByChance) {
  for (const std::int64_t n :
       {1'000'000, 1 << 20, 1 << 22, 1 << 24, 4000, 3906, 4096, 4113, 4080, 16'384, 16'448, 65'536, 65'281}) {
    expect_distance_kept_by_chance(n);
  }
}

}  // namespace rota::test::permutation_test
