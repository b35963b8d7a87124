#pragma once

// A tour of the edges: tables of calls at the rim of what functions and options take, each with the answer or
// the error that it must give. A table is a function that returns rows; ROTA_EDGES makes a test of each.

#include "test.hpp"

namespace rota::test {

/// A call and what must come of it.
struct Edge {
  std::string name;  ///< of the test: letters and digits
  std::function<void()> call;
  std::optional<rota::ErrorCode> code = {};  ///< none: the call returns
  std::string says = {};                     ///< what the error's message must contain, more than a letter
};

inline void PrintTo(const Edge& edge, std::ostream* out) { *out << edge.name; }

/// Makes the call; anything but a rota::Error that leaves it fails the test.
class Edges : public testing::TestWithParam<Edge> {
 protected:
  static void expect_what_it_must() {
    const Edge& edge = GetParam();
    try {
      edge.call();
      EXPECT_FALSE(edge.code.has_value())
          << "returned, and should have thrown " << rota::to_string(*edge.code);
    } catch (const rota::Error& error) {
      ASSERT_TRUE(edge.code.has_value()) << "threw " << rota::to_string(error.code()) << ": " << error.what();
      EXPECT_EQ(error.code(), *edge.code) << error.what();
      EXPECT_GT(edge.says.size(), 1U) << "any message has that: " << error.what();
      EXPECT_NE(std::string(error.what()).find(edge.says), std::string::npos) << error.what();
    }
  }
};

}  // namespace rota::test

/// A test for each row that `table()` returns, named AREA/Edges.GiveWhatIsDue/ROW.
#define ROTA_EDGES(area, table)                                     \
  INSTANTIATE_TEST_SUITE_P(area, Edges, testing::ValuesIn(table()), \
                           [](const testing::TestParamInfo<Edge>& row) { return row.param.name; })
