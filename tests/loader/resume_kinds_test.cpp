// Loaders of all kinds in one checkpoint: under one root, told apart by kind and name.

#include "loader/course.hpp"
#include "stream/numbered_stream.hpp"

namespace rota::test::resume_kinds_test {

Loader make_loader() { return {counting(100), {.global_batch_size = 7, .shards = 9}}; }
StreamLoader make_stream() { return StreamLoader(numbered({50}), {.global_batch_size = 4}); }
StreamLoader make_dispatch() {
  return StreamLoader(Dispatch{.source = numbered({60}), .shards = 3}, {.global_batch_size = 5});
}

/// A kind of loader, as messages call it.
struct Kind {
  std::string called;
  std::function<void(Snapshot&, std::string_view name)> save_behind_a_step;
  std::function<void(const Checkpoint&, std::string_view name)> restore_and_look;  // at the next step
};

template <typename Made>
Kind kind_of(std::string called, Made (*make)()) {
  return {.called = std::move(called),
          .save_behind_a_step =
              [make](Snapshot& snapshot, std::string_view name) {
                auto loader = make();
                ASSERT_TRUE(loader.next());
                save(loader, snapshot, name);
              },
          .restore_and_look =
              [make](const Checkpoint& checkpoint, std::string_view name) {
                auto loader = make();
                restore(loader, checkpoint, name);
                EXPECT_EQ(loader.position().step, 1);
                EXPECT_TRUE(loader.next());
              }};
}

const std::array kKinds{kind_of("Loader", make_loader), kind_of("StreamLoader", make_stream),
                        kind_of("StreamLoader of a Dispatch", make_dispatch)};

class ResumeKinds : public Test {
 protected:
  Checkpoint keep(const Snapshot& snapshot) {
    checkpoints_->save(0, snapshot);
    return *checkpoints_->latest();
  }
  Checkpoint keep_all_three() {
    Snapshot snapshot;
    for (const Kind& kind : kKinds) kind.save_behind_a_step(snapshot, std::to_string(kind.called.size()));
    return keep(snapshot);
  }

  Checkpoints checkpoints_;
};

TEST_F(ResumeKinds, GoOnSideBySideUnderNamesOfTheirOwn) {
  const Checkpoint checkpoint = keep_all_three();
  for (const Kind& kind : kKinds) kind.restore_and_look(checkpoint, std::to_string(kind.called.size()));
}

TEST_F(ResumeKinds, KeepAllThatTheyHaveBelowTheirName) {
  for (const Kind& kind : kKinds) {
    Snapshot snapshot;
    kind.save_behind_a_step(snapshot, "some");
    const Checkpoint checkpoint = keep(snapshot);
    EXPECT_TRUE(checkpoint.has_blob("loader/some/state"));
    for (const BlobInfo& blob : checkpoint.blobs()) EXPECT_THAT(blob.name, StartsWith("loader/some/"));
    for (const TensorInfo& tensor : checkpoint.tensors())
      EXPECT_THAT(tensor.name, StartsWith("loader/some/"));
  }
}

TEST_F(ResumeKinds, AnotherKindIsRefusedAndBothAreNamed) {
  for (const Kind& saved : kKinds) {
    Snapshot snapshot;
    saved.save_behind_a_step(snapshot, "main");
    const Checkpoint checkpoint = keep(snapshot);
    for (const Kind& here : kKinds) {
      if (here.called == saved.called) continue;
      EXPECT_ERROR(
          here.restore_and_look(checkpoint, "main"), mismatch,
          {fmt::format("it has the state of a {} there, and this is a {};", saved.called, here.called)});
    }
  }
}

TEST_F(ResumeKinds, TwoOfOneNameAreRefusedWhateverTheirKinds) {
  for (const Kind& one : kKinds) {
    for (const Kind& other : kKinds) {
      Snapshot snapshot;
      one.save_behind_a_step(snapshot, "main");
      EXPECT_ERROR(other.save_behind_a_step(snapshot, "main"), invalid_argument,
                   {"\"loader/main/", "give each state a name of its own"});
    }
  }
}

TEST_F(ResumeKinds, AreAllDescribed) {
  const Checkpoint checkpoint = keep_all_three();
  EXPECT_THAT(describe_loader(checkpoint, "6"), AllOf(HasSubstr("100 samples"), HasSubstr("9 shards")));
  EXPECT_THAT(describe_loader(checkpoint, "12"),
              AllOf(HasSubstr("1 shards"), HasSubstr("batch 4, 1 epochs, at epoch 0, step 1")));
  EXPECT_THAT(describe_loader(checkpoint, "26"),
              AllOf(HasSubstr("3 shards"), HasSubstr("5 items of the epoch")));
}

}  // namespace rota::test::resume_kinds_test
