// Datasets in an S3 store.

#include <zlib.h>

#include "core/wait.hpp"
#include "remote/reading.hpp"
#include "resident_memory.hpp"

namespace rota::test::datasets_test {

/// The bytes of field 0 of all samples that follow.
std::vector<std::string> rest_of(Loader& loader) {
  std::vector<std::string> seen;
  while (const auto batch = loader.next()) {
    for (std::int64_t i = 0; i < batch->size(); ++i) {
      const auto bytes = batch->bytes(0, i);
      seen.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  return seen;
}

TEST_F(S3, DatasetsAreReadAsThoseOfADirectory) {
  server.become({"--page", "10"});
  for (int i = 0; i < 23; ++i) {
    std::string lines;
    for (int k = 0; k < 9; ++k) lines += fmt::format("{} {}\n", i, k);
    server.put(fmt::format("b/corpus/{:02}.txt", i), lines);
  }
  for (const CatalogOptions& options : {catalogs(), sharing()}) {
    const auto there = open(Catalog("s3://b/corpus", options), "lines");
    const auto here = open(Catalog(server.directory() / "b/corpus"), "lines");
    EXPECT_EQ(there->fingerprint(), here->fingerprint());
    Loader loader(there, {.interleave = 4, .shuffle = Shuffle::within, .workers = 2});
    auto seen = rest_of(loader);
    std::ranges::sort(seen);
    EXPECT_THAT(seen, SizeIs(23 * 9));
    EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  }
}

TEST_F(S3, NamesThatFollowAPatternAreProvedByASampleAndNotListed) {
  for (int i = 0; i < 300; ++i)
    server.put(fmt::format("b/t/{:03}/x_{:05}.txt", i % 3, i), fmt::format("{}\n", i));
  const auto make = [options = catalogs()](std::int64_t files) {
    return Catalog::from_pattern("s3://b/t/{folder:03}/x_{index:05}.txt", {.files = files, .folders = 3},
                                 options);
  };
  const auto lines = open(make(300), "lines");
  EXPECT_EQ(lines->size(), 300);
  EXPECT_EQ(lines->where({299}).substr(0, 24), "s3://b/t/002/x_00299.txt");
  EXPECT_ERROR(make(303), not_found);
  EXPECT_ERROR(make(297), invalid_argument);
  EXPECT_ERROR(make(0), invalid_argument, {"the option files"});
}

TEST_F(S3, TheNumberOfFilesIsInTheirNames) {
  for (int i = 0; i < 12; ++i) server.put(fmt::format("b/t/x_{:03}_of_00012.txt", i), "line\n");
  server.put("b/t/x_000_of_00012.txt.old", "");
  const auto make = [options = catalogs()](const std::string& name, const PatternOptions& numbers) {
    return Catalog::from_pattern("s3://b/t/" + name, numbers, options);
  };
  EXPECT_EQ(make("x_{index:03}_of_{total:05}.txt", {}).size(), 12);
  EXPECT_ERROR(make("x_{index:03}_of_{total:04}.txt", {}), not_found,
               {"no name has it", "x_000_of_00012.txt"});
  EXPECT_ERROR(make("y_{index:03}.txt", {.files = 3}), not_found,
               {"s3://b/t/ holds no such name, but x_000_of_00012.txt"});
  server.put("b/t/x_000_of_00013.txt", "");
  EXPECT_ERROR(make("x_{index:03}_of_{total:05}.txt", {}), invalid_argument, {"do not agree"});
}

TEST_F(S3, ManifestsListUrlsAndNeverTellPasswords) {
  for (const char* const name : {"b/x.txt", "c/y.txt"}) server.put(name, "line\n");
  const TemporaryDirectory here;
  const auto catalog_of = [&, options = catalogs()](const std::string& lines) {
    return Catalog::from_manifest(here.write("list", lines), options);
  };
  const Catalog catalog = catalog_of("s3://c/y.txt\n{\"path\": \"s3://b/x.txt\", \"samples\": 1}\n");
  ASSERT_EQ(catalog.size(), 2);
  EXPECT_EQ(catalog.path(0), "s3://c/y.txt");
  EXPECT_EQ(open(catalog, "lines")->size(), 2);
  EXPECT_EQ(server.count("list"), 0);
  const auto refusal_of = [&](const std::string& lines) {
    return std::string(error_of([&] { (void)catalog_of(lines); }).value().what());
  };
  EXPECT_THAT(refusal_of("s3://b/x.txt\nz.txt\n"), HasSubstr("line 2: it has another scheme"));
  EXPECT_THAT(refusal_of("s3://b/x.txt\ns3://\n"), HasSubstr("line 2: it names no file"));
  EXPECT_THAT(refusal_of("none://b/x.txt\n"), HasSubstr("line 1: "));
  const auto tells_no_secret = AllOf(HasSubstr("password"), Not(HasSubstr("secret")));
  EXPECT_THAT(refusal_of("https://me:secret@host/x\n"), tells_no_secret);
  EXPECT_THAT(error_of([] { (void)Catalog("https://me:secret@host/x"); }).value().what(), tells_no_secret);
  const std::string local = "file://" + here.write("z.txt", "line\n").native();
  EXPECT_EQ(catalog_of(local + "\n").size(), 1);
  EXPECT_EQ(Catalog(local).size(), 1);
}

TEST_F(S3, CatalogsAreSavedInTheBucketToo) {
  for (int i = 0; i < 5; ++i) server.put(fmt::format("b/t/{}.txt", i), "line\n");
  const CatalogOptions options = catalogs();
  const Catalog catalog("s3://b/t", options);
  EXPECT_EQ(open(catalog, "lines")->size(), 5);
  catalog.save("s3://b/data.rota");
  const auto looks = server.count("range");
  const Catalog loaded("s3://b/data.rota", options);
  EXPECT_EQ(loaded.origin(), "s3://b/t");
  EXPECT_FALSE(loaded.changes().any());
  EXPECT_EQ(open(loaded, "lines")->fingerprint(), open(catalog, "lines")->fingerprint());
  EXPECT_EQ(server.count("range") - looks, 2) << "of the catalog; no file was looked into";
  server.put("b/t/3.txt", "another\nline\n");
  EXPECT_EQ(Catalog("s3://b/data.rota", options).changes().changed, 1);
  const auto expect_refusal = [](const Catalog& saved, const char* path, const char* word) {
    EXPECT_ERROR(saved.save(path), invalid_argument, {word});
  };
  expect_refusal(catalog, "s3://b/t/data.rota", "one of the dataset's files");
  expect_refusal(catalog, "s3://b/t/x/data.rota", "one of the dataset's files");
  expect_refusal(Catalog("s3://b/t/*", options), "s3://b/t/x.rota", "one of the dataset's files");
  expect_refusal(catalog, "s3://b/data.catalog", "end in .rota");
  Catalog("s3://b/t/*.txt", options).save("s3://b/t/data.rota");
  server.put("b/bad.rota", "rota catalog\n");
  EXPECT_EQ(open(Catalog("s3://b/bad.rota", options), "lines")->size(), 1) << "it is none";
}

// Each request takes as long as a large read.
TEST_F(S3, TarFilesAreOpenedByFewRequests) {
  constexpr int kShards = 5;
  const TemporaryDirectory here;
  server.put("b/other", "");
  for (int i = 0; i < 20 * kShards; ++i) here.write(fmt::format("{:03}.txt", i), std::string(5'000, 'x'));
  const auto samples = open(here.path(), FilesOptions{.keys = true});
  const auto report =
      write_shards(samples, "s3://b/t", {.shard_bytes = 120'000, .storages = {{"s3", storage()}}});
  ASSERT_EQ(report.shards, kShards);
  const auto requests_of_one_sample = [&](const Catalog& catalog) {
    server.become({});
    Loader loader(open(catalog), {.global_batch_size = 1, .shuffle = Shuffle::none, .workers = 0});
    EXPECT_TRUE(loader.next());
    return server.count("range") + server.count("head");
  };
  const Catalog catalog("s3://b/t", catalogs());
  EXPECT_LE(requests_of_one_sample(catalog), 2 + 2 * kShards);
  catalog.save("s3://b/t.rota");
  EXPECT_LE(requests_of_one_sample(Catalog("s3://b/t.rota", catalogs())), 2) << "of the first file alone";
}

// Sizes that nobody has listed are asked for all at once, and once.
TEST_F(S3, ObjectsOfAPatternAreAskedForAtOnce) {
  server.become({"--delay", "0.1"});
  constexpr int kFiles = 64;
  for (int i = 0; i < kFiles; ++i) server.put(fmt::format("b/x_{:03}", i), fmt::format("{}", i));
  const auto source =
      open(Catalog::from_pattern("s3://b/x_{index:03}", {.files = kFiles}, catalogs()), "files");
  server.become({"--delay", "0.1"});
  Loader loader(source, {.global_batch_size = kFiles, .epochs = 1});
  const auto batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->size(), kFiles);
  EXPECT_EQ(server.count("head"), kFiles);
  EXPECT_GE(server.most_at_once("head"), 8);
}

/// A store that answers nothing of a kind.
class HangingS3 : public S3 {
 protected:
  void hang(const std::string& kind) {
    server.become({"--fault", "hang", "--times", "1000", "--kind", kind});
  }
};

TEST_F(HangingS3, AWaitForItEndsWhenItsCallerIsInterrupted) {
  hang("head");
  const TemporaryDirectory here;
  std::string names;
  for (int i = 0; i < 20; ++i) names += fmt::format("s3://b/{}\n", i);
  const auto list = here.write("list", names);
  struct Interrupted : Stopped {};
  std::ptrdiff_t asked = 0;
  const WaitScope scope{Wait([&] {
    if (server.count("head") > asked) throw Interrupted();
  })};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW((void)Catalog("s3://b/x", catalogs()), Interrupted);
  asked = server.count("head");
  EXPECT_THROW((void)Catalog::from_manifest(list, catalogs()), Interrupted);  // by many threads
  EXPECT_LT(std::chrono::steady_clock::now() - start, 8s);
}

TEST_F(HangingS3, WhatIsFetchedAheadIsLeftWhenALoaderEnds) {
  for (int i = 0; i < 8; ++i) server.put(fmt::format("b/{}.txt", i), fmt::format("{:100}\n", i));
  const CatalogOptions options = sharing();
  auto source = open(Catalog("s3://b/", options), "lines");
  hang("range");
  const auto start = std::chrono::steady_clock::now();
  {
    Loader loader(source, {.interleave = 4, .shuffle = Shuffle::within, .workers = 2});
    while (server.count("range") == 0) std::this_thread::sleep_for(1ms);
  }
  source.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 8s);
}

/// Files of 10,000 bytes, of which some may stay from epoch to epoch.
class KeptFiles : public S3 {
 protected:
  static constexpr int kFiles = 20;
  KeptFiles() {
    for (int i = 0; i < kFiles; ++i)
      server.put(fmt::format("b/{:02}.txt", i), fmt::format("{:x>9999}\n", ""));
  }
  /// How many files three epochs take from the store, of which `kept` may stay.
  std::int64_t fetched_in_three_epochs(int kept, const fs::path& directory = {}) {
    CatalogOptions options = sharing();
    options.shared_memory_limit = std::int64_t{kept} * 10'000;
    options.shared_directory = directory;
    const auto source = open(Catalog("s3://b/", options), "lines");
    const auto before = server.count("range");  // the index has looked at each
    Loader loader(source, {.global_batch_size = 1,
                           .shards = kFiles,
                           .interleave = 2,
                           .shuffle = Shuffle::within,
                           .epochs = 3,
                           .workers = 1,
                           .read_ahead_batches = 1});
    EXPECT_THAT(rest_of(loader), SizeIs(3 * kFiles));
    EXPECT_EQ(loader.stats().fetched_files, server.count("range") - before);
    return loader.stats().fetched_files;
  }
};

TEST_F(KeptFiles, ThatFitInStayForTheNextEpoch) {
  EXPECT_EQ(fetched_in_three_epochs(20), 20);
  EXPECT_EQ(fetched_in_three_epochs(0), 60);
  // The half that stays is used in each epoch: whoever drops what was read longest ago keeps less.
  const std::int64_t half = fetched_in_three_epochs(10);
  EXPECT_GE(half, 20 + 2 * 10 - 8);
  EXPECT_LE(half, 20 + 2 * 10 + 2);
}

TEST_F(KeptFiles, MayBeOnADiskWithoutNames) {
  const TemporaryDirectory disk;
  EXPECT_EQ(fetched_in_three_epochs(20, disk.path()), 20);
  EXPECT_TRUE(fs::is_empty(disk.path()));
  CatalogOptions options = sharing();
  const auto open_in = [&](const fs::path& directory) {
    options.shared_directory = directory;
    return open(Catalog("s3://b/", options), "lines");
  };
  const auto source = open_in(disk.path());
  Loader loader(source, {.interleave = 1, .shuffle = Shuffle::within});
  ASSERT_TRUE(loader.next());
  EXPECT_THAT(read_file("/proc/self/maps"), HasSubstr(disk.path().native() + "/#"));
  EXPECT_THAT(error_of([&] { (void)open_in(disk.path() / "none"); }),
              Optional(Property(&Error::what, HasSubstr((disk.path() / "none").native()))));
  // It has no files without names.
  EXPECT_ERROR(open_in("/proc"), io);
}

TEST_F(S3, FilesOfManyPiecesComeWhole) {
  server.become({"--fault", "cut", "--kind", "range"});
  constexpr int kLines = 350;
  std::string lines;
  for (int i = 0; i < kLines; ++i) lines += fmt::format("{:099999}\n", i);
  server.put("b/0.txt", lines);
  const gzFile packed =
      ::gzopen((server.directory() / "b/1.txt").c_str(), "wb0");  // comes by pieces of 32 MiB
  EXPECT_EQ(::gzwrite(packed, lines.data(), static_cast<unsigned>(lines.size())), std::ssize(lines));
  EXPECT_EQ(::gzclose(packed), Z_OK);
  Loader loader(open(Catalog("s3://b/", sharing()), "lines"), {.interleave = 2, .shuffle = Shuffle::none});
  std::vector<int> seen(kLines);
  for (const std::string& line : rest_of(loader)) {
    const int number = std::stoi(line);
    ASSERT_EQ(line, fmt::format("{:099999}", number));
    ++seen.at(static_cast<std::size_t>(number));
  }
  EXPECT_THAT(seen, Each(2));
}

// Two groups of a file, what may stay, and what is on its way: not the files of an epoch.
TEST_F(S3, AnEpochTakesTheMemoryOfItsGroups) {
  if (kIsSanitized) GTEST_SKIP() << "the sanitizer takes memory of its own";
  constexpr std::int64_t kMiB = 1 << 20;
  constexpr int kFiles = 24;
  std::string lines;
  for (int i = 0; i < 8; ++i) lines += fmt::format("{:x>{}}\n", "", kMiB - 1);
  for (int i = 0; i < kFiles; ++i) server.put(fmt::format("b/{:02}.txt", i), lines);
  CatalogOptions options = sharing();
  options.shared_memory_limit = 16 * kMiB;
  const auto source = open(Catalog("s3://b/", options), "lines");
  const std::int64_t before = resident("VmRSS");
  forget_peak();
  Loader loader(source, {.global_batch_size = 4,
                         .shards = kFiles,
                         .interleave = 1,
                         .shuffle = Shuffle::within,
                         .epochs = 2,
                         .read_ahead_bytes = 16 * kMiB});
  EXPECT_EQ(samples_left(loader), 2 * kFiles * 8);
  EXPECT_LE((resident("VmHWM") - before) >> 10, 2 * 8 + 16 + 2 * 8 + 5 * 4 * 5 / 4 + 16);
}

}  // namespace rota::test::datasets_test
