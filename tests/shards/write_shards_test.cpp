// Shards are read back equal, whoever wrote them, and however often that was interrupted.

#include "formats/memory_storage.hpp"
#include "run_command.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::write_shards_test {

const std::vector<Field> kBytes{{.name = "jpg", .ragged = true}, {.name = "seg.png", .ragged = true}};
const std::vector<Field> kNumbers{
    {.name = "text", .ragged = true},
    {.name = "label", .dtype = DType::int64},
    {.name = "Box", .dtype = DType::float32, .shape = {2, 3}},
    {.name = "tokens", .dtype = DType::uint16, .ragged = true},
};

/// Samples at random, the same for the same seed.
class Random final : public Source {
 public:
  Random(std::vector<Field> fields, std::int64_t size, unsigned seed)
      : fields_(std::move(fields)), seed_(seed) {
    std::minstd_rand random(seed);
    for (std::int64_t i = 0; i < size; ++i) {
      std::vector<std::string>& sample = samples_.emplace_back();
      for (const Field& field : fields_) {
        const std::size_t rows = !field.ragged ? 1 : random() % 10 == 0 ? 0 : random() % kMostRows;
        sample.emplace_back(rows * field.row_bytes(), '\0');
        for (char& c : sample.back()) c = static_cast<char>(random());
      }
    }
  }
  [[nodiscard]] std::int64_t size() const override { return std::ssize(samples_); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  void rows(std::span<const SampleId> ids, std::size_t f, std::span<std::int64_t> out) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      out[i] = static_cast<std::int64_t>(bytes(ids[i], f).size() / fields_[f].row_bytes());
    }
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i].value == damaged) throw Error(ErrorCode::corrupt, "a sample is damaged");
      for (std::size_t f = 0; f < fields_.size(); ++f) {
        const std::string& from = bytes(ids[i], f);
        if (!from.empty()) std::memcpy(out.bytes(f, i).data(), from.data(), from.size());
      }
    }
  }
  [[nodiscard]] Fingerprint fingerprint() const override {
    return FingerprintBuilder().add(size()).add(std::int64_t{seed_}).finish();
  }
  std::int64_t damaged = -1;

 private:
  static constexpr std::size_t kMostRows = 700;
  [[nodiscard]] const std::string& bytes(SampleId id, std::size_t f) const {
    return samples_[static_cast<std::size_t>(id.value)][f];
  }
  std::vector<Field> fields_;
  unsigned seed_;
  std::vector<std::vector<std::string>> samples_;
};

void expect_equal(const Source& a, const Source& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_EQ(a.fields(), b.fields());
  const Samples of_a(a, all_ids(a));
  const Samples of_b(b, all_ids(b));
  for (std::size_t f = 0; f < a.fields().size(); ++f) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(a.size()); ++i) {
      ASSERT_TRUE(of_a.sample(f, i) == of_b.sample(f, i)) << a.fields()[f].name << " of " << i;
    }
  }
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename());
  return names;
}

struct Case {
  ShardFormat format;
  std::vector<Field> fields;
};

