// Shards are read back equal, whoever wrote them, and however often that was interrupted.

#include "formats/memory_storage.hpp"
#include "formats/python.hpp"
#include "source/told_source.hpp"

namespace rota::test::write_shards_test {

const std::vector<Field> kBytes{{.name = "jpg", .ragged = true}, {.name = "seg.png", .ragged = true}};
const std::vector<Field> kRecord{{.name = "data", .ragged = true}};
const std::vector<Field> kNumbers{
    {.name = "text", .ragged = true},
    {.name = "label", .dtype = DType::int64},
    {.name = "Box", .dtype = DType::float32, .shape = {2, 3}},
    {.name = "tokens", .dtype = DType::uint16, .ragged = true},
};

/// Samples at random, the same for the same seed.
std::shared_ptr<ToldSource> random_samples(const std::vector<Field>& fields, std::int64_t size,
                                           unsigned seed) {
  std::minstd_rand random(seed);
  const auto samples = std::make_shared<Contents>(static_cast<std::size_t>(size));
  for (std::vector<std::string>& sample : *samples) {
    for (const Field& field : fields) {
      const std::size_t rows = !field.ragged ? 1 : random() % 10 == 0 ? 0 : random() % 700;
      sample.emplace_back(rows * field.row_bytes(), '\0');
      for (char& c : sample.back()) c = static_cast<char>(random());
    }
  }
  auto source = told(size, fields);
  source->rows_of = [samples, fields](SampleId id, std::size_t f) {
    return static_cast<std::int64_t>((*samples)[static_cast<std::size_t>(id.value)][f].size() /
                                     fields[f].row_bytes());
  };
  source->fill = [samples](SampleId id, std::size_t f, std::int64_t, std::span<std::byte> to) {
    std::ranges::copy(std::as_bytes(std::span((*samples)[static_cast<std::size_t>(id.value)][f])),
                      to.begin());
  };
  source->on_fingerprint = [size, seed](const Fingerprint&) {
    return FingerprintBuilder().add(size).add(std::int64_t{seed}).finish();
  };
  return source;
}

void expect_equal(const Source& a, const Source& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_EQ(a.fields(), b.fields());
  ASSERT_TRUE(contents(a) == contents(b));
}

std::vector<std::string> shards_in(const fs::path& directory) {
  std::vector<std::string> names = names_in(directory);
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("shard-"); });
  return names;
}

class WriteShards : public PythonTest {
 protected:
  ShardReport write_shards(const std::shared_ptr<const Source>& source,
                           const ShardOptions& options = {}) const {
    return rota::write_shards(source, directory_.path(), options);
  }
  void expect_there(const Source& source) const { expect_equal(source, *open(directory_.path())); }
  std::vector<std::string> names() const { return names_in(directory_.path()); }
};

