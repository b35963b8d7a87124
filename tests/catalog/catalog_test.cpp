#include "source/reading.hpp"

namespace rota::test::catalog_test {

std::vector<std::string> names_of(const Catalog& catalog, const fs::path& directory) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < catalog.size(); ++i) {
    names.push_back(fs::path(catalog.path(i)).lexically_relative(directory).native());
  }
  return names;
}

// An NPY file of two floats.
std::string npy_of_two(int seed) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  header.resize(117, ' ');
  const std::array<float, 2> values = {static_cast<float>(seed), 1.0F};
  return std::string("\x93NUMPY\x01\0\x76\0", 10) + header + "\n" +
         std::string(reinterpret_cast<const char*>(values.data()), sizeof(values));
}

class Catalogs : public Test {
 protected:
  // What it tells while it looks into files.
  CatalogOptions counting() {
    return {.progress = [this](const Progress& progress) {
      if (progress.is_over && progress.task == "index files") indexed_ += progress.done;
    }};
  }
  /// How many files were looked into to open this.
  std::int64_t indexed_by(const std::string& path) {
    indexed_ = 0;
    (void)open(Catalog(path, counting()));
    return indexed_;
  }
  std::string data() const { return (directory_ / "data").string(); }
  std::string saved() const { return (directory_ / "catalog.rota").string(); }
  void write_lines(int files) const {
    for (int i = 0; i < files; ++i) {
      directory_.write(fmt::format("data/{:03}.jsonl", i), fmt::format("{{\"i\": {}}}\n{{}}\n", i));
    }
  }
  void save() const {
    const Catalog catalog(data());
    (void)open(catalog);
    catalog.save(saved());
  }
  /// What the tasks told at their end, of opening this.
  static std::vector<std::string> ends_of(const std::string& path, std::int64_t Progress::*number) {
    std::vector<std::string> ended;
    const Catalog catalog(path, {.progress = [&](const Progress& progress) {
                            EXPECT_GE(progress.seconds, 0);
                            if (progress.is_over)
                              ended.push_back(fmt::format("{} {}", progress.task, progress.*number));
                          }});
    (void)open(catalog);
    return ended;
  }
  /// A catalog of a manifest of that text.
  Catalog manifest_of(const std::string& text) const {
    return Catalog::from_manifest(directory_.write("list.txt", text));
  }

  TemporaryDirectory directory_;
  std::int64_t indexed_ = 0;
};

// ---- saved ----

TEST_F(Catalogs, AreTheSameWhenTheyWereSaved) {
  write_lines(50);
  save();
  const Catalog listed(data());
  const Catalog loaded(saved());
  EXPECT_FALSE(loaded.changes().any());
  EXPECT_EQ(loaded.fingerprint(), listed.fingerprint());
  EXPECT_EQ(loaded.origin(), listed.origin());
  EXPECT_EQ(names_of(loaded, data()), names_of(listed, data()));
  EXPECT_EQ(open(loaded)->fingerprint(), open(listed)->fingerprint());
  EXPECT_EQ(indexed_by(data()), 50);
  EXPECT_EQ(indexed_by(saved()), 0);
}

TEST_F(Catalogs, StayWhatTheyAreWhereTheyAreMovedFrom) {
  write_lines(50);
  Catalog from(data());
  // NOLINTBEGIN(performance-move-const-arg): that it copies is what is tested
  Catalog to = std::move(from);
  EXPECT_EQ(from.fingerprint(), to.fingerprint());  // NOLINT(bugprone-use-after-move): what is tested
  EXPECT_EQ(open(from)->size(), open(to)->size());
  from = std::move(to);
  EXPECT_EQ(from.path(0), to.path(0));  // NOLINT(bugprone-use-after-move): what is tested
  // NOLINTEND(performance-move-const-arg)
}

TEST_F(Catalogs, NoticeWhatHasBecomeOfFilesAndIndexOnlyThose) {
  write_lines(50);
  save();
  directory_.write("data/007.jsonl", "{\"i\": 7}\n{}\n{}\n");
  directory_.write("data/0075.jsonl", "{}\n");
  fs::remove(directory_ / "data/020.jsonl");
  const CatalogChanges changes = Catalog(saved()).changes();
  EXPECT_EQ(changes.changed, 1);
  EXPECT_EQ(changes.resized, 1);
  EXPECT_EQ(changes.appeared, 1);
  EXPECT_EQ(changes.vanished, 1);
  EXPECT_THAT(changes.first, HasSubstr("007"));
  EXPECT_ERROR(open(saved()), mismatch, {"1 vanished and 1 have other sizes", "007", "rota index"});
  EXPECT_ERROR(open(saved(), "lines"), mismatch, {"1 vanished"});
  Catalog(saved()).save(saved());
  EXPECT_EQ(indexed_by(saved()), 2);
  EXPECT_EQ(open(saved())->fingerprint(), open(data())->fingerprint());
  EXPECT_EQ(open(saved())->size(), 50 * 2 + 1 + 1 - 2);
}

