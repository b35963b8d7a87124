#include "edges/edge.hpp"

namespace rota::test {

TEST_P(Edges, GiveWhatIsDue) { expect_what_it_must(); }

}  // namespace rota::test
