#include "edges/edge.hpp"
#include "test.hpp"

namespace rota::test::checkpoint_edges_test {

using std::chrono::milliseconds;

constexpr auto kInvalid = ErrorCode::invalid_argument;
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

const std::vector<float>& numbers() {
  static const std::vector<float> kNumbers = {1, 2, 3, 4};
  return kNumbers;
}

Edge named(std::string test, std::string name, std::optional<ErrorCode> code = kInvalid) {
  const auto call = [name] { Snapshot().tensor(name, {}, 4, numbers()); };
  return {"Tensor" + std::move(test), call, code, code ? "name" : ""};
}

Edge shaped(std::string test, std::vector<std::int64_t> row, std::int64_t rows,
            std::optional<ErrorCode> code = kInvalid) {
  const auto call = [row, rows] { Snapshot().tensor("t", row, rows, numbers()); };
  return {"TensorShape" + std::move(test), call, code, code ? "\"t\"" : ""};
}

std::vector<Edge> snapshots() {
  const std::string long_name(5000, 'n');
  return {
      named("WithoutName", ""),
      named("NamedSlash", "/"),
      named("NamedAbsolute", "/a"),
      named("NamedWithTrailingSlash", "a/"),
      named("NamedWithEmptyPart", "a//b"),
      named("NamedDot", "."),
      named("NamedDotDot", "a/../b"),
      named("NamedWithSpace", "a b"),
      named("NamedWithNul", std::string("a\0b", 3)),
      named("NamedInGreek", "\xce\xb1"),
      named("NamedVeryLong", long_name),
      named("NamedByEveryKindOfLetter", "Aa0_.-/b", {}),
      shaped("OfScalars", {}, 4, {}),
      shaped("OfOneRow", {4}, 1, {}),
      shaped("OfTooManyRows", {}, 5),
      shaped("OfTooFewRows", {}, 3),
      shaped("OfNegativeRows", {}, -4),
      shaped("OfNegativeExtents", {-2, -2}, 1),
      shaped("OfExtentsThatOverflow", {kHuge, kHuge, 4}, 1),
      shaped("OfExtentsThatWrapToTheRightSize", {std::int64_t{1} << 62, 4}, 4),
      shaped("OfNoElements", {0}, 4),
      {"TensorTwice",
       [] {
         Snapshot snapshot;
         snapshot.tensor("t", {}, 4, numbers());
         snapshot.tensor("t", {}, 4, numbers());
       },
       kInvalid, "\"t\""},
      {"TensorOfUnknownType",
       [] { Snapshot().tensor("t", static_cast<DType>(99), {}, 1, std::as_bytes(std::span(numbers()))); },
       kInvalid, "\"t\""},
      {"TensorOfANegativeRange",
       [] {
         const std::array<RowRange, 1> rows{{{-1, 4}}};
         Snapshot().tensor("t", DType::float32, {}, rows, std::as_bytes(std::span(numbers())));
       },
       kInvalid, "\"t\""},
      {"TensorOfARangeThatOverflows",
       [] {
         const std::array<RowRange, 1> rows{{{kHuge, 4}}};
         Snapshot().tensor("t", DType::float32, {}, rows, std::as_bytes(std::span(numbers())));
       },
       kInvalid, "\"t\""},
      {"BlobTwice",
       [] {
         Snapshot snapshot;
         snapshot.blob("b", "1");
         snapshot.blob("b", "2");
       },
       kInvalid, "\"b\""},
      {"BlobAndRankBlobOfOneName",
       [] {
         Snapshot snapshot;
         snapshot.blob("b", "1");
         snapshot.rank_blob("b", "2");
       }},
      {"BlobWithoutName", [] { Snapshot().blob("", "x"); }, kInvalid, "name"},
      {"BlobEmpty", [] { Snapshot().blob("b", ""); }},
      {"WorkerBlobOfNoWorker", [] { Snapshot().worker_blob("b", 0, 0, ""); }, kInvalid, "worker 0 of 0"},
      {"WorkerBlobOfWorkerNegative", [] { Snapshot().worker_blob("b", -1, 1, ""); }, kInvalid,
       "worker -1 of 1"},
      {"WorkerBlobOfWorkerPastTheLast", [] { Snapshot().worker_blob("b", 2, 2, ""); }, kInvalid,
       "worker 2 of 2"},
  };
}

Edge policy(std::string test, CheckpointPolicy policy, std::optional<ErrorCode> code = kInvalid,
            std::string says = {}) {
  return {"Policy" + std::move(test), [policy] { policy.validate(); }, code, std::move(says)};
}

std::vector<Edge> policies() {
  return {
      policy("Default", {}, {}),
      policy("KeepsNone", {.keep_last = 0}, kInvalid, "keep_last"),
      policy("KeepsLessThanNone", {.keep_last = -1}, kInvalid, "keep_last"),
      policy("KeepsAll", {.keep_last = kHuge}, {}),
      policy("KeepsEveryNegative", {.keep_every = -1}, kInvalid, "keep_every"),
      policy("KeepsEveryHuge", {.keep_every = kHuge}, {}),
      policy("DeadlineNever", {.deadline = milliseconds::zero()}, {}),
      policy("DeadlineNegative", {.deadline = milliseconds(-1)}, kInvalid, "deadline"),
      policy("DeadlineHuge", {.deadline = milliseconds::max()}, {}),
      policy("WriterUnknown", {.writer = static_cast<rota::Writer>(99)}, kInvalid, "writer"),
  };
}

/// A directory with one checkpoint of step 7: tensor "t", float32 [4], and blob "b".
struct Saved {
  Saved() {
    Snapshot snapshot;
    snapshot.tensor("t", {}, 4, numbers());
    snapshot.blob("b", rota::to_blob(std::int64_t{5}));
    snapshot.rank_blob("r", "mine");
    file = directory().save(7, snapshot).info.path;
  }
  [[nodiscard]] rota::CheckpointDirectory directory(CheckpointPolicy policy = {}) const {
    return {rota::mpi::Communicator(), temporary / "c", policy};
  }
  rota::test::TemporaryDirectory temporary;
  std::filesystem::path file;
};

using WithSaved = std::function<void(const Saved&, const rota::Checkpoint&)>;
Edge reading(std::string test, WithSaved call, std::optional<ErrorCode> code = {}, std::string says = {}) {
  const auto open_and_call = [call = std::move(call)] {
    const Saved saved;
    call(saved, rota::open_checkpoint(saved.file));
  };
  return {"Read" + std::move(test), open_and_call, code, std::move(says)};
}

std::vector<Edge> checkpoints() {
  using rota::Checkpoint;
  constexpr auto kRange = ErrorCode::out_of_range;
  return {
      reading(
          "OfNoTensor", [](auto&, auto& c) { std::ignore = c.template read<float>(""); },
          ErrorCode::not_found, "it has \"t\""),
      reading(
          "OfABlobAsTensor", [](auto&, auto& c) { std::ignore = c.template read<float>("b"); },
          ErrorCode::not_found, "tensor \"b\""),
      reading(
          "AsAnotherType", [](auto&, auto& c) { std::ignore = c.template read<double>("t"); },
          ErrorCode::mismatch, "float32"),
      reading("OfNoRows",
              [](auto&, auto& c) {
                EXPECT_TRUE(c.template read<float>("t", {0, 0}).empty());
              }),
      reading("OfNoRowsAtTheEnd",
              [](auto&, auto& c) {
                EXPECT_TRUE(c.template read<float>("t", {4, 0}).empty());
              }),
      reading(
          "OfRowsPastTheEnd",
          [](auto&, auto& c) {
            std::ignore = c.template read<float>("t", {3, 2});
          },
          kRange, "\"t\""),
      reading(
          "OfRowsBelowZero",
          [](auto&, auto& c) {
            std::ignore = c.template read<float>("t", {-1, 2});
          },
          kRange, "\"t\""),
      reading(
          "OfNegativeRows",
          [](auto&, auto& c) {
            std::ignore = c.template read<float>("t", {2, -1});
          },
          kRange, "\"t\""),
      reading(
          "OfRowsThatOverflow",
          [](auto&, auto& c) {
            std::ignore = c.template read<float>("t", {1, kHuge});
          },
          kRange, "\"t\""),
      reading(
          "IntoTooLittleMemory",
          [](auto&, auto& c) {
            std::array<std::byte, 15> memory{};
            c.read("t", {0, 4}, memory);
          },
          kInvalid, "room for 15"),
      reading(
          "OfNoBlob", [](auto&, auto& c) { std::ignore = c.blob("x"); }, ErrorCode::not_found, "\"x\""),
      reading(
          "OfARankBlobAsBlob", [](auto&, auto& c) { std::ignore = c.blob("r"); }, ErrorCode::not_found,
          "\"r\""),
      reading("OfARankBlobInAnotherWorld",
              [](auto&, auto& c) {
                EXPECT_FALSE(c.rank_blob("r", {0, 2}).has_value());
              }),
      reading("OfARankBlobThatNobodySaved",
              [](auto&, auto& c) {
                EXPECT_FALSE(c.rank_blob("x", {0, 1}).has_value());
              }),
      reading(
          "OfABlobAsAnotherType", [](auto&, auto& c) { rota::from_blob<std::string>(c.blob("b")); },
          ErrorCode::corrupt, "blob"),
      reading("DroppedInASmallerWorld", [](auto&, auto& c) { EXPECT_EQ(c.dropped(2).size(), 1U); }),
      reading("DroppedInTheSameWorld", [](auto&, auto& c) { EXPECT_TRUE(c.dropped(1).empty()); }),
      reading(
          "DroppedInAWorldOfNone", [](auto&, auto& c) { std::ignore = c.dropped(0); }, kInvalid,
          "world_size is 0"),
      reading("Twice", [](auto& saved, auto&) { rota::open_checkpoint(saved.file); }),
      {"OpenOfNoPath", [] { rota::open_checkpoint(""); }, ErrorCode::not_found, "No such file"},
      {"OpenOfADirectory", [] { rota::open_checkpoint("/tmp"); }, ErrorCode::corrupt, "/tmp"},
      {"OpenOfADevice", [] { rota::open_checkpoint("/dev/null"); }, ErrorCode::corrupt, "/dev/null"},
      {"OpenOfNothing", [] { rota::open_checkpoint("/nowhere/c.h5"); }, ErrorCode::not_found,
       "/nowhere/c.h5"},
      {"VerifyOfNothing", [] { rota::verify_checkpoint("/nowhere/c.h5"); }, ErrorCode::not_found, "/nowhere"},
      {"VerifyOfADevice", [] { EXPECT_FALSE(rota::verify_checkpoint("/dev/null").is_good()); }},
      {"DecodeNothing", [] { rota::from_blob<int>(""); }, ErrorCode::corrupt, "end early"},
      {"DecodeALengthBeyondTheBytes",
       [] {
         std::string bytes = rota::to_blob(std::string("abc"));
         bytes[7] = '\x7f';
         rota::from_blob<std::string>(bytes);
       },
       ErrorCode::corrupt, "length"},
      {"DecodeWithBytesBehind", [] { rota::from_blob<int>(rota::to_blob(1) + "x"); }, ErrorCode::corrupt,
       "left over"},
  };
}

Edge in_directory(std::string test, std::function<void(const Saved&)> call,
                  std::optional<ErrorCode> code = {}, std::string says = {}) {
  return {"Directory" + std::move(test), [call = std::move(call)] { call(Saved()); }, code, std::move(says)};
}

void save_step(const Saved& saved, std::int64_t step) {
  const Snapshot empty;
  EXPECT_EQ(saved.directory().save(step, empty).info.step, step);
}

std::vector<Edge> directories() {
  const auto at = [](std::string path) {
    return [path] { rota::CheckpointDirectory(rota::mpi::Communicator(), path); };
  };
  return {
      {"DirectoryWithoutName", at(""), kInvalid, "path is empty"},
      {"DirectoryIsADevice", at("/dev/null"), ErrorCode::io, "/dev/null"},
      {"DirectoryBelowADevice", at("/dev/null/c"), ErrorCode::io, "/dev/null"},
      in_directory(
          "IsAFile", [](auto& saved) { rota::CheckpointDirectory({}, saved.file); }, ErrorCode::io,
          ".h5: it is a file"),
      in_directory(
          "TwiceAtOnce",
          [](auto& saved) {
            const auto first = saved.directory();
            std::ignore = saved.directory();
          },
          ErrorCode::busy, "/c: another job"),
      in_directory("TwiceInTurn",
                   [](auto& saved) {
                     std::ignore = saved.directory();
                     EXPECT_EQ(saved.directory().list().size(), 1U);
                   }),
      in_directory(
          "SaveRowsTwice",
          [](auto& saved) {
            const std::array<RowRange, 2> rows{{{0, 2}, {1, 2}}};
            Snapshot snapshot;
            snapshot.tensor("t", DType::float32, {}, rows, std::as_bytes(std::span(numbers())));
            saved.directory().save(8, snapshot);
          },
          kInvalid, "\"t\""),
      in_directory("SaveNothing", [](auto& saved) { save_step(saved, 8); }),
      in_directory("SaveTheSameStepAgain", [](auto& saved) { save_step(saved, 7); }),
      in_directory("SaveStepZero", [](auto& saved) { save_step(saved, 0); }),
      in_directory(
          "SaveStepNegative", [](auto& saved) { save_step(saved, -1); }, kInvalid, "step is -1"),
      in_directory("SaveStepHuge", [](auto& saved) { save_step(saved, kHuge); }),
      in_directory(
          "OpenSerialThatIsNotThere", [](auto& saved) { saved.directory().open(99); }, ErrorCode::not_found,
          "checkpoint 99"),
      in_directory(
          "OpenSerialNegative", [](auto& saved) { saved.directory().open(-1); }, ErrorCode::not_found,
          "checkpoint -1"),
      in_directory("WaitForNothing", [](auto& saved) { EXPECT_FALSE(saved.directory().wait().has_value()); }),
      in_directory("PollNothing", [](auto& saved) { EXPECT_TRUE(saved.directory().poll()); }),
      in_directory("WaitTwice",
                   [](auto& saved) {
                     auto directory = saved.directory();
                     directory.save_async(8, Snapshot());
                     EXPECT_TRUE(directory.wait().has_value());
                     EXPECT_FALSE(directory.wait().has_value());
                   }),
      in_directory("RestoreNothingOfWhatIsThere",
                   [](auto& saved) { EXPECT_TRUE(saved.directory().restore_all().has_value()); }),
      in_directory("LatestOfAnEmptyOne",
                   [](auto& saved) {
                     std::filesystem::remove(saved.file);
                     EXPECT_FALSE(saved.directory().latest().has_value());
                   }),
      in_directory(
          "GoneMeanwhile",
          [](auto& saved) {
            auto directory = saved.directory();
            std::filesystem::remove_all(saved.temporary / "c");
            directory.save(8, Snapshot());
          },
          ErrorCode::not_found, "/c: No such file"),
  };
}

ROTA_EDGES(Snapshot, snapshots);
ROTA_EDGES(CheckpointPolicy, policies);
ROTA_EDGES(Checkpoint, checkpoints);
ROTA_EDGES(CheckpointDirectory, directories);

}  // namespace rota::test::checkpoint_edges_test
