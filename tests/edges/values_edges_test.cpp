#include "edges/edge.hpp"
#include "order/weighted_turns.hpp"
#include "test.hpp"

namespace rota::test::values_edges_test {


constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Edge weights(std::string name, std::vector<double> values, std::optional<ErrorCode> code = {},
             std::string says = {}) {
  const auto call = [values = std::move(values)] {
    EXPECT_EQ(rota::internal::quantise(values).size(), values.size());
  };
  return {"Weights" + std::move(name), call, code, std::move(says)};
}

std::vector<Edge> values() {
  constexpr auto kInvalid = ErrorCode::invalid_argument;
  return {
      weights("None", {}, kInvalid, "1 to 4096"),
      weights("One", {7}),
      weights("OfManyMagnitudes", {1e-300, 1e300}),
      weights("Smallest", {std::numeric_limits<double>::denorm_min()}),
      weights("WithASumBeyondDouble", {1e308, 1e308, 1e308}, kInvalid, "finite"),
      weights("Negative", {1, -1}, kInvalid, "1, -1:"),
      weights("Infinite", {1, kInfinity}, kInvalid, "1, inf:"),
      weights("NoNumber", {kNaN}, kInvalid, "to nan:"),
      weights("AllZero", {0, 0}, kInvalid, "above 0"),
      weights("TooMany", std::vector<double>(4097, 1.0), kInvalid, "4097"),
      {"WorldOfNone",
       [] {
         rota::World{0, 0}.validate();
       },
       kInvalid, "rank 0 of 0"},
      {"WorldRankNegative",
       [] {
         rota::World{-1, 4}.validate();
       },
       kInvalid, "rank -1 of 4"},
      {"WorldRankOfSize",
       [] {
         rota::World{4, 4}.validate();
       },
       kInvalid, "rank 4 of 4"},
      {"WorldReplicaNegative",
       [] {
         rota::World{0, 1, -1}.validate();
       },
       kInvalid, "replica -1"},
      {"WorldLargest",
       [] {
         const int most = std::numeric_limits<int>::max();
         rota::World{most - 1, most, most}.validate();
       }},
      {"DTypeEmpty", [] { rota::parse_dtype(""); }, kInvalid, "no such type"},
      {"DTypeUnknown", [] { rota::parse_dtype("float128"); }, kInvalid, "float128"},
      {"DTypeInCapitals", [] { rota::parse_dtype("Float32"); }, kInvalid, "Float32"},
      {"ShuffleUnknown", [] { rota::parse_shuffle("random"); }, kInvalid, "global"},
      {"TailEmpty", [] { rota::parse_tail(""); }, kInvalid, "partial"},
      {"SplitUnknown", [] { rota::parse_split("by_rank"); }, kInvalid, "by_shard"},
  };
}

ROTA_EDGES(Values, values);

}  // namespace rota::test::values_edges_test
