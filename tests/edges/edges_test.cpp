#include "edges/edge.hpp"

namespace edges {

TEST_P(Edges, GiveWhatIsDue) { expect_what_it_must(); }

}  // namespace edges
