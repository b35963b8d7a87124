#include "rota/permutation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace rota {
namespace {

using ::testing::ElementsAre;

Permutation permutation(std::int64_t n, std::int64_t key) {
  return {n, derive_key(1, key, Purpose::global, 0)};
}

std::vector<std::int64_t> image(const Permutation& p) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(p.size()));
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

TEST(Permutation, IsABijectionWithItsInverseAtEverySmallSize) {
  for (std::int64_t n = 1; n <= 600; ++n) {
    const Permutation p = permutation(n, n);
    std::vector<std::int64_t> values = image(p);
    for (std::int64_t i = 0; i < n; ++i)
      ASSERT_EQ(p.inverse(values[static_cast<std::size_t>(i)]), i) << "n = " << n;
    std::sort(values.begin(), values.end());
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], i) << "n = " << n;
  }
}

class PermutationSize : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(PermutationSize, IsABijection) {
  const Permutation p = permutation(GetParam(), 3);
  std::vector<bool> seen(static_cast<std::size_t>(GetParam()));
  for (std::int64_t i = 0; i < GetParam(); ++i) {
    const auto value = static_cast<std::size_t>(p(i));
    ASSERT_LT(value, seen.size());
    ASSERT_FALSE(seen[value]);
    seen[value] = true;
  }
}
INSTANTIATE_TEST_SUITE_P(PrimesPowersAndTheirNeighbours, PermutationSize,
                         ::testing::Values(1, 2, 3, 5, 1021, 1023, 1024, 1025, 4093, 4096, 4097, 65535, 65536,
                                           65537, 99991, 999'999, 1'000'000, 1'000'003, 1048575, 1048576,
                                           1048577));

TEST(Permutation, InvertsAtSizesUpToTheLargest) {
  for (const std::int64_t n :
       {(std::int64_t{1} << 40) + 1, (std::int64_t{1} << 61) - 1, std::int64_t{1} << 62}) {
    const Permutation p = permutation(n, 5);
    for (std::int64_t k = 0; k < 2000; ++k) {
      const std::int64_t i = k < 1000 ? k : n - 1 - (k - 1000);
      const std::int64_t value = p(i);
      ASSERT_GE(value, 0);
      ASSERT_LT(value, n);
      ASSERT_EQ(p.inverse(value), i);
    }
  }
}

TEST(Permutation, NeverChangesItsGoldenVectors) {
  EXPECT_THAT(image(permutation(10, 0)), ElementsAre(3, 4, 6, 0, 5, 8, 2, 1, 9, 7));
  const auto at = [](std::int64_t n) {
    const Permutation p = permutation(n, 7);
    return std::vector<std::int64_t>{p(0), p(1), p(n / 2), p(n - 1)};
  };
  EXPECT_THAT(at(1000), ElementsAre(269, 337, 688, 801));
  EXPECT_THAT(at(100'000), ElementsAre(91, 38579, 58193, 38246));
  EXPECT_THAT(at(1'000'000'007), ElementsAre(582141732, 713305461, 614698933, 80621999));
  EXPECT_THAT(at((std::int64_t{1} << 40) + 1),
              ElementsAre(896850432681, 920724807737, 441769901513, 185951445047));
  EXPECT_THAT(at(std::int64_t{1} << 62), ElementsAre(4195985072672734098, 1361694968146476090,
                                                     1000111588602141579, 3519856054924907326));
}

TEST(Permutation, KeysOfNearbySeedsAndEpochsAreUnrelated) {
  EXPECT_NE(derive_key(7, 1, Purpose::global, 0), derive_key(8, 0, Purpose::global, 0));
  EXPECT_NE(derive_key(7, 1, Purpose::global, 0), derive_key(7, 1, Purpose::within, 0));
  EXPECT_NE(derive_key(7, 1, Purpose::within, 0), derive_key(7, 1, Purpose::within, 1));
  EXPECT_NE(image(permutation(100, 0)), image(permutation(100, 1)));
}

struct Pool {
  std::int64_t n;
  int keys;
};
void PrintTo(const Pool& pool, std::ostream* out) {
  *out << "n = " << pool.n << ", " << pool.keys << " keys";
}

class PermutationBias : public ::testing::TestWithParam<Pool> {};

// In a random permutation p(i + 1) - p(i) is d != 0 with probability (n - |d|) / (n (n - 1)), exactly.
TEST_P(PermutationBias, NeighbourDifferencesPooledOverKeysAreRandom) {
  const auto [n, keys] = GetParam();
  std::vector<double> seen(static_cast<std::size_t>(2 * n - 1));
  for (int key = 0; key < keys; ++key) {
    const Permutation p = permutation(n, key);
    for (std::int64_t i = 0; i + 1 < n; ++i) ++seen[static_cast<std::size_t>(p(i + 1) - p(i) + n - 1)];
  }
  const double total = std::accumulate(seen.begin(), seen.end(), 0.0);
  std::vector<double> expected(seen.size());
  for (std::int64_t d = 1 - n; d < n; ++d) {
    const auto nd = static_cast<double>(n);
    if (d != 0)
      expected[static_cast<std::size_t>(d + n - 1)] =
          total * (nd - std::abs(static_cast<double>(d))) / (nd * (nd - 1));
  }
  EXPECT_EQ(seen[static_cast<std::size_t>(n - 1)], 0);
  seen.erase(seen.begin() + n - 1);
  expected.erase(expected.begin() + n - 1);
  EXPECT_LT(std::abs(chi_square_sigmas(seen, expected)), kSigmas);
}
INSTANTIATE_TEST_SUITE_P(SmallAndLarge, PermutationBias,
                         ::testing::Values(Pool{8, 400'000}, Pool{33, 100'000}, Pool{64, 60'000},
                                           Pool{1000, 5'000}, Pool{10'000, 1'000}));

class PermutationBins : public ::testing::TestWithParam<std::int64_t> {};

// Where a stretch of neighbours lands, and how far apart its members land, in 1,000 bins.
TEST_P(PermutationBins, NeighboursSpreadEvenly) {
  const std::int64_t n = GetParam();
  constexpr std::int64_t kBins = 1000;
  constexpr std::int64_t kDraws = 100;
  constexpr std::int64_t kKeys = 10'000;
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
  EXPECT_LT(std::abs(chi_square_sigmas(places, even)), kSigmas);
  EXPECT_LT(std::abs(chi_square_sigmas(distances, even)), kSigmas);
}
INSTANTIATE_TEST_SUITE_P(Large, PermutationBins, ::testing::Values(1'000'000, 1'000'000'000));

}  // namespace
}  // namespace rota
