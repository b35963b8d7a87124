// Bytes that rank 0 makes or each rank has reach all ranks, and one copy of them each node. They are handed
// out as they are when memory is lacking or bytes change on their way: the library's calls of MPI come by
// here, and files in memory fail by the limit of file sizes.

#include "ranks/node_buffer.hpp"

#ifdef ROTA_MPI
#include <mpi.h>
#endif
#include <sys/mman.h>
#include <sys/syscall.h>

#include "files/memory_file.hpp"
#include "mapped_file.hpp"
#include "ranks/collectives.hpp"
#include "ranks_main.hpp"

namespace {

std::int64_t broadcasts = 0;
bool is_damaging = false;
std::atomic<bool> is_forbidding = false;

}  // namespace

#ifdef ROTA_MPI
namespace {
std::byte* to_damage = nullptr;  // once it has come
}
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the names are MPI's own
extern "C" int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm,
                          MPI_Request* request) {
  ++broadcasts;
  if (is_damaging && count > 1000) to_damage = static_cast<std::byte*>(data);
  return PMPI_Ibcast(data, count, type, root, comm, request);
}
extern "C" int MPI_Testall(int count, MPI_Request requests[], int* is_done, MPI_Status statuses[]) {
  const int status = PMPI_Testall(count, requests, is_done, statuses);
  if (*is_done != 0 && to_damage != nullptr) *std::exchange(to_damage, nullptr) ^= std::byte{1};
  return status;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
#endif
// As a container forbids it.
extern "C" int memfd_create(const char* name, unsigned flags) noexcept {
  if (!is_forbidding) return static_cast<int>(::syscall(SYS_memfd_create, name, flags));
  errno = EPERM;
  return -1;
}

namespace rota::test::node_buffer_test {

using namespace ranks;  // NOLINT(google-build-using-namespace)
using Bytes = std::vector<std::byte>;

const Communicator& comm() { return everyone(); }

Bytes some_bytes(std::size_t count, std::uint64_t seed) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251 + seed * 13);
  return bytes;
}

