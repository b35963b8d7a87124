// Both writers leave the same bytes, and the collective one runs only where it can be trusted.

#include "commit_page.hpp"
#include "file_system.hpp"
#include "mpi_fixture.hpp"

namespace rota::test::writers_test {

class Writers : public MpiCheckpointTest {
 protected:
  // A little of everything, with rows in order, in ranges, scattered and none.
  static Snapshot snapshot() {
    Snapshot snapshot;
    const RowRange share = even_share(100'003, comm().world());
    snapshot.tensor("ordered", DType::int64, {3}, share.count, make_rows(share.first, share.count, 24));
    std::vector<RowRange> scattered;
    for (std::int64_t row = rank(); row < 999; row += size()) scattered.push_back({row, 1});
    snapshot.tensor("scattered", DType::float32, {3}, scattered, make_rows(scattered, 12));
    snapshot.tensor("empty", DType::float64, {7}, 0, Bytes{});
    const std::int64_t rows = rank() == last() ? 5 : 0;  // all of them on one rank
    snapshot.tensor("model/large", DType::uint8, {3 << 20}, rows, make_rows(0, rows, 3 << 20));
    snapshot.blob("state", std::string(5000, 'x'));
    snapshot.rank_blob("rng", std::to_string(rank()));
    return snapshot;
  }

  // The HDF5 part of what `kind` leaves, with the random number of its run put out.
  std::string hdf5_part(Writer kind) {
    CheckpointDirectory directory(comm(), path_ / std::to_string(static_cast<int>(kind)), {.writer = kind});
    const CheckpointInfo info = directory.save(1, snapshot()).info;
    std::string bytes = read_file(info.path);
    const auto page =
        checkpoint::decode_page(std::as_bytes(std::span(bytes)).first<checkpoint::kPageBytes>(), "test");
    bytes = bytes.substr(checkpoint::kPageBytes, page.hdf5_end - checkpoint::kPageBytes);
    const std::size_t at = bytes.find(info.run_id);
    EXPECT_NE(at, std::string::npos);
    return bytes.replace(at, info.run_id.size(), info.run_id.size(), '0');
  }
};

TEST_F(Writers, LeaveTheSameBytes) {
  const std::string direct = hdf5_part(Writer::direct);
  EXPECT_GT(direct.size(), 15U << 20);
  const std::string collective = hdf5_part(Writer::collective);
  ASSERT_EQ(collective.size(), direct.size());
  const auto same = std::transform_reduce(direct.begin(), direct.end(), collective.begin(), std::int64_t{0},
                                          std::plus<>(), std::equal_to<>());
  EXPECT_GE(same, std::ssize(direct) - 4);  // HDF5's own checksum of what holds the number of the run
}

TEST_F(Writers, SaveAgainAfterOneRankFailed) {
  auto directory = open();
  Snapshot broken = snapshot();
  if (rank() == last()) broken.tensor("another", DType::int8, {}, 0, Bytes{});
  if (size() > 1) {
    expect_same_error(ErrorCode::invalid_argument, "another", [&] { directory.save(1, broken); });
  }
  EXPECT_EQ(directory.save(2, snapshot()).info.serial, 0);
  EXPECT_EQ(directory.latest()->info().step, 2);
}

TEST_F(Writers, MissNobodyWhileTheLoopGoesOn) {
  auto directory = open({.deadline = 2s});
  directory.save_async(4, snapshot());
  const auto until = std::chrono::steady_clock::now() + 3s;
  while (std::chrono::steady_clock::now() < until) {
    if (rank() == 0) directory.poll();  // the others come by only later than the deadline
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(directory.wait()->info.step, 4);
}

TEST_F(Writers, SaveInTheBackgroundAndSayHowLongItTookAndNotHowLongNobodyAsked) {
  auto directory = open();
  const auto start = std::chrono::steady_clock::now();
  directory.save_async(5, snapshot());
  while (!directory.poll()) continue;
  const std::chrono::duration<double> most = std::chrono::steady_clock::now() - start;
  const SaveReport report = directory.wait().value();
  EXPECT_LE(report.seconds, most.count());
  EXPECT_EQ(report.info.step, 5);
  EXPECT_EQ(directory.latest()->info().step, 5);
}

TEST_F(Writers, ARankThatCanStartNoThreadFailsTheSaveOnAll) {
  auto directory = open();
  directory.save(1, snapshot());
  if (writer() == Writer::collective) {
    const auto none = rank() == last() ? std::make_unique<NoThreads>() : nullptr;
    expect_same_error(ErrorCode::callback, "", [&] { directory.save(2, snapshot()); });
    EXPECT_EQ(directory.latest()->info().step, 1);
  }
  EXPECT_EQ(directory.save(3, snapshot()).info.serial, 1);
}

TEST_F(Writers, GiveUpWhatIsUnderWayWhenTheyAreClosed) {
  for (int round = 0; round < 6; ++round) {
    {
      auto directory = open();
      directory.save_async(round, snapshot());
      const auto until = std::chrono::steady_clock::now() + (8 * round + rank() % 3) * 1ms;
      while (std::chrono::steady_clock::now() < until) directory.poll();
    }
    mpi::agree(comm(), "close", nullptr);
  }
  auto directory = open();
  directory.save(99, snapshot());
  EXPECT_EQ(directory.latest()->info().step, 99);
  EXPECT_THAT(names(), Each(StartsWith("checkpoint-")));
}

// CTest starts it with OMPIO chosen from outside, and with fewer threads.
TEST_F(Writers, RefuseWhereTheyCannotBeTrusted) {
  const char* why = std::getenv("ROTA_TEST_REFUSAL");
  ASSERT_NE(why, nullptr) << "to be run where MPI is not as it should be";
  EXPECT_THAT(
      same_error_of([&] { CheckpointDirectory(comm(), path_ / "refused", {.writer = Writer::collective}); }),
      IsError(ErrorCode::unsupported, why));
  EXPECT_EQ(CheckpointDirectory(comm(), path_ / "direct").save(1, snapshot()).info.serial, 0);
}

}  // namespace rota::test::writers_test
