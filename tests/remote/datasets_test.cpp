// Datasets in an S3 store.

#include <zlib.h>

#include "remote/bytes.hpp"
#include "remote/reading.hpp"
#include "remote/server_process.hpp"
#include "resident_memory.hpp"
#include "test.hpp"
#include "values/interrupt.hpp"

namespace rota::test::datasets_test {

CatalogOptions options_for(const S3Options& s3) {
  CatalogOptions options;
  options.storages["s3"] = s3_storage(s3);
  return options;
}

TEST(S3, DatasetsAreReadAsThoseOfADirectory) {
  S3Server server({"--page", "10"});
  for (int i = 0; i < 23; ++i) {
    std::string lines;
    for (int k = 0; k < 9; ++k) lines += fmt::format("{} {}\n", i, k);
    server.put(fmt::format("b/corpus/{:02}.txt", i), lines);
  }
  CatalogOptions options;
  options.storages["s3"] = s3_storage(server.options());
  for (const bool shares : {false, true}) {
    options.share_files = shares;
    const auto there = open_lines(Catalog("s3://b/corpus", options));
    const auto here = open_lines(Catalog(server.directory() / "b/corpus"));
    EXPECT_EQ(there->fingerprint(), here->fingerprint());
    Loader loader(there, {.interleave = 4, .shuffle = Shuffle::within, .workers = 2});
    std::vector<std::string> seen;
    while (const auto batch = loader.next()) {
      for (std::int64_t i = 0; i < batch->size(); ++i) {
        const auto bytes = batch->bytes(0, i);
        seen.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      }
    }
    std::ranges::sort(seen);
    EXPECT_THAT(seen, SizeIs(23 * 9));
    EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  }
}

TEST(S3, NamesThatFollowAPatternAreProvedByASampleAndNotListed) {
  S3Server server;
  for (int i = 0; i < 300; ++i)
    server.put(fmt::format("b/t/{:03}/x_{:05}.txt", i % 3, i), fmt::format("{}\n", i));
  CatalogOptions options;
  options.storages["s3"] = s3_storage(server.options());
  const std::string pattern = "s3://b/t/{folder:03}/x_{index:05}.txt";
  const auto make = [&](std::int64_t files) {
    return Catalog::from_pattern(pattern, {.files = files, .folders = 3}, options);
  };
  const auto lines = open_lines(make(300));
  EXPECT_EQ(lines->size(), 300);
  EXPECT_EQ(lines->where({299}).substr(0, 24), "s3://b/t/002/x_00299.txt");
  EXPECT_EQ(failure_of([&] { (void)make(303); }).code, ErrorCode::not_found);
  EXPECT_EQ(failure_of([&] { (void)make(297); }).code, ErrorCode::invalid_argument);
  const Failure failure = failure_of([&] { (void)make(0); });
  EXPECT_THAT(failure.text, HasSubstr("PatternOptions::files"));
}

TEST(S3, TheNumberOfFilesIsInTheirNames) {
  S3Server server;
  for (int i = 0; i < 12; ++i) server.put(fmt::format("b/t/x_{:03}_of_00012.txt", i), "line\n");
  server.put("b/t/x_000_of_00012.txt.old", "");
  const CatalogOptions options = options_for(server.options());
  EXPECT_EQ(Catalog::from_pattern("s3://b/t/x_{index:03}_of_{total:05}.txt", {}, options).size(), 12);
  EXPECT_THAT(failure_of([&] {
                (void)Catalog::from_pattern("s3://b/t/x_{index:03}_of_{total:04}.txt", {}, options);
              }).text,
              AllOf(HasSubstr("no name tells"), HasSubstr("x_000_of_00012.txt")));
  EXPECT_THAT(failure_of([&] {
                (void)Catalog::from_pattern("s3://b/t/y_{index:03}.txt", {.files = 3}, options);
              }).text,
              HasSubstr("s3://b/t/ holds no such name, but x_000_of_00012.txt"));
  server.put("b/t/x_000_of_00013.txt", "");
  EXPECT_THAT(failure_of([&] {
                (void)Catalog::from_pattern("s3://b/t/x_{index:03}_of_{total:05}.txt", {}, options);
              }).text,
              HasSubstr("do not agree"));
}

TEST(S3, ManifestsListUrls) {
  S3Server server;
  for (const char* const name : {"b/x.txt", "c/y.txt"}) server.put(name, "line\n");
  const CatalogOptions options = options_for(server.options());
  const TemporaryDirectory here;
  const auto list = here.write("list", "s3://c/y.txt\n{\"path\": \"s3://b/x.txt\", \"samples\": 1}\n");
  const Catalog catalog = Catalog::from_manifest(list, options);
  ASSERT_EQ(catalog.size(), 2);
  EXPECT_EQ(catalog.path(0), "s3://c/y.txt");
  EXPECT_EQ(open_lines(catalog)->size(), 2);
  EXPECT_EQ(server.count("list"), 0);
  const auto refusal_of = [&](const std::string& lines) {
    return failure_of([&] { (void)Catalog::from_manifest(here.write("list", lines), options); }).text;
  };
  EXPECT_THAT(refusal_of("s3://b/x.txt\nz.txt\n"), HasSubstr("line 2: it is in another place"));
  EXPECT_THAT(refusal_of("s3://b/x.txt\ns3://\n"), HasSubstr("line 2: it names no file"));
  EXPECT_THAT(refusal_of("none://b/x.txt\n"), HasSubstr("line 1: "));
  EXPECT_THAT(refusal_of("https://me:secret@host/x\n"),
              AllOf(HasSubstr("password"), Not(HasSubstr("secret"))));
  here.write("z.txt", "line\n");
  const std::string local = "file://" + (here.path() / "z.txt").native();
  EXPECT_EQ(Catalog::from_manifest(here.write("list", local + "\n")).size(), 1);
  EXPECT_EQ(Catalog(local).size(), 1);
}

TEST(S3, CatalogsAreSavedInTheBucketToo) {
  S3Server server;
  for (int i = 0; i < 5; ++i) server.put(fmt::format("b/t/{}.txt", i), "line\n");
  const CatalogOptions options = options_for(server.options());
  const Catalog catalog("s3://b/t", options);
  EXPECT_EQ(open_lines(catalog)->size(), 5);
  catalog.save("s3://b/data.rota");
  const auto looks = server.count("range");
  const Catalog loaded("s3://b/data.rota", options);
  EXPECT_EQ(loaded.origin(), "s3://b/t");
  EXPECT_FALSE(loaded.changes().any());
  EXPECT_EQ(open_lines(loaded)->fingerprint(), open_lines(catalog)->fingerprint());
  EXPECT_EQ(server.count("range") - looks, 2) << "of the catalog; no file was looked into";
  server.put("b/t/3.txt", "another\nline\n");
  EXPECT_EQ(Catalog("s3://b/data.rota", options).changes().changed, 1);
  for (const char* const inside : {"s3://b/t/data.rota", "s3://b/t/x/data.rota"}) {
    EXPECT_THAT(failure_of([&] { catalog.save(inside); }).text, HasSubstr("one of the dataset's files"));
  }
  EXPECT_THAT(failure_of([&] { Catalog("s3://b/t/*", options).save("s3://b/t/x.rota"); }).text,
              HasSubstr("one of the dataset's files"));
  Catalog("s3://b/t/*.txt", options).save("s3://b/t/data.rota");
  EXPECT_THAT(failure_of([&] { catalog.save("s3://b/data.catalog"); }).text, HasSubstr("end in .rota"));
  server.put("b/bad.rota", "rota catalog\n");
  EXPECT_EQ(open_lines(Catalog("s3://b/bad.rota", options))->size(), 1) << "it is none";
}

TEST(S3, PasswordsInUrlsAreRefusedUnseen) {
  EXPECT_THAT(failure_of([] { (void)Catalog("https://me:secret@host/x"); }).text,
              AllOf(HasSubstr("password"), Not(HasSubstr("secret"))));
}

// Sizes that nobody has listed are asked for all at once, and once.
TEST(S3, ObjectsOfAPatternAreAskedForAtOnce) {
  S3Server server({"--delay", "0.1"});
  constexpr int kFiles = 128;
  for (int i = 0; i < kFiles; ++i) server.put(fmt::format("b/x_{:03}", i), fmt::format("{}", i));
  const auto source = open_files(
      Catalog::from_pattern("s3://b/x_{index:03}", {.files = kFiles}, options_for(server.options())));
  const auto before = server.count("head");
  Loader loader(source, {.global_batch_size = kFiles, .epochs = 1});
  const auto start = std::chrono::steady_clock::now();
  const auto batch = loader.next();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->size(), kFiles);
  EXPECT_EQ(server.count("head") - before, kFiles);
  EXPECT_LT(took.count(), 0.1 * kFiles / 2) << "one after the other";
}

