#include "mapped_file.hpp"
#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "storage/node_buffer.hpp"
#include "test.hpp"

namespace rota::test::node_buffer_test {

using Bytes = std::vector<std::byte>;

Bytes some_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Puts `bytes` in pieces of all sizes.
void put_in_pieces(const ByteSink& sink, std::span<const std::byte> bytes) {
  std::mt19937_64 random(bytes.size());
  while (!bytes.empty()) {
    const std::size_t count = std::min<std::size_t>(bytes.size(), random() % 600'000);
    sink(bytes.first(count));
    bytes = bytes.subspan(count);
  }
}

bool are_equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::ranges::equal(a, b);
}

/// The code and message that `work` throws here.
template <typename Work>
std::string error_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// mpi::Nodes as they are, of one rank, of two ranks in a row; with memory in common and without.
class NodeBuffers : public ::testing::TestWithParam<mpi::Nodes::Pretence> {
 protected:
  mpi::Nodes nodes_{mpi_session().comm(), GetParam()};
};

TEST_P(NodeBuffers, BringsAllThatRankZeroMakesToAllRanks) {
  for (const std::size_t size : {0U, 1U, (1U << 18U) - 1U, 1U << 18U, (1U << 18U) + 1U, 3'000'000U}) {
    const Bytes expected = some_bytes(size, size);
    const NodeBuffer shared =
        broadcast_to_nodes(nodes_, "test", [&](const ByteSink& sink) { put_in_pieces(sink, expected); });
    EXPECT_TRUE(are_equal(shared.bytes, expected)) << size;
  }
}

TEST_P(NodeBuffers, ThrowsOnAllRanksWhatIsThrownHalfWay) {
  const auto fail = [](const ByteSink& sink) {
    put_in_pieces(sink, some_bytes(1'000'000, 1));
    throw Error(ErrorCode::io, "the directory is gone");
  };
  EXPECT_THAT(error_of([&] { broadcast_to_nodes(nodes_, "test", fail); }),
              ::testing::HasSubstr("the directory is gone"));
  const Bytes expected = some_bytes(100, 2);
  const NodeBuffer shared = broadcast_to_nodes(nodes_, "test", [&](const ByteSink& sink) { sink(expected); });
  EXPECT_TRUE(are_equal(shared.bytes, expected));
}

TEST_P(NodeBuffers, JoinsWhatEachRankHasInOrder) {
  const int ranks = nodes_.all().size();
  for (const std::size_t most : {0U, 10U, 700'000U}) {
    const auto part_of = [&](int rank) {
      const auto seed = static_cast<std::uint64_t>(rank);
      return some_bytes(most == 0 || rank % 3 == 1 ? 0 : most - seed, seed);
    };
    Bytes expected;
    for (int rank = 0; rank < ranks; ++rank) {
      const Bytes part = part_of(rank);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    const NodeBuffer joined = all_gather_to_nodes(nodes_, "test", part_of(nodes_.all().rank()));
    EXPECT_TRUE(are_equal(joined.bytes, expected)) << most;
  }
}

TEST_P(NodeBuffers, CanBeReadWhenTheLeaderHasForgottenIt) {
  const Bytes expected = some_bytes(500'000, 5);
  NodeBuffer shared = broadcast_to_nodes(nodes_, "test", [&](const ByteSink& sink) { sink(expected); });
  if (nodes_.leads()) shared = {};
  agree(nodes_.all(), "forget", nullptr);
  EXPECT_TRUE(nodes_.leads() || are_equal(shared.bytes, expected));
}

INSTANTIATE_TEST_SUITE_P(Each, NodeBuffers,
                         ::testing::Values(mpi::Nodes::Pretence{}, mpi::Nodes::Pretence{.ranks_per_node = 1},
                                           mpi::Nodes::Pretence{.ranks_per_node = 2},
                                           mpi::Nodes::Pretence{.can_share_memory = false},
                                           mpi::Nodes::Pretence{.ranks_per_node = 2,
                                                                .can_share_memory = false}));

TEST(SharedMemory, IsOneCopyForTheRanksOfANode) {
  const mpi::Nodes nodes(mpi_session().comm());
  const Bytes bytes = some_bytes(100'000, 7);
  const NodeBuffer shared = broadcast_to_nodes(nodes, "test", [&](const ByteSink& sink) { sink(bytes); });
  const std::string file = test::file_behind(shared.bytes.data());
  EXPECT_FALSE(file.empty());
  EXPECT_EQ(broadcast(nodes.all(), file), file);
}

TEST(SharedMemory, HasNoNameInAnyDirectory) {
  const mpi::Nodes nodes(mpi_session().comm());
  const Bytes bytes = some_bytes(100'000, 7);
  const NodeBuffer shared = broadcast_to_nodes(nodes, "test", [&](const ByteSink& sink) { sink(bytes); });
  std::ifstream maps("/proc/self/maps");
  std::string text{std::istreambuf_iterator<char>(maps), {}};
  EXPECT_THAT(text, ::testing::HasSubstr("/memfd:rota (deleted)"));
}

TEST(Digests, OfRanksThatHaveOtherBytesAreAnErrorOnAll) {
  const mpi::Communicator& comm = mpi_session().comm();
  Bytes bytes = some_bytes(1000, 3);
  EXPECT_EQ(error_of([&] { require_same_bytes(comm, "test", bytes); }), "nothing was thrown");
  if (comm.rank() == comm.size() - 1) bytes[500] ^= std::byte{1};
  const std::string error = error_of([&] { require_same_bytes(comm, "test", bytes); });
  EXPECT_THAT(error, ::testing::HasSubstr(comm.size() == 1 ? "nothing" : "did not get the same 1000 bytes"));
}

}  // namespace rota::test::node_buffer_test