TEST_F(WriteShards, AreReadBackEqual) {
  std::minstd_rand random(7);
  const std::pair<ShardOptions::Format, std::vector<Field>> cases[] = {
      {ShardOptions::Format::tar, kBytes},
      {ShardOptions::Format::mds, kBytes},
      {ShardOptions::Format::mds, kNumbers},
      {ShardOptions::Format::tfrecord, kRecord}};
  for (unsigned seed = 0; seed < 80; ++seed) {
    const auto& [format, fields] = cases[seed % 4];
    const TemporaryDirectory directory;
    const fs::path out = directory / "out";
    const auto source = random_samples(fields, static_cast<std::int64_t>(1 + random() % 200), seed);
    ShardOptions options{.format = format,
                         .shard_bytes = 1 + static_cast<std::int64_t>(random() % 100'000),
                         .workers = static_cast<int>(random() % 3)};
    const World world{.rank = 0, .size = static_cast<int>(1 + random() % 5)};
    ShardReport report;
    for (options.world = world; options.world.rank < world.size; ++options.world.rank) {
      EXPECT_FALSE(report.is_complete);
      report = rota::write_shards(source, out, options);
    }
    EXPECT_TRUE(report.is_complete);
    EXPECT_EQ(report.there, report.shards);
    EXPECT_EQ(report.samples, source->size());
    expect_equal(*source, *open(out));
    EXPECT_EQ(std::ssize(names_in(out)), report.shards + (format == ShardOptions::Format::mds ? 1 : 0));
    options.world = {};
    EXPECT_EQ(rota::write_shards(source, out, options).written, 0);
  }
}

TEST_F(WriteShards, NamesOfFieldsMayBeInAnyScript) {
  const auto source = random_samples({{.name = "\u00FCber", .ragged = true}}, 20, 1);
  EXPECT_TRUE(write_shards(source).is_complete);
  expect_there(*source);
}

// Whoever ends sweeps away what others that were killed have left, and nothing of those that still write.
TEST_F(WriteShards, ThoseThatEndTogetherDoNotDisturbEachOther) {
  const auto source = random_samples(kNumbers, 200, 1);
  for (int round = 0; round < 30; ++round) {
    const TemporaryDirectory directory;
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 6; ++rank) {
      threads.emplace_back([&, rank] {
        EXPECT_NO_THROW(
            rota::write_shards(source, directory.path(),
                               {.format = ShardOptions::Format::mds,
                                .shard_bytes = 5000,
                                .world = {.rank = round % 2 == 0 ? rank : 0, .size = round % 2 == 0 ? 6 : 1},
                                .workers = 0}));
      });
    }
    threads.clear();
    expect_equal(*source, *open(directory.path()));
  }
}

