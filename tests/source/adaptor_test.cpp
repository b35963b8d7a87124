// Sources that a user makes of others.

#include "source/numbered_rows.hpp"
#include "source/reading.hpp"

namespace rota::test::adaptor_test {

struct SharedPlan final : ReadPlan {
  using ReadPlan::ReadPlan;
  [[nodiscard]] Sharing sharing() const override { return Sharing::in_few; }
  [[nodiscard]] ReadCounts counts() const override { return {.files = 2, .bytes = 20}; }
};

/// Sample i is i % 3 letters "a", in a file that ranks share. It counts what is pinned.
class Letters final : public ToldSource {
 public:
  Letters() : ToldSource(20, {{.name = "line", .dtype = DType::uint8, .ragged = true}}) {
    place = "line ";
    parts = {5, 15};
    lengths = parts;
    on_plan = [this](std::int64_t) { return std::make_unique<SharedPlan>(*this); };
    rows_of = [](SampleId id, std::size_t) { return id.value % 3; };
    fill = [](SampleId, std::size_t, std::int64_t, std::span<std::byte> to) {
      std::ranges::fill(to, std::byte{'a'});
    };
    on_will_read = [this](SampleId first, std::int64_t count) {
      ++pins;
      return 100 * first.value + count;
    };
    on_worker = [](const WorkerInfo&) { return std::make_unique<Letters>(); };
  }

  std::atomic<int> pins = 0;
};

/// Wraps as itself.
template <typename Self>
class Wrapped : public SourceAdaptor {
 public:
  using SourceAdaptor::SourceAdaptor;

 private:
  std::unique_ptr<const Source> wrap(std::shared_ptr<const Source> inner) const override {
    return std::make_unique<Self>(std::move(inner));
  }
};

struct Same final : Wrapped<Same> {
  using Wrapped::Wrapped;
};

struct UpperCase final : Wrapped<UpperCase> {
  using Wrapped::Wrapped;
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    inner().read(ids, out);
    for (std::byte& letter : out.all(0)) letter = static_cast<std::byte>(std::to_integer<int>(letter) - 32);
  }
};

struct FirstHalf final : Wrapped<FirstHalf> {
  using Wrapped::Wrapped;
  std::int64_t size() const override { return inner().size() / 2; }
};

struct Forbids final : Wrapped<Forbids> {
  using Wrapped::Wrapped;
  std::int64_t will_read(SampleId /*first*/, std::int64_t /*count*/) const override { return 0; }
};

struct Forgetful final : SourceAdaptor {
  using SourceAdaptor::SourceAdaptor;
  std::unique_ptr<const Source> wrap(std::shared_ptr<const Source> /*inner*/) const override {
    return nullptr;
  }
};

// Of samples that are read soon.
std::int64_t bytes_near(const Source& source, SampleRange samples) {
  return PlannedSource::plan_of(source)->bring(samples, true).bytes;
}

constexpr std::int64_t kShards = 2;
LoaderOptions in_groups(int workers) {
  return {.global_batch_size = 4,
          .shards = kShards,
          .interleave = 1,
          .shuffle = Shuffle::within,
          .workers = workers};
}

TEST(SourceAdaptor, ForwardsEverything) {
  const auto letters = std::make_shared<Letters>();
  const Same same(letters);
  EXPECT_EQ(same.size(), 20);
  EXPECT_EQ(same.fields(), letters->fields());
  EXPECT_EQ(same.fingerprint(), letters->fingerprint());
  EXPECT_EQ(same.where({7}), "line 7");
  EXPECT_THAT(same.part_sizes(), ElementsAre(5, 15));
  EXPECT_THAT(same.shard_lengths(kShards), ElementsAre(5, 15));
  EXPECT_EQ(PlannedSource::plan_of(same)->sharing(), Sharing::in_few);
  EXPECT_EQ(PlannedSource::plan_of(same)->counts().files, 2);
  EXPECT_EQ(bytes_near(same, {3, 5}), 302);
  const Samples samples(same, {{4}, {3}, {5}});
  EXPECT_EQ(samples.sample(0, 0), "a");
  EXPECT_EQ(samples.sample(0, 1), "");
  EXPECT_EQ(samples.sample(0, 2), "aa");
}

