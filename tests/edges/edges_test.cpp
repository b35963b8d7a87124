#include "edges/edge.hpp"
#include "test.hpp"

namespace rota::test::edges_test {

TEST_P(Edges, GiveWhatIsDue) { expect_what_it_must(); }

}  // namespace rota::test::edges_test