TEST_F(Catalogs, NoticeAFileOfTheSameSizeThatWasWrittenAnew) {
  write_lines(3);
  save();
  const fs::path file = directory_ / "data/001.jsonl";
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  EXPECT_EQ(Catalog(saved()).changes().changed, 1);
  EXPECT_EQ(indexed_by(saved()), 1);
}

TEST_F(Catalogs, KnownByNamesAloneNoticeNamesAlone) {
  write_lines(3);
  Catalog(data(), {.change_detection = ChangeDetection::by_name}).save(saved());
  directory_.write("data/001.jsonl", "longer than before, by far");
  EXPECT_FALSE(Catalog(saved()).changes().any());
  EXPECT_EQ(Catalog(saved()).change_detection(), ChangeDetection::by_name);
  directory_.write("data/009.jsonl", "");
  EXPECT_EQ(Catalog(saved()).changes().appeared, 1);
}

TEST_F(Catalogs, KeepAnIndexForEachWayOfReading) {
  write_lines(4);
  const Catalog catalog(data(), counting());
  (void)open(catalog, "lines");
  (void)open(catalog, "lines");
  EXPECT_EQ(indexed_, 4);
  catalog.save(saved());
  EXPECT_EQ(open(saved(), "files")->size(), 4);
  EXPECT_EQ(open(saved(), "lines")->size(), 8);
}

TEST_F(Catalogs, ThatAreDamagedAreRefusedWhateverTheDamage) {
  write_lines(20);
  save();
  const std::string whole = read_file(saved());
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = whole;
    damaged[16 + random() % (damaged.size() - 16)] ^= static_cast<char>(1U << random() % 8);
    if (i % 3 == 0) damaged.resize(16 + random() % (whole.size() - 16));
    if (damaged == whole) continue;
    directory_.write("damaged.rota", damaged);
    EXPECT_ERROR(Catalog(directory_ / "damaged.rota"), corrupt, {"damaged.rota", "make it anew"});
  }
}

TEST_F(Catalogs, ThatDoNotBeginAsOnesAreDamageAndNoSamples) {
  for (const std::string& text : {std::string(), std::string("rot"), std::string(100, '\0')}) {
    const fs::path path = directory_.write("x.rota", text);
    EXPECT_ERROR(Catalog(path), corrupt, {path.string(), "named as a saved catalog", "rota index --force"});
  }
}

TEST_F(Catalogs, OfALaterVersionAreRefused) {
  write_lines(1);
  save();
  std::fstream file(saved(), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(15).put('\2');
  file.close();
  EXPECT_ERROR(Catalog{fs::path(saved())}, unsupported, {"version 2", "reads 1"});
}

TEST_F(Catalogs, AreOpenedAsTheFormatThatTheyWereSavedWith) {
  directory_.write("data/a.txt", "one\ntwo\n");
  Catalog(data()).save(saved(), "lines");
  EXPECT_EQ(find_format(Catalog(saved())), "lines");
  Catalog(saved()).save(saved());  // without having been opened
  EXPECT_EQ(open(saved())->size(), 2);
  EXPECT_EQ(open(saved(), "files")->size(), 1);
  Catalog(saved()).save(saved(), "files");
  EXPECT_EQ(open(saved())->size(), 1);
}

TEST_F(Catalogs, AreOpenedAsBeforeHoweverTheyWereOpenedBetween) {
  directory_.write("data/a.txt", "one\ntwo\n");
  const Catalog catalog(data());
  EXPECT_EQ(open(catalog, "lines")->size(), 2);
  EXPECT_EQ(find_format(catalog), "files");
  catalog.save(saved());
  EXPECT_EQ(find_format(Catalog(saved())), "files");
}

TEST_F(Catalogs, OfAnUnknownFormatAreNotSaved) {
  write_lines(2);
  EXPECT_ERROR(Catalog(data()).save(saved(), "zarr"), invalid_argument,
               {"save a catalog to " + saved(), "\"zarr\"", "\"lines\""});
  EXPECT_FALSE(fs::exists(saved()));
}

TEST_F(Catalogs, AreSavedAsTheSameBytesInWhateverOrderTheyWereOpened) {
  for (int i = 0; i < 20; ++i) directory_.write(fmt::format("data/{:03}.npy", i), npy_of_two(i));
  std::vector<std::function<void(const Catalog&)>> opens = {
      [](const Catalog& catalog) { EXPECT_EQ(open(catalog)->size(), 40); },
      [](const Catalog& catalog) {
        EXPECT_EQ(open(catalog, NpyOptions{.file_is_sample = true})->size(), 20);
      }};
  std::vector<std::size_t> order = {0, 1};
  std::set<std::string> all;
  do {
    const Catalog catalog(data());
    for (const std::size_t i : order) opens[i](catalog);
    catalog.save(saved());
    all.insert(read_file(saved()));
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(all.size(), 1);
  EXPECT_EQ(find_format(Catalog(saved())), "npy");
}

TEST_F(Catalogs, AreOpenedBySeveralThreadsAtOnce) {
  write_lines(200);
  const Catalog catalog(data(), {.indexing_threads = 2});
  const Catalog alone(data());
  {
    std::vector<std::jthread> threads;
    for (const std::string format : {"auto", "lines", "files", "auto", "lines"}) {
      threads.emplace_back(
          [&, format] { EXPECT_EQ(open(catalog, format)->size(), format == "files" ? 200 : 400); });
    }
  }
  open(alone);
  catalog.save(saved());
  const std::string together = read_file(saved());
  alone.save(saved());
  EXPECT_EQ(read_file(saved()), together);
}

TEST_F(Catalogs, ThatCannotBeSavedLeaveWhatIsThere) {
  write_lines(1);
  save();
  const auto before = fs::file_size(saved());
  EXPECT_ERROR(Catalog(data()).save(directory_ / "no/such/place"), io, {"no/such/place"});
  EXPECT_EQ(fs::file_size(saved()), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), {}), 2);
}