TEST(SourceAdaptor, KeepsInstancesOfWorkersAndPinsOfFiles) {
  for (const int workers : {0, 2}) {
    const auto letters = std::make_shared<Letters>();
    Loader loader(std::make_shared<UpperCase>(letters), in_groups(workers));
    std::int64_t samples = 0;
    for (const Batch& batch : loader) {
      samples += batch.size();
      EXPECT_THAT(batch.tensor("line").bytes, Each(std::byte{'A'}));
    }
    EXPECT_EQ(samples, 20);
    EXPECT_EQ(letters->reads, 0);
    EXPECT_GE(letters->pins, 2);
    EXPECT_EQ(loader.stats().fetched_files, 0);  // none more than before
  }
}

TEST(SourceAdaptor, ThatDoesNotWrapWhatIsMadeForAWorkerIsRefused) {
  const auto letters = std::make_shared<Letters>();
  for (const int workers : {0, 2}) {
    Loader loader(std::make_shared<Forgetful>(letters), in_groups(workers));
    EXPECT_ERROR(loader.next(), callback, {"for worker", "wrap() returned null"});
  }
  EXPECT_EQ(letters->reads, 0);
}

TEST(SourceAdaptor, ShowsItsChangesToWhoReadsPartsOfSamples) {
  const auto packed =
      pack(std::make_shared<UpperCase>(std::make_shared<Letters>()), {.length = 3, .eos = '.'});
  const Samples samples(*packed, {{0}});
  EXPECT_THAT(samples.sample(0, 0), AllOf(HasSubstr("A"), Not(HasSubstr("a"))));
}

TEST(SourceAdaptor, OfAnotherSizeHasNoPartsAndCannotPin) {
  const auto letters = std::make_shared<Letters>();
  const auto half = std::make_shared<FirstHalf>(letters);
  EXPECT_THAT(half->part_sizes(), IsEmpty());
  EXPECT_THAT(half->shard_lengths(kShards), IsEmpty());
  EXPECT_ERROR(Loader(half, in_groups(1)), unsupported, {"unpack the files"});
  EXPECT_EQ(letters->pins, 0);
}

TEST(SourceAdaptor, JoinedSourcesAreToldOfTheirOwnSamples) {
  const auto letters = std::make_shared<Letters>();
  EXPECT_EQ(bytes_near(*join({letters, letters}), {18, 21}), 1802 + 1);
  EXPECT_EQ(bytes_near(*join({letters, letters}), {20, 40}), 20);
}

// Who holds one in a source of its own asks it by the public way.
TEST(SourceAdaptor, AndWhatIsMadeOfOthersForwardWhatWillBeRead) {
  const auto rows = std::make_shared<NumberedRows>(20);
  EXPECT_EQ(Same(rows).will_read({3}, 2), 302);
  EXPECT_EQ(FirstHalf(rows).will_read({3}, 2), 0) << "of another size";
  EXPECT_EQ(join({rows, rows})->will_read({18}, 4), 1802 + 2);
  EXPECT_EQ(windows(rows, {.length = 4, .stride = 2})->will_read({1}, 2), 206);
}

TEST(SourceAdaptor, ThatForbidsToReadAheadIsBelieved) {
  EXPECT_EQ(bytes_near(Forbids(std::make_shared<NumberedRows>(20)), {3, 5}), 0);
}

TEST(SourceAdaptor, NeedsASource) { EXPECT_ERROR(Same{nullptr}, invalid_argument, {"null pointer"}); }

}  // namespace rota::test::adaptor_test
