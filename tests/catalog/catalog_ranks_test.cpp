// Catalogs that ranks make together are those that one process makes.

#include "all_of_ranks.hpp"
#include "formats/memory_storage.hpp"

namespace rota::test::catalog_ranks_test {

/// A directory that all ranks see, in which rank 0 writes.
class CatalogTogether : public Test {
 protected:
  static void wait() { ranks::agree(comm(), "wait", nullptr); }
  static const Communicator& comm() { return everyone(); }

  // All wait for it.
  void write(const std::string& name, const std::string& text) const {
    if (is_root()) {
      const fs::path path = directory_.path() / name;
      fs::create_directories(path.parent_path());
      std::ofstream(path) << text;
    }
    wait();
  }
  void write(int files, int directories) const {
    std::mt19937_64 random(1);
    for (int i = 0; is_root() && i < files; ++i) {
      const fs::path path = directory_.path() / fmt::format("{:02}/file_{:06}.txt", i % directories, i);
      fs::create_directories(path.parent_path());
      std::ofstream(path) << i << '\n' << std::string(random() % 50, 'x');
    }
    wait();
  }
  Catalog together(ChangeDetection change_detection = ChangeDetection::by_size) const {
    return Catalog(comm(), data_, {.change_detection = change_detection});
  }
  /// How many files each rank looks into to open the dataset.
  Numbers looked_into_by_each() const {
    std::int64_t mine = 0;
    const ProgressFunction note = [&](const Progress& progress) {
      if (progress.is_over && progress.task == "index files") mine = progress.done;
    };
    (void)open(Catalog(comm(), data_, {.progress = note}), "lines");
    return ranks::all_gather(comm(), mine);
  }