TEST_F(Catalogs, AreNotSavedAmongTheirOwnFiles) {
  write_lines(2);
  EXPECT_ERROR(Catalog(data()).save(data() + "/catalog.rota"), invalid_argument,
               {"data/catalog.rota", "name another file"});
  EXPECT_ERROR(Catalog(data() + "/*.rota*").save(data() + "/x.rota"), not_found, {"*.rota*"});
  Catalog(data() + "/*.jsonl").save(data() + "/catalog.rota");
  EXPECT_EQ(Catalog(data() + "/catalog.rota").size(), 2);
}

TEST_F(Catalogs, AreNotSavedInThePlaceOfTheirFilesHoweverTheseAreNamed) {
  write_lines(2);
  directory_.write("list.txt", "data/000.jsonl\n" + data() + "/001.jsonl\n");
  fs::create_directory_symlink("data", directory_ / "link");
  const auto refuses = [&](const Catalog& catalog, const std::string& place) {
    EXPECT_ERROR(catalog.save(directory_ / place), invalid_argument, {place, "name another file"});
  };
  const auto manifest = Catalog::from_manifest(directory_ / "list.txt");
  for (const auto* place : {"list.txt", "data/000.jsonl", "link/001.jsonl", "data/../data/000.jsonl"})
    refuses(manifest, place);
  for (const auto* glob : {"/*.jsonl", "/./0*.jsonl", "/../data/*", "/../link/*.jsonl", "/../*/*.jsonl"}) {
    const Catalog catalog(data() + glob);
    for (const auto* place : {"data/001.jsonl", "link/001.jsonl"}) refuses(catalog, place);
  }
  for (const auto* one : {"data/000.jsonl", "link/000.jsonl"}) {
    refuses(Catalog(directory_ / one), "data/000.jsonl");
    refuses(Catalog(directory_ / one), "link/000.jsonl");
  }
  EXPECT_EQ(open(manifest)->size(), 4);
  // Nor where the glob would find them.
  for (const auto* glob : {"/*l", "/../data/*.jsonl", "/../link/*.jsonl"}) {
    refuses(Catalog(data() + glob), "data/new.jsonl");
  }
}

TEST_F(Catalogs, OfAGlobHaveTheOrderOfTheirDirectory) {
  write_lines(100);
  EXPECT_EQ(names_of(Catalog(data() + "/*"), data()), names_of(Catalog(data()), data()));
}

TEST_F(Catalogs, FindTheirFilesFromAnyPlace) {
  write_lines(2);
  const fs::path before = fs::current_path();
  fs::current_path(directory_.path());
  Catalog("data").save("catalog.rota");
  fs::current_path(before);
  const Catalog loaded{fs::path(saved())};
  EXPECT_EQ(loaded.size(), 2);
  EXPECT_EQ(loaded.origin(), data());
  EXPECT_FALSE(loaded.changes().any());
}

// ---- manifests ----

TEST_F(Catalogs, OfAManifestHoldWhatItListsInItsOrder) {
  write_lines(5);
  const auto manifest =
      directory_.write("list.txt", "data/003.jsonl\r\n\ndata/001.jsonl\n" + data() + "/004.jsonl");
  const Catalog catalog = Catalog::from_manifest(manifest);
  EXPECT_THAT(names_of(catalog, data()), ElementsAre("003.jsonl", "001.jsonl", "004.jsonl"));
  EXPECT_EQ(open(catalog)->size(), 6);
}