struct Interrupted {};

TEST(S3, AWaitForAStoreEndsWhenItsCallerIsInterrupted) {
  S3Server server({"--fault", "hang", "--times", "1000", "--kind", "head"});
  S3Options hanging = server.options();
  hanging.http.stall = std::chrono::seconds(20);
  const TemporaryDirectory here;
  std::string names;
  for (int i = 0; i < 20; ++i) names += fmt::format("s3://b/{}\n", i);
  const auto list = here.write("list", names);
  const auto start = std::chrono::steady_clock::now();
  const internal::InterruptScope scope([start] {
    if (std::chrono::steady_clock::now() - start > std::chrono::milliseconds(500)) throw Interrupted();
  });
  EXPECT_THROW((void)Catalog("s3://b/x", options_for(hanging)), Interrupted);
  EXPECT_THROW((void)Catalog::from_manifest(list, options_for(hanging)), Interrupted);  // by many threads
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
}

TEST(S3, WhatIsFetchedAheadIsLeftWhenALoaderEnds) {
  const TemporaryDirectory sign;
  S3Server server(
      {"--fault", "hang", "--times", "1000", "--kind", "range", "--when", (sign.path() / "now").native()});
  for (int i = 0; i < 8; ++i) server.put(fmt::format("b/{}.txt", i), fmt::format("{:100}\n", i));
  S3Options hanging = server.options();
  hanging.http.stall = std::chrono::seconds(20);
  CatalogOptions options = options_for(hanging);
  options.share_files = true;
  auto source = open_lines(Catalog("s3://b/", options));
  std::chrono::steady_clock::time_point start;
  {
    sign.write("now", "");
    Loader loader(source, {.interleave = 4, .shuffle = Shuffle::within, .workers = 2});
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    start = std::chrono::steady_clock::now();
  }
  source.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
}

