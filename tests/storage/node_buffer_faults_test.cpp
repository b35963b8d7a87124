// What is handed out when memory is lacking or bytes change on their way. The library's calls of MPI come
// by here; files in memory fail by the limit of file sizes.

#include <mpi.h>

#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "storage/node_buffer.hpp"
#include "allocations.hpp"
#include "test.hpp"

namespace {

std::int64_t broadcasts = 0;
bool is_damaging = false;

}  // namespace

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the names are MPI's own
extern "C" int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  ++broadcasts;
  const int status = PMPI_Bcast(data, count, type, root, comm);
  if (is_damaging && count > 1000) *static_cast<std::byte*>(data) ^= std::byte{1};
  return status;
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)

namespace rota::test::node_buffer_faults_test {

constexpr std::size_t kBytes = 3'000'000;
using Bytes = std::vector<std::byte>;

Bytes counted(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

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

class NodeBufferFaults : public ::testing::Test {
 protected:
  static const mpi::Communicator& comm() { return mpi_session().comm(); }
  [[nodiscard]] NodeBuffer buffer_here(const mpi::Nodes& nodes) const {
    return broadcast_to_nodes(nodes, "test", [&](const ByteSink& sink) { sink(bytes_); });
  }
  /// The error that `work` throws here, which must be that of all.
  template <typename Work>
  static std::string error_of_all(const Work& work) {
    std::string message = "nothing was thrown";
    try {
      work();
    } catch (const std::exception& error) {
      message = error.what();
    }
    EXPECT_EQ(broadcast(comm(), message), message);
    return message;
  }
  void expect_handed_out(const mpi::Nodes& nodes) const {
    EXPECT_TRUE(std::ranges::equal(buffer_here(nodes).bytes, bytes_));
  }

  const Bytes bytes_ = counted(kBytes);
  const mpi::Nodes each_alone_{comm(), {.ranks_per_node = 1}};
};

TEST_F(NodeBufferFaults, ARankThatGotSomethingElseIsAnErrorOnAll) {
  const bool is_one_rank = comm().size() == 1;
  is_damaging = !is_one_rank && comm().rank() == comm().size() - 1;
  std::string error;
  try {
    (void)buffer_here(each_alone_);
  } catch (const Error& thrown) {
    error = thrown.what();
  }
  is_damaging = false;
  EXPECT_TRUE(is_one_rank || error.find("did not get the same") != std::string::npos) << error;
  expect_handed_out(each_alone_);
}

TEST_F(NodeBufferFaults, WhateverRankLacksMemoryAllThrowAndGoOn) {
  for (int lacking = 0; lacking < comm().size(); ++lacking) {
    EXPECT_THAT(error_of_all([&] {
                  const FileLimit limit(comm().rank() == lacking ? 300'000 : RLIM_INFINITY);
                  (void)buffer_here(each_alone_);
                }),
                HasSubstr("share memory among the ranks of a node: write"));
    expect_handed_out(each_alone_);
  }
}

TEST_F(NodeBufferFaults, WhateverRankLacksMemoryForACopyAllThrowAndGoOn) {
  const mpi::Nodes nodes(comm(), {.ranks_per_node = 2, .can_share_memory = false});
  for (int lacking = 0; lacking < comm().size() / 2 * 2; ++lacking) {
    if (comm().rank() == lacking) rota::test::grant_no_more_than(kBytes / 2);
    const std::string error = error_of_all([&] { (void)buffer_here(nodes); });
    rota::test::grant_all();
    EXPECT_THAT(error, HasSubstr("rank " + std::to_string(lacking) + ": share memory"));
    expect_handed_out(nodes);
  }
}

TEST_F(NodeBufferFaults, WhatIsJoinedInVainIsNotLeftForTheNextOne) {
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
  if (comm().size() == 1) GTEST_SKIP() << "one rank has no others";
  const NodeBuffer shared = broadcast_to_nodes(each_alone_, "test", [&](const ByteSink& sink) {
    const std::int64_t before = broadcasts;
    sink(bytes_);
    EXPECT_GE(broadcasts - before, 2 * (kBytes >> 18U));
  });
  EXPECT_EQ(shared.bytes.size(), kBytes);
}

TEST_F(NodeBufferFaults, NothingIsLeftOfBytesThatNobodyKeeps) {
  const auto maps = [] {
    std::ifstream file("/proc/self/maps");
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  for (const mpi::Nodes& nodes : {mpi::Nodes(comm()), mpi::Nodes(comm(), {.ranks_per_node = 1})}) {
    const NodeBuffer shared = buffer_here(nodes);
    EXPECT_THAT(maps(), HasSubstr("/memfd:rota"));
    EXPECT_EQ(descriptors(), before);
  }
  EXPECT_THAT(maps(), ::testing::Not(HasSubstr("/memfd:rota")));
}

}  // namespace rota::test::node_buffer_faults_test