TEST_F(Catalogs, OfAManifestAreLoadedWithWhatItListsNow) {
  write_lines(5);
  const auto manifest = directory_.write("list.txt", "data/003.jsonl\ndata/001.jsonl\n");
  Catalog::from_manifest(manifest).save(saved());
  directory_.write("list.txt", "data/001.jsonl\ndata/002.jsonl\ndata/003.jsonl\n");
  EXPECT_EQ(Catalog(saved()).changes().appeared, 1);
  EXPECT_THAT(names_of(Catalog(saved()), data()), ElementsAre("001.jsonl", "002.jsonl", "003.jsonl"));
}

TEST_F(Catalogs, HoldFilesToTheNumbersOfSamplesInAManifest) {
  write_lines(2);
  const auto right = directory_.write("right.jsonl",
                                      "{\"path\": \"data/000.jsonl\", \"samples\": 2, \"x\": []}\n"
                                      "{\"path\": \"data/001.jsonl\"}\n");
  EXPECT_EQ(open(Catalog::from_manifest(right))->size(), 4);
  const auto wrong = directory_.write("wrong.jsonl", "{\"path\": \"data/000.jsonl\", \"samples\": 3}\n");
  EXPECT_ERROR(open(Catalog::from_manifest(wrong)), mismatch, {"000.jsonl", "has 2 samples", "says 3"});
  EXPECT_ERROR(open(Catalog::from_manifest(wrong), "files"), mismatch,
               {"000.jsonl", "has 1 samples", "says 3"});
}

TEST_F(Catalogs, NameWhatIsWrongWithAManifestAndItsLine) {
  write_lines(2);
  EXPECT_ERROR(manifest_of("data/000.jsonl\ndata/001.jsonl\ndata/000.jsonl\n"), invalid_argument,
               {"list.txt", "line 3", "listed on line 1"});
  EXPECT_ERROR(manifest_of("{\"path\": 7}\n"), invalid_argument, {"line 1", "path"});
  EXPECT_ERROR(manifest_of("\n{\"path\": \"x\"\n"), invalid_argument, {"line 2"});
  EXPECT_ERROR(manifest_of("{\"path\": \"x\", \"samples\": -5}\n"), invalid_argument, {"samples", "-5"});
  EXPECT_ERROR(manifest_of("{\"path\": \"x\", \"samples\": 3.7}\n"), invalid_argument,
               {"line 1", "no whole number"});
  EXPECT_ERROR(manifest_of("/no/such/file\n"), io, {"list /no/such/file:"});
  EXPECT_ERROR(manifest_of(""), not_found, {"lists no files"});
  EXPECT_ERROR(manifest_of("data/000.jsonl\ndata/404.jsonl\n"), io, {"data/404.jsonl"});
  EXPECT_ERROR(manifest_of("data\n"), io, {"no regular file"});
  EXPECT_ERROR(manifest_of(std::string("a\0b\n", 4)), invalid_argument, {"line 1", "zero byte"});
  EXPECT_ERROR(manifest_of("{\"path\": \"\"}\n"), invalid_argument, {"line 1", "path is empty"});
  EXPECT_ERROR(Catalog::from_manifest(directory_.path()), invalid_argument,
               {directory_.path().string(), "no regular file"});
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  EXPECT_ERROR(Catalog::from_manifest(directory_ / "fifo"), invalid_argument,
               {"fifo: it is no regular file; write the list to a file first"});
  EXPECT_ERROR(Catalog::from_manifest(directory_ / "none"), not_found, {"none"});
}

// ---- progress, options ----

TEST_F(Catalogs, TellHowFarTheyAreAndHowManyFilesThereAreForEachTask) {
  write_lines(30);
  EXPECT_THAT(ends_of(data(), &Progress::done),
              ElementsAre("list files 30", "ask for sizes 30", "index files 30"));
  save();
  directory_.write("data/007.jsonl", "{}\n");
  Catalog(saved()).save(saved());
  EXPECT_THAT(ends_of(saved(), &Progress::total),
              ElementsAre("list files 0", "ask for sizes 30", "index files 1"));
}

TEST_F(Catalogs, EndWhereProgressThrows) {
  write_lines(3);
  for (const auto* task : {"list files", "ask for sizes", "index files"}) {
    const CatalogOptions options{.progress = [&](const Progress& progress) {
      if (progress.task == task) throw std::runtime_error("stop");
    }};
    EXPECT_THROW((void)open(Catalog(data(), options)), std::runtime_error) << task;
  }
}

}  // namespace rota::test::catalog_test
