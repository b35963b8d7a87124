// Sources that a user makes of others.

#include "source/node_files.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::adaptor_test {

/// Sample i is i % 3 letters "a", in a file that ranks share. It counts what is pinned, and what is made for
/// workers.
class Letters final : public Source, private NodeFiles {
 public:
  explicit Letters(bool is_instance = false) : is_instance_(is_instance) {}

  [[nodiscard]] std::int64_t size() const override { return 20; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  void rows(std::span<const SampleId> ids, std::size_t /*field*/,
            std::span<std::int64_t> out) const override {
    std::ranges::transform(ids, out.begin(), [](SampleId id) { return id.value % 3; });
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    if (!is_instance_) ++reads_of_all;
    for (std::size_t i = 0; i < ids.size(); ++i) std::ranges::fill(out.bytes(0, i), std::byte{'a'});
  }
  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& /*worker*/) const override {
    return std::make_unique<Letters>(true);
  }
  [[nodiscard]] Fingerprint fingerprint() const override { return {.high = 1, .low = 2}; }
  [[nodiscard]] std::string where(SampleId id) const override { return "line " + std::to_string(id.value); }
  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override { return {5, 15}; }
  [[nodiscard]] std::vector<std::int64_t> shard_lengths(std::int64_t shards) const override {
    return shards == 2 ? std::vector<std::int64_t>{5, 15} : std::vector<std::int64_t>();
  }
  [[nodiscard]] std::int64_t will_read(SampleId first, std::int64_t count) const override {
    return 100 * first.value + count;
  }
  [[nodiscard]] const NodeFiles* node_files() const override { return this; }
  [[nodiscard]] Fetched fetched() const override { return {.files = 2, .bytes = 20}; }
  [[nodiscard]] std::shared_ptr<const void> pin(SampleRange /*samples*/, bool /*reads*/) const override {
    ++pins;
    return nullptr;
  }

  mutable std::atomic<int> reads_of_all = 0;
  mutable std::atomic<int> pins = 0;

 private:
  bool is_instance_;
  std::vector<Field> fields_{{.name = "line", .dtype = DType::uint8, .shape = {}, .ragged = true}};
};

class Same final : public SourceAdaptor {
 public:
  using SourceAdaptor::SourceAdaptor;

 private:
  [[nodiscard]] std::unique_ptr<const Source> wrap(std::shared_ptr<const Source> inner) const override {
    return std::make_unique<Same>(std::move(inner));
  }
};

class UpperCase final : public SourceAdaptor {
 public:
  using SourceAdaptor::SourceAdaptor;
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    inner().read(ids, out);
    for (std::byte& letter : out.all(0)) letter = static_cast<std::byte>(std::to_integer<int>(letter) - 32);
  }

 private:
  [[nodiscard]] std::unique_ptr<const Source> wrap(std::shared_ptr<const Source> inner) const override {
    return std::make_unique<UpperCase>(std::move(inner));
  }
};

/// The first half.
class Half final : public SourceAdaptor {
 public:
  using SourceAdaptor::SourceAdaptor;
  [[nodiscard]] std::int64_t size() const override { return inner().size() / 2; }

 private:
  [[nodiscard]] std::unique_ptr<const Source> wrap(std::shared_ptr<const Source> inner) const override {
    return std::make_unique<Half>(std::move(inner));
  }
};

class Forgetful final : public SourceAdaptor {
 public:
  using SourceAdaptor::SourceAdaptor;

 private:
  [[nodiscard]] std::unique_ptr<const Source> wrap(std::shared_ptr<const Source> /*inner*/) const override {
    return nullptr;
  }
};

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
  EXPECT_EQ(same.node_files(), letters->node_files());
  EXPECT_EQ(same.will_read({3}, 2), 302);
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
    EXPECT_EQ(letters->reads_of_all, 0);
    EXPECT_GE(letters->pins, 2);
    EXPECT_EQ(loader.stats().fetched.files, 0);  // none more than before
  }
}

TEST(SourceAdaptor, ThatDoesNotWrapWhatIsMadeForAWorkerIsRefused) {
  const auto letters = std::make_shared<Letters>();
  for (const int workers : {0, 2}) {
    Loader loader(std::make_shared<Forgetful>(letters), in_groups(workers));
    EXPECT_THAT(error_of([&] { loader.next(); }),
                is_error(ErrorCode::callback, {"for worker", "wrap() returned null"}));
  }
  EXPECT_EQ(letters->reads_of_all, 0);
}

TEST(SourceAdaptor, ShowsItsChangesToWhoReadsPartsOfSamples) {
  const auto packed =
      pack(std::make_shared<UpperCase>(std::make_shared<Letters>()), {.length = 3, .eos = '.'});
  const Samples samples(*packed, {{0}});
  EXPECT_THAT(samples.sample(0, 0),
              ::testing::AllOf(::testing::HasSubstr("A"), ::testing::Not(::testing::HasSubstr("a"))));
}

TEST(SourceAdaptor, OfAnotherSizeHasNoPartsAndCannotPin) {
  const auto letters = std::make_shared<Letters>();
  const auto half = std::make_shared<Half>(letters);
  EXPECT_THAT(half->part_sizes(), IsEmpty());
  EXPECT_THAT(half->shard_lengths(kShards), IsEmpty());
  EXPECT_THAT(error_of([&] { Loader(half, in_groups(1)); }),
              is_error(ErrorCode::unsupported, {"unpack the files"}));
  EXPECT_EQ(letters->pins, 0);
}

TEST(SourceAdaptor, JoinedSourcesAreToldOfTheirOwnSamples) {
  const auto letters = std::make_shared<Letters>();
  EXPECT_EQ(join({letters, letters})->will_read({18}, 3), 1802 + 1);
  EXPECT_EQ(join({letters, letters})->will_read({20}, 20), 20);
}

TEST(SourceAdaptor, NeedsASource) {
  EXPECT_THAT(error_of([] { Same{nullptr}; }), is_error(ErrorCode::invalid_argument, {"null pointer"}));
}

}  // namespace rota::test::adaptor_test