/// How many files three epochs over `files` objects of 10,000 bytes take from a store, of which `kept` may
/// stay.
std::int64_t fetched_in_three_epochs(int files, int kept, const std::filesystem::path& directory) {
  S3Server server;
  const std::string line = std::string(9999, 'x') + "\n";
  for (int i = 0; i < files; ++i) server.put(fmt::format("b/{:02}.txt", i), line);
  CatalogOptions options = options_for(server.options());
  options.share_files = true;
  options.shared_memory_limit = std::int64_t{kept} * 10'000;
  options.shared_directory = directory;
  const auto source = open_lines(Catalog("s3://b/", options));
  const auto before = server.count("range");  // the index has looked at each
  Loader loader(source, {.global_batch_size = 1,
                         .shards = files,
                         .interleave = 2,
                         .shuffle = Shuffle::within,
                         .epochs = 3,
                         .workers = 1,
                         .read_ahead_batches = 1});
  std::int64_t samples = 0;
  while (const auto batch = loader.next()) samples += batch->size();
  EXPECT_EQ(samples, 3 * files);
  EXPECT_EQ(loader.stats().fetched.files, server.count("range") - before);
  return loader.stats().fetched.files;
}

// As gzip has it that packs nothing.
std::string stored_gzip(const std::string& bytes) {
  z_stream stream{};
  constexpr int kGzip = 16 + MAX_WBITS;
  if (::deflateInit2(&stream, Z_NO_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  std::string packed(::deflateBound(&stream, bytes.size()), '\0');
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): zlib only reads it
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

TEST(S3, FilesOfManyPiecesComeWhole) {
  S3Server server({"--fault", "cut", "--kind", "range"});
  std::string lines;
  for (int i = 0; i < 700; ++i) lines += fmt::format("{:099999}\n", i);
  server.put("b/0.txt", lines);
  server.put("b/1.txt", stored_gzip(lines));  // comes by pieces of 32 MiB
  CatalogOptions options = options_for(server.options());
  options.share_files = true;
  Loader loader(open_lines(Catalog("s3://b/", options)), {.interleave = 2, .shuffle = Shuffle::none});
  std::vector<int> seen(700);
  while (const auto batch = loader.next()) {
    for (std::int64_t i = 0; i < batch->size(); ++i) {
      const auto bytes = batch->bytes(0, i);
      const std::string line(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      const int number = std::stoi(line);
      ASSERT_EQ(line, fmt::format("{:099999}", number));
      ++seen.at(static_cast<std::size_t>(number));
    }
  }
  EXPECT_THAT(seen, ::testing::Each(2));
}

// Two groups of a file, what may stay, and what is on its way: not the files of an epoch.
TEST(S3, AnEpochTakesTheMemoryOfItsGroups) {
  if (kIsSanitized) GTEST_SKIP() << "the sanitizer takes memory of its own";
  constexpr std::int64_t kMiB = 1 << 20;
  S3Server server;
  const std::string line(kMiB - 1, 'x');
  std::string lines;
  for (int i = 0; i < 8; ++i) lines += line + '\n';
  for (int i = 0; i < 30; ++i) server.put(fmt::format("b/{:02}.txt", i), lines);
  CatalogOptions options = options_for(server.options());
  options.share_files = true;
  options.shared_memory_limit = 16 * kMiB;
  const auto source = open_lines(Catalog("s3://b/", options));
  const std::int64_t before = resident("VmRSS");
  forget_peak();
  Loader loader(source, {.global_batch_size = 4,
                         .shards = 30,
                         .interleave = 1,
                         .shuffle = Shuffle::within,
                         .epochs = 2,
                         .read_ahead_bytes = 16 * kMiB});
  std::int64_t samples = 0;
  while (const auto batch = loader.next()) samples += batch->size();
  EXPECT_EQ(samples, 2 * 30 * 8);
  EXPECT_LE((resident("VmHWM") - before) >> 10, 2 * 8 + 16 + 2 * 8 + 5 * 4 * 5 / 4 + 16);
}

TEST(S3, FilesThatFitInStayForTheNextEpoch) {
  EXPECT_EQ(fetched_in_three_epochs(20, 20, {}), 20);
  EXPECT_EQ(fetched_in_three_epochs(20, 0, {}), 60);
  // The half that stays is used in each epoch: whoever drops what was read longest ago keeps less.
  const std::int64_t half = fetched_in_three_epochs(20, 10, {});
  EXPECT_GE(half, 20 + 2 * 10 - 8);
  EXPECT_LE(half, 20 + 2 * 10 + 2);
}

TEST(S3, SharedFilesMayBeOnADiskWithoutNames) {
  const TemporaryDirectory disk;
  EXPECT_EQ(fetched_in_three_epochs(20, 20, disk.path()), 20);
  EXPECT_TRUE(std::filesystem::is_empty(disk.path()));
  S3Server server;
  server.put("b/x.txt", "line\n");
  CatalogOptions options = options_for(server.options());
  options.share_files = true;
  options.shared_directory = disk.path();
  const auto source = open_lines(Catalog("s3://b/", options));
  Loader loader(source, {.interleave = 1, .shuffle = Shuffle::within});
  ASSERT_TRUE(loader.next());
  std::ifstream maps("/proc/self/maps");
  const std::string mapped{std::istreambuf_iterator<char>(maps), {}};
  EXPECT_THAT(mapped, HasSubstr(disk.path().native() + "/#"));
  options.shared_directory = disk.path() / "none";
  EXPECT_THAT(failure_of([&] { (void)open_lines(Catalog("s3://b/", options)); }).text,
              HasSubstr((disk.path() / "none").native()));
  options.shared_directory = "/proc";  // has no files without names
  EXPECT_EQ(failure_of([&] { (void)open_lines(Catalog("s3://b/", options)); }).code, ErrorCode::io);
}

}  // namespace rota::test::datasets_test
