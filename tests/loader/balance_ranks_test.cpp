// Ranks that make their loaders together ask for lengths together, and must have the same balance.

#include "loader/ranks.hpp"

namespace rota::test::balance_ranks_test {

LoaderOptions in_balance(LengthColumn column) {
  return {
      .global_batch_size = 64, .rank_split = Split::balanced, .balance = {.columns = {std::move(column)}}};
}

TEST(BalanceOfRanks, IsThatOfOneProcessThatAsksForAllLengths) {
  const auto source = counting(700);
  Loader loader(everyone(), source, in_balance({.field = "text"}));
  const Loader alone(source, in_balance({.field = "text"}), everyone().world());
  EXPECT_EQ(loader.options().balance.columns[0].lengths.digest(),
            alone.options().balance.columns[0].lengths.digest());
  while (const auto batch = loader.next()) {
    std::int64_t slots = batch->size();
    std::int64_t rows = std::ssize(batch->tensor("text").bytes);
    EXPECT_EQ(batch->costs().rank, static_cast<double>(rows));
    everyone().sum(std::span(&slots, 1));
    everyone().sum(std::span(&rows, 1));
    EXPECT_EQ(slots, batch->global_size());
    EXPECT_EQ(rows, batch->global_sums()[0]);
  }
}

TEST(BalanceOfRanks, MustBeTheSameOnAll) {
  if (everyone().size() == 1) GTEST_SKIP() << "one rank has no others";
  const bool is_last = everyone().rank() == everyone().size() - 1;
  Numbers lengths(100, 5);
  if (is_last) lengths[7] = 6;
  EXPECT_ERROR(Loader(everyone(), counting(100), in_balance({.lengths = Lengths(lengths)})), mismatch,
               {"of lengths with fingerprint"});
  EXPECT_ERROR(
      Loader(everyone(), counting(100), in_balance({.field = "text", .quadratic = is_last ? 1. : 0.})),
      mismatch, {"0 n^2", "1 n^2"});
  EXPECT_ERROR(Loader(everyone(), counting(100), in_balance({.field = is_last ? "x" : "text"})), mismatch,
               {"lengths asked of fields"});
  EXPECT_ERROR(Loader(everyone(), counting(100), in_balance({.field = "x"})), invalid_argument,
               {"not ragged"});
  LoaderOptions options = in_balance({.field = "text"});
  if (is_last) options = {.global_batch_size = 64};
  EXPECT_ERROR(Loader(everyone(), counting(100), options), mismatch, {"rank_split"});
  EXPECT_ERROR(Loader(everyone(), counting(is_last ? 101 : 100), in_balance({.field = "text"})), mismatch,
               {"101 samples"});
}

}  // namespace rota::test::balance_ranks_test