  SharedDirectory directory_;
  const std::string data_ = directory_.path();
};

TEST_F(CatalogTogether, KnowTheSameFilesAsOneProcess) {
  write(2500, 7);
  for (const ChangeDetection change_detection : {ChangeDetection::by_size, ChangeDetection::by_name}) {
    const Catalog alone(data_, {.change_detection = change_detection});
    const Catalog shared = together(change_detection);
    ASSERT_EQ(shared.size(), 2500);
    EXPECT_EQ(shared.fingerprint(), alone.fingerprint());
    for (std::int64_t i = 0; i < shared.size(); i += 97) {
      EXPECT_EQ(shared.path(i), alone.path(i));
      EXPECT_TRUE(change_detection == ChangeDetection::by_name || shared.bytes(i) == alone.bytes(i));
    }
  }
}

TEST_F(CatalogTogether, AreSentByOneRankToOthersThatListNothing) {
  write(40, 3);
  const Catalog listed = together();
  (void)open(listed, "lines");
  std::string bytes;
  if (comm().rank() == 0) bytes = listed.serialize();  // the others do not take part
  bytes = ranks::broadcast(comm(), std::move(bytes));
  EXPECT_EQ(listed.serialize(), bytes);
  const Catalog alone = Catalog::deserialize(bytes);
  EXPECT_EQ(alone.fingerprint(), listed.fingerprint());
  EXPECT_EQ(open(alone, "lines")->fingerprint(), open(listed, "lines")->fingerprint());
}

TEST_F(CatalogTogether, ReadTheSameSamplesAsOneProcess) {
  write(300, 3);
  const auto alone = open(data_, "lines");
  const auto source = open(together(), "lines");
  EXPECT_EQ(source->fingerprint(), alone->fingerprint());
  const Samples here(*source, all_ids(*source));
  const Samples there(*alone, all_ids(*alone));
  for (std::size_t i = 0; i < static_cast<std::size_t>(source->size()); i += 7)
    EXPECT_EQ(here.sample(0, i), there.sample(0, i));
}

TEST_F(CatalogTogether, ShareTheWorkOfLookingIntoFiles) {
  write(200, 3);
  const auto done = looked_into_by_each();
  EXPECT_EQ(std::accumulate(done.begin(), done.end(), std::int64_t{0}), 200);
  EXPECT_LE(*std::max_element(done.begin(), done.end()), 2 * 200 / comm().size() + 1);
}

TEST_F(CatalogTogether, ShareTheWorkByBytes) {
  write(200, 1);
  write("00/as_large_as_all_others.txt", std::string(20'000, 'x'));
  EXPECT_EQ(looked_into_by_each()[0], comm().size() == 1 ? 201 : 1);
}

TEST_F(CatalogTogether, SaveAndLoadWhatTheyFoundAndKnowWhatHasChangedSince) {
  write(100, 2);
  const std::string saved = data_ + "/00/all.rota";
  std::int64_t indexed = 0;
  const CatalogOptions counting{.progress = [&](const Progress& progress) {
    if (progress.task == "index files") indexed += progress.done;
  }};
  {
    const Catalog catalog(comm(), data_ + "/*/*.txt");
    (void)open(catalog, "lines");
    catalog.save(saved);
  }
  const Catalog loaded(comm(), saved, counting);
  EXPECT_EQ(open(loaded, "lines")->fingerprint(), open(data_ + "/*/*.txt", "lines")->fingerprint());
  EXPECT_EQ(indexed, 0);
  wait();
  write("00/new.txt", "1\n");
  EXPECT_EQ(Catalog(comm(), saved).changes().appeared, 1);
  EXPECT_THAT(Catalog(comm(), saved).changes().first, HasSubstr("00/new.txt"));
}

TEST_F(CatalogTogether, RefuseToSaveToDifferentFiles) {
  if (comm().size() == 1) GTEST_SKIP() << "one rank has no others";
  write(2, 1);
  const Catalog catalog = together();
  const std::string saved = data_ + "/all.rota";
  const std::string other = data_ + "/other.rota";
  EXPECT_ERROR_OF_ALL(catalog.save(is_last() ? other : saved), mismatch,
                      {"rank 0 has the file \"" + saved + '"', "this rank has the file \"" + other + '"'});
  EXPECT_ERROR_OF_ALL(catalog.save(saved, is_last() ? "auto" : "lines"), mismatch, {"the format \"auto\""});
  EXPECT_FALSE(fs::exists(saved) || fs::exists(other));
}

TEST_F(CatalogTogether, ThrowTheSameOnAllRanks) {
  EXPECT_ERROR_OF_ALL(Catalog(comm(), "/no/such/place"), not_found, {"/no/such/place"});
  write(100, 2);
  EXPECT_ERROR_OF_ALL(open(together(), "tfrecord"), corrupt, {"00/file_000000.txt"});
  EXPECT_ERROR_OF_ALL(Catalog(comm(), data_, {.listing_threads = is_last() ? 0 : 8}), invalid_argument,
                      {"listing_threads is 0"});
  EXPECT_ERROR_OF_ALL(together().save("/no/such/place"), io, {"save a catalog"});
  write("list", "{\"path\": \"01/file_000001.txt\", \"samples\": 3}\n");
  EXPECT_ERROR_OF_ALL(open(Catalog::from_manifest(comm(), data_ + "/list"), "lines"), mismatch, {"says 3"});
}

TEST_F(CatalogTogether, ReadAStorageThatRankZeroLists) {
  const auto storage = std::make_shared<MemoryStorage>();
  for (int i = 0; i < 100; ++i) storage->files[fmt::format("b/{:02}.txt", i)] = {std::to_string(i)};
  const CatalogOptions options{.storages = {{"memory", storage}}};
  const Catalog catalog(comm(), "memory://b", options);
  EXPECT_EQ(storage->lists, comm().rank() == 0 ? 1 : 0);
  EXPECT_EQ(storage->finds, comm().rank() == 0 ? 1 : 0) << "of the path alone";
  EXPECT_EQ(catalog.fingerprint(), Catalog("memory://b", options).fingerprint());
  const auto source = open(catalog, "lines");
  const Samples samples(*source, all_ids(*source));
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(samples.sample(0, i), std::to_string(i));

  for (const int lacking : {0, comm().size() - 1}) {
    EXPECT_ERROR_OF_ALL(Catalog(comm(), "memory://b", comm().rank() == lacking ? CatalogOptions() : options),
                        not_found, {"there is no storage for memory://"});
  }
}

TEST_F(CatalogTogether, RefuseToOpenDifferentPaths) {
  write(2, 1);
  if (comm().size() == 1) GTEST_SKIP() << "one rank has no others";
  const std::string mine = comm().rank() == 1 ? data_ + "/00" : data_;
  for (const auto& open : {+[](const std::string& path) { Catalog(comm(), path); },
                           +[](const std::string& path) { Catalog::from_manifest(comm(), path); },
                           +[](const std::string& path) { Catalog::from_pattern(comm(), path, {}); }}) {
    EXPECT_ERROR_OF_ALL(open(mine), mismatch, {"rank 1: ", "this rank has the path \"" + data_ + "/00\""});
  }
}

TEST_F(CatalogTogether, ThrowOnAllRanksWhatOneCannotOpen) {
  if (are_threads()) GTEST_SKIP() << "the limit is of the process";
  write(200, 2);
  const Catalog catalog = together();
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  if (is_last()) {
    const auto used = static_cast<rlim_t>(std::distance(fs::directory_iterator("/proc/self/fd"), {}));
    const rlimit few{.rlim_cur = used - 1, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  EXPECT_ERROR_OF_ALL(open(catalog, "lines"), io, {"raise the limit of open files"});
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(open(catalog, "lines")->size(), open(data_, "lines")->size());
}

/// Files of a pattern.
class PatternTogether : public CatalogTogether {
 protected:
  static constexpr int kFiles = 300;
  static constexpr PatternOptions kTold{.files = kFiles, .folders = 3};

  PatternTogether() {
    for (int i = 0; is_root() && i < kFiles; ++i) {
      fs::create_directories(directory_.path() / std::to_string(i % 3));
      std::ofstream(directory_.path() / name(i)).flush();
    }
    wait();
  }
  static std::string name(int i) { return fmt::format("{}/img_{:04}", i % 3, i); }
  Catalog make(const PatternOptions& options = kTold,
               const std::string& pattern = "/{folder}/img_{index:04}") {
    return Catalog::from_pattern(comm(), data_ + pattern, options,
                                 {.progress = [this](const Progress& progress) {
                                   if (progress.is_over) looked_for_ = progress.done;
                                 }});
  }

  std::int64_t looked_for_ = 0;
};

TEST_F(PatternTogether, AllRanksHaveTheSameNames) {
  const Catalog catalog = make();
  EXPECT_EQ(catalog.size(), kFiles);
  for (int i = 0; i < kFiles; ++i) EXPECT_EQ(catalog.path(i), data_ + "/" + name(i));
  const std::string fingerprint = to_string(catalog.fingerprint());
  EXPECT_EQ(fingerprint, ranks::broadcast(comm(), fingerprint));
}

TEST_F(PatternTogether, ValidationIsSharedOut) {
  (void)make();
  std::int64_t all = looked_for_;
  comm().sum(std::span(&all, 1));
  EXPECT_GT(all, kFiles);
  EXPECT_GE(looked_for_, all / comm().size());
  EXPECT_LE(looked_for_, all / comm().size() + 1);
}

TEST_F(PatternTogether, NamesOfMissingFilesAreThrownOnAllRanksAndDoNotDependOnThem) {
  for (int i = 5; is_root() && i < kFiles; i += 5) fs::remove(data_ + "/" + name(i));
  wait();
  const auto together = error_of_all([&] { (void)make(); });
  const auto alone = error_of([&] { Catalog::from_pattern(data_ + "/{folder}/img_{index:04}", kTold); });
  ASSERT_THAT(together, is_error(not_found, {data_ + "/" + name(5) + " (No such file"}));
  EXPECT_THAT(together->what(), EndsWith(alone.value().what()));
}

TEST_F(PatternTogether, AllRanksThrowWhatRankZeroDoesNotFind) {
  EXPECT_ERROR_OF_ALL(make({.files = 3}, "/pic_{index}"), not_found, {"pic_0", "holds no such name, but 0"});
  EXPECT_ERROR_OF_ALL(make({}, "/{number}"), invalid_argument, {"{number}"});
  EXPECT_ERROR_OF_ALL(make({}, "/{index}"), invalid_argument, {"the option files"});
  EXPECT_ERROR_OF_ALL(make({.files = 3}, "/nowhere/{index}"), not_found, {"nowhere"});
}

TEST_F(PatternTogether, OptionsThatOneRankHasWrongOrThatDifferAreAnErrorOnAll) {
  EXPECT_ERROR_OF_ALL(make({.files = is_last() ? -2 : kFiles, .folders = 3}), invalid_argument,
                      {"files is -2"});
  if (comm().size() == 1) return;
  EXPECT_ERROR_OF_ALL(make({.files = is_last() ? kFiles - 3 : kFiles, .folders = 3}), mismatch,
                      {"rank 0 has files 300, ", "this rank has files 297, "});
  EXPECT_ERROR_OF_ALL(make(kTold, is_last() ? "/{folder}/img_{index+1:04}" : "/{folder}/img_{index:04}"),
                      mismatch, {"{index:04}", "{index+1:04}"});
}

TEST_F(PatternTogether, ProgressThatThrowsOnOneRankIsAnErrorOnAll) {
  const CatalogOptions options{.progress = [](const Progress&) {
    if (is_last()) throw Error(callback, "enough");
  }};
  EXPECT_ERROR(Catalog::from_pattern(comm(), data_ + "/{folder}/img_{index:04}", kTold, options), callback,
               {"enough"});
}

}  // namespace rota::test::catalog_ranks_test