// Puts `bytes` in pieces of all sizes.
void put_in_pieces(const ByteSink& sink, std::span<const std::byte> bytes) {
  std::mt19937_64 random(bytes.size());
  while (!bytes.empty()) {
    const std::size_t count = std::min<std::size_t>(bytes.size(), random() % 300'000);
    sink(bytes.first(count));
    bytes = bytes.subspan(count);
  }
}

NodeBuffer hand_out(const ranks::Nodes& nodes, const Bytes& bytes) {
  return broadcast_to_nodes(nodes, "test", [&](const ByteSink& sink) { put_in_pieces(sink, bytes); });
}
void expect_handed_out(const ranks::Nodes& nodes, const Bytes& bytes) {
  EXPECT_TRUE(std::ranges::equal(hand_out(nodes, bytes).bytes, bytes)) << bytes.size();
}

std::string error_here(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}
/// What `work` throws here, which must be what it throws on all.
std::string error_of_all(const std::function<void()>& work) {
  const std::string message = error_here(work);
  EXPECT_EQ(broadcast(comm(), message), message);
  return message;
}

std::string memory_map() { return read_file("/proc/self/maps"); }

/// Nodes as they are, of one rank, of two ranks in a row.
class NodeBuffers : public TestWithParam<int> {
 protected:
  ranks::Nodes nodes_{comm().duplicate(), GetParam()};
};

TEST_P(NodeBuffers, BringAllThatRankZeroMakesToAllRanks) {
  for (const std::size_t size : {0U, 1U, (1U << 18U) - 1U, 1U << 18U, (1U << 18U) + 1U, 1'000'000U}) {
    expect_handed_out(nodes_, some_bytes(size, size));
  }
}

TEST_P(NodeBuffers, AreHandedOutWhereMemfdIsForbidden) {
  is_forbidding = true;
  agree(comm(), "forbid", nullptr);
  expect_handed_out(nodes_, some_bytes(1'000'000, 1));
  const NodeMemory shared = make_node_memory(nodes_, 100);
  if (shared.is_first) shared.memory.get()[99] = std::byte{7};
  agree(comm(), "write", nullptr);
  is_forbidding = false;
  EXPECT_EQ(shared.memory.get()[99], std::byte{7});
}

TEST(MemoryFileTest, SaysWhatToDoWhereThereIsNoMemoryToShare) {
  if (are_threads()) GTEST_SKIP() << "the limit is of the process";
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  is_forbidding = true;
  ::setrlimit(RLIMIT_NOFILE, &none);  // no file can be opened in /dev/shm
  const std::string error = error_here([] { MemoryFile(); });
  ::setrlimit(RLIMIT_NOFILE, &before);
  is_forbidding = false;
  EXPECT_THAT(error,
              AllOf(HasSubstr("memfd_create: Operation not permitted, and "), HasSubstr("/dev/shm: Too"),
                    HasSubstr("allow the call in this container, or mount /dev/shm")));
}

TEST_P(NodeBuffers, ThrowOnAllRanksWhatIsThrownHalfWay) {
  const auto fail = [](const ByteSink& sink) {
    put_in_pieces(sink, some_bytes(1'000'000, 1));
    throw Error(ErrorCode::io, "the directory is gone");
  };
  EXPECT_THAT(error_of_all([&] { broadcast_to_nodes(nodes_, "test", fail); }),
              HasSubstr("the directory is gone"));
  expect_handed_out(nodes_, some_bytes(100, 2));
}

TEST_P(NodeBuffers, JoinWhatEachRankHasInOrder) {
  for (const std::size_t most : {0U, 10U, 700'000U}) {
    const auto part_of = [&](int rank) {
      const auto seed = static_cast<std::uint64_t>(rank);
      return some_bytes(most == 0 || rank % 3 == 1 ? 0 : most - seed, seed);
    };
    Bytes expected;
    for (int rank = 0; rank < comm().size(); ++rank) {
      const Bytes part = part_of(rank);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    const NodeBuffer joined = all_gather_to_nodes(nodes_, "test", part_of(comm().rank()));
    EXPECT_TRUE(std::ranges::equal(joined.bytes, expected)) << most;
  }
}

TEST_P(NodeBuffers, CanBeReadWhenTheLeaderHasForgottenThem) {
  const Bytes expected = some_bytes(500'000, 5);
  NodeBuffer shared = hand_out(nodes_, expected);
  if (nodes_.leads()) shared = {};
  agree(comm(), "forget", nullptr);
  EXPECT_TRUE(nodes_.leads() || std::ranges::equal(shared.bytes, expected));
}

INSTANTIATE_TEST_SUITE_P(Each, NodeBuffers, Values(0, 1, 2));

TEST(SharedMemory, IsOneCopyForTheRanksOfANodeAndHasNoNameInAnyDirectory) {
  const ranks::Nodes nodes(comm().duplicate());
  const NodeBuffer shared = hand_out(nodes, some_bytes(100'000, 7));
  const std::string file = file_behind(shared.bytes.data());
  EXPECT_FALSE(file.empty());
  EXPECT_EQ(broadcast(comm(), file), file);
  EXPECT_THAT(memory_map(), HasSubstr("/memfd:rota (deleted)"));
}

// ---- what fails ----

/// The limit of the size of this process's files, until it dies.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : former_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &former_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = former_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &former_);
    std::signal(SIGXFSZ, former_handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  void (*former_handler_)(int);
  rlimit former_{};
};

class NodeBufferFaults : public Test {
 protected:
  const Bytes bytes_ = some_bytes(1'000'000, 9);
  const ranks::Nodes each_alone_{comm().duplicate(), 1};
};

TEST_F(NodeBufferFaults, RanksThatGotOtherBytesAreAnErrorOnAll) {
  const bool is_last = comm().rank() == comm().size() - 1;
  const auto expect_told = [](const std::string& error) {
    EXPECT_THAT(error, HasSubstr(comm().size() == 1 ? "nothing" : "did not get the same"));
  };
  if (!are_threads()) {
    is_damaging = is_last && comm().size() > 1;
    const std::string error = error_here([&] { (void)hand_out(each_alone_, bytes_); });
    is_damaging = false;
    expect_told(error);
    expect_handed_out(each_alone_, bytes_);
  }

  Bytes bytes = some_bytes(1000, 3);
  EXPECT_EQ(error_of_all([&] { require_same_bytes(comm(), "test", bytes); }), "nothing was thrown");
  if (is_last) bytes[500] ^= std::byte{1};
  expect_told(error_of_all([&] { require_same_bytes(comm(), "test", bytes); }));
}

TEST_F(NodeBufferFaults, WhateverRankLacksMemoryAllThrowAndGoOn) {
  if (are_threads()) GTEST_SKIP() << "the limit is of the process";
  for (int lacking = 0; lacking < comm().size(); ++lacking) {
    EXPECT_THAT(error_of_all([&] {
                  const FileLimit limit(comm().rank() == lacking ? 300'000 : RLIM_INFINITY);
                  (void)hand_out(each_alone_, bytes_);
                }),
                HasSubstr("share memory among the ranks of a node: write"));
    expect_handed_out(each_alone_, bytes_);
  }
}

TEST_F(NodeBufferFaults, WhatIsJoinedInVainIsNotLeftForTheNextOne) {
  if (are_threads()) GTEST_SKIP() << "the limit is of the process";
  const Bytes mine(500'000, static_cast<std::byte>(comm().rank()));
  EXPECT_THAT(error_of_all([&] {
                const FileLimit limit(comm().rank() == 0 ? 700'000 : RLIM_INFINITY);
                (void)all_gather_to_nodes(each_alone_, "test", comm().size() == 1 ? bytes_ : mine);
              }),
              HasSubstr("share memory"));
  const Bytes next(1000, static_cast<std::byte>(100 + comm().rank()));
  const NodeBuffer joined = all_gather_to_nodes(each_alone_, "test", next);
  for (int rank = 0; rank < comm().size(); ++rank) {
    EXPECT_EQ(joined.bytes[static_cast<std::size_t>(1000 * rank)], static_cast<std::byte>(100 + rank));
  }
}

TEST_F(NodeBufferFaults, BytesGoToOtherNodesWhileTheyAreMade) {
  if (are_threads()) GTEST_SKIP() << "counts what MPI is asked to do";
  if (comm().size() == 1) GTEST_SKIP() << "one rank has no others";
  const NodeBuffer shared = broadcast_to_nodes(each_alone_, "test", [&](const ByteSink& sink) {
    const std::int64_t before = broadcasts;
    sink(bytes_);
    EXPECT_GE(broadcasts - before, 2 * (bytes_.size() >> 18U));
  });
  EXPECT_EQ(shared.bytes.size(), bytes_.size());
}

TEST_F(NodeBufferFaults, NothingIsLeftOfBytesThatNobodyKeeps) {
  if (are_threads()) GTEST_SKIP() << "looks at the memory of the process";
  const auto descriptors = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), {}); };
  const auto before = descriptors();
  for (const ranks::Nodes& nodes : {ranks::Nodes(comm().duplicate()), ranks::Nodes(comm().duplicate(), 1)}) {
    const NodeBuffer shared = hand_out(nodes, bytes_);
    EXPECT_THAT(memory_map(), HasSubstr("/memfd:rota"));
    EXPECT_EQ(descriptors(), before);
  }
  EXPECT_THAT(memory_map(), Not(HasSubstr("/memfd:rota")));
}

}  // namespace rota::test::node_buffer_test