TEST(WriteShards, AreReadBackEqual) {
  std::minstd_rand random(7);
  const Case cases[] = {{ShardFormat::tar, kBytes}, {ShardFormat::mds, kBytes}, {ShardFormat::mds, kNumbers}};
  for (unsigned seed = 0; seed < 60; ++seed) {
    const auto& [format, fields] = cases[seed % 3];
    const TemporaryDirectory directory;
    const auto source = std::make_shared<Random>(fields, 1 + random() % 200, seed);
    ShardOptions options{.format = format,
                         .shard_bytes = 1 + static_cast<std::int64_t>(random() % 100'000),
                         .workers = static_cast<int>(random() % 3)};
    const World world{.rank = 0, .size = static_cast<int>(1 + random() % 5)};
    ShardReport report;
    for (options.world = world; options.world.rank < world.size; ++options.world.rank) {
      EXPECT_FALSE(report.is_complete);
      report = write_shards(source, directory.path() / "out", options);
    }
    EXPECT_TRUE(report.is_complete);
    EXPECT_EQ(report.there, report.shards);
    EXPECT_EQ(report.samples, source->size());
    expect_equal(*source, *open(directory.path() / "out"));
    EXPECT_EQ(std::ssize(names_in(directory.path() / "out")),
              report.shards + (format == ShardFormat::mds ? 1 : 0));
    options.world = {};
    EXPECT_EQ(write_shards(source, directory.path() / "out", options).written, 0);
  }
}

TEST(WriteShards, NamesOfFieldsMayBeInAnyScript) {
  const TemporaryDirectory directory;
  const std::vector<Field> fields{{.name = "\u00FCber", .dtype = DType::uint8, .shape = {}, .ragged = true}};
  const auto source = std::make_shared<Random>(fields, 20, 1);
  EXPECT_TRUE(write_shards(source, directory.path(), {}).is_complete);
  expect_equal(*source, *open(directory.path()));
}

// As a tool leaves it that copies them, and is interrupted.
TEST(WriteShards, AnEmptyFileIsNoShard) {
  const TemporaryDirectory directory;
  const auto source = std::make_shared<Random>(kBytes, 100, 1);
  const ShardReport report = write_shards(source, directory.path(), {.shard_bytes = 20'000});
  ASSERT_GT(report.shards, 2);
  fs::resize_file(directory.path() / names_in(directory.path())[0], 0);
  EXPECT_EQ(write_shards(source, directory.path(), {.shard_bytes = 20'000}).written, 1);
  expect_equal(*source, *open(directory.path()));
}

// Whoever ends sweeps away what others that were killed have left, and nothing of those that still write.
TEST(WriteShards, ThoseThatEndTogetherDoNotDisturbEachOther) {
  const auto source = std::make_shared<Random>(kNumbers, 200, 1);
  for (int round = 0; round < 30; ++round) {
    const TemporaryDirectory directory;
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 6; ++rank) {
      threads.emplace_back([&, rank] {
        EXPECT_NO_THROW(
            write_shards(source, directory.path(),
                         {.format = ShardFormat::mds,
                          .shard_bytes = 5000,
                          .world = {.rank = round % 2 == 0 ? rank : 0, .size = round % 2 == 0 ? 6 : 1},
                          .workers = 0}));
      });
    }
    threads.clear();
    expect_equal(*source, *open(directory.path()));
  }
}

TEST(WriteShards, AreAboutAsLargeAsTheyShouldBe) {
  const TemporaryDirectory directory;
  const auto source = std::make_shared<Random>(kBytes, 5000, 1);
  const ShardReport report = write_shards(source, directory.path(), {.shard_bytes = 500'000});
  EXPECT_NEAR(static_cast<double>(report.bytes) / static_cast<double>(report.shards), 500'000, 50'000);
}

TEST(WriteShards, OthersReadThem) {
  const TemporaryDirectory directory;
  const auto source = std::make_shared<Random>(kBytes, 20, 3);
  write_shards(source, directory.path(), {.shard_bytes = 1 << 30});
  const Ended ended = run_command("cd " + directory.path().string() +
                                  " && timeout 60 " ROTA_TEST_PYTHON
                                  " -c 'import glob, tarfile; t = tarfile.open(*glob.glob(\"shard-*.tar\"));"
                                  "print(*[f\"{m.name}={m.size}\" for m in t], sep=\"\\n\")'");
  ASSERT_EQ(ended.code, 0) << ended.output;
  const Samples samples(*source, all_ids(*source), false);
  std::string expected;
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t f = 0; f < 2; ++f) {
      expected += fmt::format("{:012}.{}={}\n", i, kBytes[f].name, samples.sample(f, i).size());
    }
  }
  EXPECT_EQ(ended.output, expected);
}

TEST(WriteShards, AnInterruptedRunGoesOnInAnotherWorld) {
  for (const ShardFormat format : {ShardFormat::tar, ShardFormat::mds}) {
    const auto storage = std::make_shared<MemoryStorage>();
    const auto source = std::make_shared<Random>(kBytes, 300, 5);
    ShardOptions options{.format = format, .shard_bytes = 20'000, .storages = {{"memory", storage}}};
    std::int64_t left = 0;
    storage->on_write = [&](std::string_view name) {
      if (name.find("unfinished") != std::string_view::npos) return;
      if (left-- == 0) throw Error(ErrorCode::io, "the power is off");
    };
    std::int64_t before = 0;
    const std::string marker = fmt::format("b/out/unfinished.{}", to_string(format));
    for (int run = 0;; ++run) {
      ASSERT_LT(run, 100);
      options.world = {.rank = run % (run % 4 + 1), .size = run % 4 + 1};
      left = 2;
      ShardReport report;
      const auto error = error_of([&] { report = write_shards(source, "memory://b/out", options); });
      if (!error && report.is_complete) break;
      if (error) {
        EXPECT_THAT(error, is_error(ErrorCode::io, {"memory://b/out/", "the power is off"}));
      }
      EXPECT_GE(std::ssize(storage->files), before);
      before = std::ssize(storage->files);
      EXPECT_TRUE(storage->files.contains(marker));
      EXPECT_TRUE(error_of([&] { (void)open(Catalog("memory://b/out", {.storages = options.storages})); }));
    }
    EXPECT_FALSE(storage->files.contains(marker));
    expect_equal(*source, *open(Catalog("memory://b/out", {.storages = options.storages})));
  }
}

TEST(WriteShards, WhatAKillLeftIsSweptAway) {
  const TemporaryDirectory directory;
  const auto source = std::make_shared<Random>(kBytes, 30, 5);
  const ShardReport report = write_shards(source, directory.path(), {.shard_bytes = 5'000});
  const std::string shard = names_in(directory.path())[0];
  fs::remove(directory.path() / shard);
  std::ofstream(directory.path() / fmt::format(".{}.01234567.tmp", shard)) << "half of it";
  EXPECT_EQ(write_shards(source, directory.path(), {.shard_bytes = 5'000}).written, 1);
  EXPECT_EQ(std::ssize(names_in(directory.path())), report.shards);
  expect_equal(*source, *open(directory.path()));
}

TEST(WriteShards, ABadSampleEndsIt) {
  const TemporaryDirectory directory;
  const auto source = std::make_shared<Random>(kBytes, 30, 5);
  source->damaged = 17;
  EXPECT_THAT(error_of([&] { write_shards(source, directory.path(), {.shard_bytes = 5'000}); }),
              is_error(ErrorCode::corrupt, {"17"}));
  EXPECT_THAT(names_in(directory.path()), Contains("unfinished.tar"));
}

TEST(WriteShards, WhatCannotBeIsRefused) {
  const TemporaryDirectory directory;
  const fs::path out = directory.path() / "out";
  const auto source = std::make_shared<Random>(kBytes, 30, 1);
  const auto refused = [&](const std::shared_ptr<const Source>& what, const ShardOptions& options) {
    return error_of([&] { write_shards(what, out, options); });
  };
  EXPECT_THAT(refused(std::make_shared<Random>(kBytes, 0, 1), {}),
              is_error(ErrorCode::invalid_argument, {"no samples"}));
  EXPECT_THAT(refused(source, {.shard_bytes = 0}), is_error(ErrorCode::invalid_argument, {"shard_bytes"}));
  EXPECT_THAT(refused(source, {.world = {.rank = 2, .size = 2}}), is_error(ErrorCode::invalid_argument, {}));
  EXPECT_THAT(refused(std::make_shared<Random>(kNumbers, 3, 1), {}),
              is_error(ErrorCode::unsupported, {"label", "MDS"}));
  for (const std::string name : {"JPG", "a/b", "__key__"}) {
    const std::vector<Field> fields{{.name = name, .ragged = true}};
    EXPECT_THAT(refused(std::make_shared<Random>(fields, 3, 1), {}),
                is_error(ErrorCode::unsupported, {name}));
  }
  for (const Field& field :
       std::vector<Field>{{.name = "b", .dtype = DType::bfloat16},
                          {.name = "r", .dtype = DType::int8, .shape = {2}, .ragged = true},
                          {.name = "e", .dtype = DType::int8, .shape = {0}}}) {
    EXPECT_THAT(refused(std::make_shared<Random>(std::vector{field}, 3, 1), {.format = ShardFormat::mds}),
                is_error(ErrorCode::unsupported, {"\"" + field.name + "\""}));
  }
  write_shards(source, out);
  EXPECT_THAT(refused(std::make_shared<Random>(kBytes, 30, 2), {}),
              is_error(ErrorCode::mismatch, {"shard-", "another dataset"}));
  EXPECT_THAT(refused(source, {.shard_bytes = 100}), is_error(ErrorCode::mismatch, {"other options"}));
  std::ofstream(out / "mine") << "x";
  EXPECT_THAT(refused(source, {}), is_error(ErrorCode::invalid_argument, {"mine", "empty directory"}));
}

}  // namespace rota::test::write_shards_test
