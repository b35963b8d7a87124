#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <string>

#include "mapped_file.hpp"
#include "mpi/messages.hpp"
#include "mpi/shared_bytes.hpp"
#include "mpi_main.hpp"
#include "rota/error.hpp"

namespace rota::mpi {
namespace {

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

/// Nodes as they are, of one rank, of two ranks in a row; with memory in common and without.
class HandOut : public ::testing::TestWithParam<Nodes::Pretence> {
 protected:
  Nodes nodes_{mpi_session().comm(), GetParam()};
};

TEST_P(HandOut, BringsAllThatRankZeroMakesToAllRanks) {
  for (const std::size_t size : {0U, 1U, (1U << 18U) - 1U, 1U << 18U, (1U << 18U) + 1U, 3'000'000U}) {
    const Bytes expected = some_bytes(size, size);
    const SharedBytes shared =
        hand_out(nodes_, "test", [&](const ByteSink& sink) { put_in_pieces(sink, expected); });
    EXPECT_TRUE(are_equal(shared.bytes, expected)) << size;
  }
}

TEST_P(HandOut, ThrowsOnAllRanksWhatIsThrownHalfWay) {
  const auto fail = [](const ByteSink& sink) {
    put_in_pieces(sink, some_bytes(1'000'000, 1));
    throw Error(ErrorCode::io, "the directory is gone");
  };
  EXPECT_THAT(error_of([&] { hand_out(nodes_, "test", fail); }),
              ::testing::HasSubstr("the directory is gone"));
  const Bytes expected = some_bytes(100, 2);
  const SharedBytes shared = hand_out(nodes_, "test", [&](const ByteSink& sink) { sink(expected); });
  EXPECT_TRUE(are_equal(shared.bytes, expected));
}

TEST_P(HandOut, JoinsWhatEachRankHasInOrder) {
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
    const SharedBytes joined = join(nodes_, "test", part_of(nodes_.all().rank()));
    EXPECT_TRUE(are_equal(joined.bytes, expected)) << most;
  }
}

TEST_P(HandOut, CanBeReadWhenTheLeaderHasForgottenIt) {
  const Bytes expected = some_bytes(500'000, 5);
  SharedBytes shared = hand_out(nodes_, "test", [&](const ByteSink& sink) { sink(expected); });
  if (nodes_.leads()) shared = {};
  agree(nodes_.all(), "forget", nullptr);
  EXPECT_TRUE(nodes_.leads() || are_equal(shared.bytes, expected));
}

INSTANTIATE_TEST_SUITE_P(Each, HandOut,
                         ::testing::Values(Nodes::Pretence{}, Nodes::Pretence{.ranks_per_node = 1},
                                           Nodes::Pretence{.ranks_per_node = 2},
                                           Nodes::Pretence{.can_share_memory = false},
                                           Nodes::Pretence{.ranks_per_node = 2, .can_share_memory = false}));

TEST(SharedMemory, IsOneCopyForTheRanksOfANode) {
  const Nodes nodes(mpi_session().comm());
  const Bytes bytes = some_bytes(100'000, 7);
  const SharedBytes shared = hand_out(nodes, "test", [&](const ByteSink& sink) { sink(bytes); });
  const std::string file = test::file_behind(shared.bytes.data());
  EXPECT_FALSE(file.empty());
  EXPECT_EQ(broadcast(nodes.all(), file), file);
}

TEST(SharedMemory, HasNoNameInAnyDirectory) {
  const Nodes nodes(mpi_session().comm());
  const Bytes bytes = some_bytes(100'000, 7);
  const SharedBytes shared = hand_out(nodes, "test", [&](const ByteSink& sink) { sink(bytes); });
  std::ifstream maps("/proc/self/maps");
  std::string text{std::istreambuf_iterator<char>(maps), {}};
  EXPECT_THAT(text, ::testing::HasSubstr("/memfd:rota (deleted)"));
}

TEST(Digests, OfRanksThatHaveOtherBytesAreAnErrorOnAll) {
  const Communicator& comm = mpi_session().comm();
  Bytes bytes = some_bytes(1000, 3);
  EXPECT_EQ(error_of([&] { require_same_bytes(comm, "test", bytes); }), "nothing was thrown");
  if (comm.rank() == comm.size() - 1) bytes[500] ^= std::byte{1};
  const std::string error = error_of([&] { require_same_bytes(comm, "test", bytes); });
  EXPECT_THAT(error, ::testing::HasSubstr(comm.size() == 1 ? "nothing" : "did not get the same 1000 bytes"));
}

TEST(Messages, GoFromEachRankToEach) {
  const Communicator& comm = mpi_session().comm();
  const auto message = [](int from, int to) {
    const auto sender = static_cast<std::size_t>(from);
    const auto receiver = static_cast<std::size_t>(to);
    return some_bytes(1000 * sender + receiver, sender + 100 * receiver);
  };
  Messages outgoing;
  for (int to = 0; to < comm.size(); ++to) outgoing.push_back(message(comm.rank(), to));
  const Messages got = mpi::exchange(comm, outgoing);
  ASSERT_EQ(std::ssize(got), comm.size());
  for (int from = 0; from < comm.size(); ++from) {
    EXPECT_EQ(got[static_cast<std::size_t>(from)], message(from, comm.rank()));
  }
}

TEST(Deals, ReachTheirRanksInOrder) {
  const Communicator& comm = mpi_session().comm();
  constexpr int kRounds = 500;
  std::vector<int> got;
  deal_out(
      comm, "test",
      [&](const Deal& deal) {
        for (int i = 0; i < kRounds; ++i) deal(i % comm.size(), std::as_bytes(std::span(&i, 1)));
      },
      [&](std::span<const std::byte> bytes) {
        int value = 0;
        std::memcpy(&value, bytes.data(), sizeof(value));
        got.push_back(value);
      });
  std::vector<int> expected;
  for (int i = comm.rank(); i < kRounds; i += comm.size()) expected.push_back(i);
  EXPECT_EQ(got, expected);
}

TEST(Deals, ThrowOnAllRanksWhatOneThrowsWhoTakesThem) {
  const Communicator& comm = mpi_session().comm();
  const auto produce = [&](const Deal& deal) {
    for (int i = 0; i < 100; ++i) deal(i % comm.size(), std::as_bytes(std::span(&i, 1)));
  };
  const auto take = [&](std::span<const std::byte>) {
    if (comm.rank() == comm.size() - 1) throw Error(ErrorCode::io, "no memory");
  };
  EXPECT_THAT(error_of([&] { deal_out(comm, "test", produce, take); }), ::testing::HasSubstr("no memory"));
  std::int64_t taken = 0;
  deal_out(comm, "test", produce, [&](std::span<const std::byte>) { ++taken; });
  mpi::sum(comm, std::span(&taken, 1));
  EXPECT_EQ(taken, 100);
}

TEST(Deals, ThrowOnAllRanksWhatIsThrownHalfWay) {
  const Communicator& comm = mpi_session().comm();
  const auto fail = [&](const Deal& deal) {
    for (int i = 0; i < 10; ++i) deal(i % comm.size(), std::as_bytes(std::span(&i, 1)));
    throw Error(ErrorCode::io, "the directory is gone");
  };
  const auto take = [](std::span<const std::byte>) {};
  EXPECT_THAT(error_of([&] { deal_out(comm, "test", fail, take); }),
              ::testing::HasSubstr("the directory is gone"));
}

}  // namespace
}  // namespace rota::mpi