TEST_F(WriteShards, AreAboutAsLargeAsTheyShouldBe) {
  const auto source = random_samples(kBytes, 5000, 1);
  const ShardReport report = write_shards(source, {.shard_bytes = 500'000});
  EXPECT_NEAR(static_cast<double>(report.bytes) / static_cast<double>(report.shards), 500'000, 50'000);
}

TEST_F(WriteShards, AreCountedByTheProgress) {
  Progress told;
  const ShardReport report =
      write_shards(random_samples(kBytes, 500, 1),
                   {.shard_bytes = 10'000, .progress = [&](const Progress& progress) { told = progress; }});
  EXPECT_EQ(told.unit, "shards");
  EXPECT_EQ(std::pair(told.done, told.total), std::pair(report.shards, report.shards));
}

TEST_F(WriteShards, OthersReadThem) {
  const auto source = random_samples(kBytes, 20, 3);
  write_shards(source, {.shard_bytes = 1 << 30});
  const auto names = write(R"(
import glob, tarfile
for member in tarfile.open(*glob.glob('shard-*.tar')): tell(f'{member.name}={member.size}'.encode())
)");
  const Contents all = contents(*source);
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t f = 0; f < 2; ++f) {
      expected.push_back(fmt::format("{:012}.{}={}", i, kBytes[f].name, all[i][f].size()));
    }
  }
  EXPECT_EQ(names, expected);
}

TEST_F(WriteShards, ThatAreNotAllWrittenAreNotOpenedInAnyFormat) {
  for (const std::string ending : {"mds", "tfrecord"}) {
    const TemporaryDirectory directory;
    rota::write_shards(random_samples(kRecord, 30, 5), directory.path(),
                       {.format = ShardOptions::Format::tfrecord, .shard_bytes = 5'000});
    directory.write("unfinished." + ending, "Some shards are not written yet.");
    EXPECT_ERROR(open(directory.path()), corrupt, {"unfinished." + ending, "not all written"});
  }
}

TEST_F(WriteShards, AnInterruptedRunGoesOnInAnotherWorld) {
  for (const ShardOptions::Format format : {ShardOptions::Format::tar, ShardOptions::Format::mds}) {
    const auto storage = std::make_shared<MemoryStorage>();
    const auto source = random_samples(kBytes, 300, 5);
    ShardOptions options{.format = format, .shard_bytes = 20'000, .storages = {{"memory", storage}}};
    std::int64_t left = 0;
    storage->on_write = [&](std::string_view name) {
      if (name.find("unfinished") != std::string_view::npos) return;
      if (left-- == 0) throw Error(io, "the power is off");
    };
    std::int64_t before = 0;
    const std::string marker = fmt::format("b/out/unfinished.{}", to_string(format));
    for (int run = 0;; ++run) {
      ASSERT_LT(run, 100);
      options.world = {.rank = run % (run % 4 + 1), .size = run % 4 + 1};
      left = 2;
      ShardReport report;
      const auto error = error_of([&] { report = rota::write_shards(source, "memory://b/out", options); });
      if (!error && report.is_complete) break;
      EXPECT_THAT(error, AnyOf(Eq(std::nullopt), is_error(io, {"memory://b/out/", "the power is off"})));
      EXPECT_GE(std::ssize(storage->files), before);
      before = std::ssize(storage->files);
      EXPECT_TRUE(storage->files.contains(marker));
      EXPECT_TRUE(error_of([&] { (void)open(Catalog("memory://b/out", {.storages = options.storages})); }));
    }
    EXPECT_FALSE(storage->files.contains(marker));
    expect_equal(*source, *open(Catalog("memory://b/out", {.storages = options.storages})));
  }
}

// As where labels are rewritten in place: the same names, sizes and shapes.
TEST_F(WriteShards, AChangedDatasetIsWrittenAnew) {
  for (const ShardOptions::Format format : {ShardOptions::Format::tar, ShardOptions::Format::mds}) {
    const TemporaryDirectory directory;
    const fs::path data = directory.path() / "data";
    const fs::path out = directory.path() / "out";
    const auto write_file = [&](int i, char content) {
      directory.write(fmt::format("data/{:02}", i), std::string(500, content));
    };
    for (int i = 0; i < 100; ++i) write_file(i, 'a');
    const ShardOptions options{.format = format, .shard_bytes = 5'000};
    const std::int64_t shards = rota::write_shards(open(data, "files"), out, options).shards;
    ASSERT_GT(shards, 4);
    fs::remove(out / std::ranges::max(shards_in(out)));  // as of one that was interrupted
    write_file(52, 'b');  // which is none of those that tell one dataset from another
    const ShardReport report = rota::write_shards(open(data, "files"), out, options);
    EXPECT_TRUE(report.is_complete);
    EXPECT_THAT(report.written, AllOf(Gt(1), Lt(shards)));
    expect_equal(*open(data, "files"), *open(out));
    write_file(98, 'c');  // of one that was not
    EXPECT_GT(rota::write_shards(open(data, "files"), out, options).written, 0);
    expect_equal(*open(data, "files"), *open(out));
    write_file(99, 'd');
    EXPECT_ERROR(rota::write_shards(open(data, "files"), out, options), mismatch, {"another dataset"});
  }
}

// Those behind it are as they should be.
TEST_F(WriteShards, OneDamagedShardIsOneToWriteAnew) {
  const auto source = random_samples(kBytes, 100, 5);
  const ShardOptions options{.shard_bytes = 5'000};
  const auto write = [&] { return rota::write_shards(source, directory_.path(), options); };
  const std::int64_t shards = write().shards;
  ASSERT_GT(shards, 4);
  const std::string first = std::ranges::min(shards_in(directory_.path()));
  directory_.write(first, std::string(fs::file_size(directory_ / first), 'x'));
  EXPECT_EQ(write().written, 1);
  expect_equal(*source, *open(directory_.path()));
  EXPECT_EQ(write().written, 0);
}

// Where a process is killed, others find none that is of before.
TEST_F(WriteShards, WhatHasChangedIsRemovedBeforeAnyIsWritten) {
  const auto storage = std::make_shared<MemoryStorage>();
  const auto source = random_samples(kBytes, 100, 5);
  ShardOptions options{.shard_bytes = 5'000, .storages = {{"memory", storage}}};
  const auto write = [&] { return rota::write_shards(source, "memory://b/out", options); };
  const std::int64_t shards = write().shards;
  ASSERT_GT(shards, 4);
  source->fill = [fill = source->fill](SampleId id, std::size_t f, std::int64_t row,
                                       std::span<std::byte> to) {
    fill(id, f, row, to);
    if (id.value % 40 == 0 && !to.empty()) to[0] ^= std::byte{1};
  };
  storage->on_write = [&](std::string_view name) {
    if (name.find("unfinished") == std::string_view::npos) throw Error(io, "the power is off");
  };
  EXPECT_ERROR(write(), io, {"the power is off"});
  storage->on_write = nullptr;
  options.world = {.rank = 0, .size = 9};
  EXPECT_FALSE(write().is_complete);
  options.world = {};
  EXPECT_TRUE(write().is_complete);
  expect_equal(*source, *open(Catalog("memory://b/out", {.storages = options.storages})));
}

// What is written anew is not there, for others who end meanwhile.
TEST_F(WriteShards, AChangedDatasetIsNotCompleteUntilAllAreWrittenAnew) {
  const auto storage = std::make_shared<MemoryStorage>();
  const auto source = random_samples(kBytes, 100, 5);
  ShardOptions options{.shard_bytes = 5'000, .storages = {{"memory", storage}}};
  const auto write = [&](World world) {
    options.world = world;
    return rota::write_shards(source, "memory://b/out", options);
  };
  EXPECT_TRUE(write({}).is_complete);
  source->fill = [fill = source->fill](SampleId id, std::size_t f, std::int64_t row,
                                       std::span<std::byte> to) {
    fill(id, f, row, to);
    if (id.value >= 50 && !to.empty()) to[0] ^= std::byte{1};
  };
  int ended = 0;
  storage->on_write = [&](std::string_view name) {
    if (name.find("unfinished") != std::string_view::npos || ended > 0) return;
    ++ended;
    EXPECT_FALSE(write({0, 2}).is_complete);
    EXPECT_TRUE(storage->files.contains("b/out/unfinished.tar"));
  };
  EXPECT_TRUE(write({1, 2}).is_complete);
  EXPECT_EQ(ended, 1);
  EXPECT_FALSE(storage->files.contains("b/out/unfinished.tar"));
  expect_equal(*source, *open(Catalog("memory://b/out", {.storages = options.storages})));
}

// They are in shared memory, one after the other.
TEST_F(WriteShards, TakeFilesThatAreCompressed) {
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += fmt::format("line {}\n", i);
  for (const auto* name : {"in/a.jsonl", "in/b.jsonl"}) directory_.write(name, lines);
  const fs::path in = directory_ / "in";
  ASSERT_EQ(std::system(fmt::format("gzip {}/b.jsonl", in.string()).c_str()), 0);
  const auto source = open(in);
  EXPECT_TRUE(rota::write_shards(source, directory_ / "out", {.shard_bytes = 2'000}).is_complete);
  expect_equal(*source, *open(directory_ / "out"));
}

// The mark of what lacks is emptied, and marks nothing then.
TEST_F(WriteShards, WhoMayNotDeleteFinishes) {
  const auto storage = std::make_shared<MemoryStorage>();
  const auto source = random_samples(kBytes, 100, 5);
  const ShardOptions options{.shard_bytes = 5'000, .storages = {{"memory", storage}}};
  storage->on_remove = [](std::string_view) { throw Error(io, "status 403, AccessDenied"); };
  for (const bool is_first : {true, false}) {
    const ShardReport report = rota::write_shards(source, "memory://b/out", options);
    EXPECT_TRUE(report.is_complete);
    EXPECT_EQ(report.written > 0, is_first);
    EXPECT_TRUE(storage->files.contains("b/out/unfinished.tar"));
    for (const auto* path : {"memory://b/out", "memory://b/out/*.tar", "memory://b/out/shard-*"}) {
      expect_equal(*source, *open(Catalog(path, {.storages = options.storages})));
    }
  }
  directory_.write("unfinished.tar", "");
  EXPECT_ERROR(Catalog(directory_.path()), not_found, {"mark of who writes shards"});
}

TEST_F(WriteShards, KeepTheNamesOfFiles) {
  const TemporaryDirectory data;
  const Contents files{{"1", "cat/0.jpg"}, {"22", "cat/1.jpg"}, {"", "d\xff/\xc3\xbc.JPG"}};
  for (const auto& file : files) data.write(file[1], file[0]);
  write_shards(open(data.path(), FilesOptions{.keys = true}));
  const auto names = write(R"(
import glob, os, tarfile
for member in tarfile.open(*glob.glob('shard-*.tar'), errors='surrogateescape'):
    tell(os.fsencode(f'{member.name}={member.size}'))
)");
  EXPECT_THAT(names, ElementsAre("cat/0.jpg=1", "cat/1.jpg=2", "d\xff/\xc3\xbc.JPG=0"));
  const auto again = open(directory_.path(), TarOptions{.keys = true});
  EXPECT_EQ(contents(*again), (Contents{{"1", "cat/0"}, {"22", "cat/1"}, {"", "d\xff/\xc3\xbc"}}));
  const TemporaryDirectory copy;  // of shards as shards
  rota::write_shards(again, copy.path().string());
  expect_equal(*open(copy.path(), TarOptions{.keys = true}), *again);
}

TEST_F(WriteShards, OfNoSourceOrOfAnImpossibleOneAreRefused) {
  EXPECT_ERROR(rota::write_shards(nullptr, directory_.path().string()), invalid_argument, {"no source"});
  EXPECT_ERROR(write_shards(told(-1)), callback, {"write shards", "-1"});
}

TEST_F(WriteShards, NamesThatWouldNotBeReadBackAreRefused) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"a.jpg", "a.txt"}, "\"a.txt\" would be part of one before it"},
      {{"a.jpg", "a/1.jpg", "a0.jpg", "a.txt"}, "\"a.txt\" would be part of one before it"},
      {{"a.jpg", "b.png"}, "\"b.png\" does not end in .jpg"},
      {{"a.jpg", "b.1.jpg"}, "\"b.1.jpg\" does not end in .jpg"},
      {{".hidden", "a.jpg"}, "\".hidden\" would be no sample"},
      {{"a/no ending"}, "\"a/no ending\" would be no sample"}};
  for (const auto& [names, why] : cases) {
    const TemporaryDirectory data;
    for (const std::string& name : names) data.write(name, "x");
    EXPECT_ERROR(write_shards(open(Catalog(data.path(), {.all_names = true}), FilesOptions{.keys = true})),
                 invalid_argument, {why, "--numbered"});
  }
  for (const std::string key : {"", "a.b", "d/.x"}) {
    const auto source = told(1, {{.name = "jpg", .ragged = true}, {.name = "__key__", .ragged = true}});
    source->rows_of = [&](SampleId, std::size_t) { return std::ssize(key); };
    source->fill = [&](SampleId, std::size_t, std::int64_t, std::span<std::byte> to) {
      std::ranges::copy(std::as_bytes(std::span(key)), to.begin());
    };
    EXPECT_ERROR(write_shards(source), invalid_argument, {"\"" + key + "\" would be no sample"});
  }
  EXPECT_THAT(names(), IsEmpty());
}

// By a glob, too, which has no mark among its names; the mark alone is none either.
TEST_F(WriteShards, ThatAreNotAllWrittenAreNotOpened) {
  write_shards(random_samples(kBytes, 30, 5), {.shard_bytes = 5'000});
  directory_.write("unfinished.tar", "Some shards are not written yet.");
  for (const fs::path& path :
       {directory_.path(), directory_ / "*.tar", directory_ / "shard-*", directory_ / "unf*"}) {
    EXPECT_ERROR(open(path), corrupt, {"unfinished.tar", "not all written", "run again"});
  }
  fs::remove(directory_ / "unfinished.tar");
  EXPECT_EQ(open(directory_ / "shard-*")->size(), 30);
}

// An empty file is no shard: a tool leaves it that copies them, and is interrupted.
TEST_F(WriteShards, WhatAKillLeftIsSweptAway) {
  const auto source = random_samples(kBytes, 30, 5);
  const ShardReport report = write_shards(source, {.shard_bytes = 5'000});
  const std::string shard = names()[0];
  fs::remove(directory_ / shard);
  directory_.write(fmt::format(".{}.01234567.tmp", shard), "half of it");
  EXPECT_EQ(write_shards(source, {.shard_bytes = 5'000}).written, 1);
  EXPECT_EQ(std::ssize(names()), report.shards);
  expect_there(*source);
  fs::resize_file(directory_ / shard, 0);
  EXPECT_EQ(write_shards(source, {.shard_bytes = 5'000}).written, 1);
  expect_there(*source);
}

TEST_F(WriteShards, ABadSampleEndsIt) {
  const auto source = random_samples(kBytes, 30, 5);
  source->corrupt = {17};
  EXPECT_ERROR(write_shards(source, {.shard_bytes = 5'000}), corrupt, {"17"});
  EXPECT_THAT(names(), Contains("unfinished.tar"));
}

TEST_F(WriteShards, WhatCannotBeIsRefused) {
  const auto source = random_samples(kBytes, 30, 1);
  const auto refused = [&](const std::shared_ptr<const Source>& what, const ShardOptions& options) {
    return error_of([&] { write_shards(what, options); });
  };
  EXPECT_THAT(refused(random_samples(kBytes, 0, 1), {}), is_error(invalid_argument, {"no samples"}));
  EXPECT_THAT(refused(source, {.shard_bytes = 0}), is_error(invalid_argument, {"shard_bytes"}));
  EXPECT_THAT(refused(source, {.world = {.rank = 2, .size = 2}}), is_error(invalid_argument, {}));
  EXPECT_THAT(refused(random_samples(kNumbers, 3, 1), {}), is_error(unsupported, {"label", "MDS"}));
  for (const auto& fields : {kBytes, kNumbers}) {
    EXPECT_THAT(refused(random_samples(fields, 3, 1), {.format = ShardOptions::Format::tfrecord}),
                is_error(unsupported, {"a record is bytes", fields[1].name, "MDS"}));
  }
  for (const std::string name : {"JPG", "a/b", ""}) {
    const std::vector<Field> fields{{.name = name, .ragged = true}};
    EXPECT_THAT(refused(random_samples(fields, 3, 1), {}), is_error(unsupported, {name}));
  }
  for (const Field& field :
       std::vector<Field>{{.name = "b", .dtype = DType::bfloat16},
                          {.name = "r", .dtype = DType::int8, .shape = {2}, .ragged = true},
                          {.name = "e", .dtype = DType::int8, .shape = {0}}}) {
    EXPECT_THAT(refused(random_samples(std::vector{field}, 3, 1), {.format = ShardOptions::Format::mds}),
                is_error(unsupported, {"\"" + field.name + "\""}));
  }
  write_shards(source);
  EXPECT_THAT(refused(random_samples(kBytes, 30, 2), {}), is_error(mismatch, {"shard-", "another dataset"}));
  EXPECT_THAT(refused(source, {.shard_bytes = 100}), is_error(mismatch, {"other options"}));
  directory_.write("mine", "x");
  EXPECT_THAT(refused(source, {}), is_error(invalid_argument, {"mine", "empty directory"}));
}

}  // namespace rota::test::write_shards_test
