// Catalogs that ranks make together are those that one process makes.

#include "catalog/files.hpp"
#include "formats/memory_storage.hpp"
#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::catalog_ranks_test {

/// A directory of rank 0's, known to all.
class CatalogTogether : public ::testing::Test {
 protected:
  CatalogTogether() {
    if (comm().rank() == 0) directory_.emplace();
    data_ = mpi::broadcast(comm(), directory_ ? directory_->path().string() : std::string());
  }
  ~CatalogTogether() override { wait(); }

  static const mpi::Communicator& comm() { return mpi_session().comm(); }
  static void wait() { mpi::agree(comm(), "wait", nullptr); }

  // Rank 0 writes files; all wait for it.
  void write(int files, int directories) const {
    std::mt19937_64 random(1);
    for (int i = 0; directory_ && i < files; ++i) {
      directory_->write(fmt::format("{:02}/file_{:06}.txt", i % directories, i),
                        fmt::format("{}\n{}", i, std::string(random() % 50, 'x')));
    }
    wait();
  }
  [[nodiscard]] Catalog together(ChangeDetection change_detection = ChangeDetection::by_size) const {
    return Catalog(comm(), data_, {.change_detection = change_detection});
  }
  /// How many files each rank looks into to open the dataset.
  [[nodiscard]] std::vector<std::int64_t> looked_into_by_each() const {
    std::int64_t mine = 0;
    const ProgressFunction note = [&](const Progress& progress) {
      if (progress.is_over && progress.task == "index files") mine = progress.done;
    };
    (void)open(Catalog(comm(), data_, {.progress = note}), "lines");
    return mpi::gather(comm(), mine);
  }
  /// The error that this rank gets, which must be that of all.
  template <typename Work>
  std::string error_of_all(const Work& work) {
    std::string message = "nothing was thrown";
    try {
      work();
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_EQ(mpi::broadcast(comm(), message), message);
    return message;
  }

  std::optional<TemporaryDirectory> directory_;
  std::string data_;
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
  bytes = mpi::broadcast(comm(), std::move(bytes));
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
  if (directory_) directory_->write("00/as_large_as_all_others.txt", std::string(20'000, 'x'));
  wait();
  EXPECT_EQ(looked_into_by_each()[0], comm().size() == 1 ? 201 : 1);
}

TEST_F(CatalogTogether, SaveAndLoadWhatTheyFound) {
  write(100, 2);
  const std::string saved = data_ + ".rota";
  {
    const Catalog catalog = together();
    (void)open(catalog, "lines");
    catalog.save(saved);
  }
  std::int64_t indexed = 0;
  const Catalog loaded(comm(), saved, {.progress = [&](const Progress& progress) {
                         if (progress.task == "index files") indexed += progress.done;
                       }});
  EXPECT_EQ(open(loaded, "lines")->fingerprint(), open(data_, "lines")->fingerprint());
  EXPECT_EQ(indexed, 0);
  wait();
  if (directory_) fs::remove(saved);
}

TEST_F(CatalogTogether, RefuseToSaveToDifferentFiles) {
  if (comm().size() == 1) GTEST_SKIP() << "one rank has no others";
  write(2, 1);
  const Catalog catalog = together();
  const std::string saved = data_ + ".rota";
  const std::string other = data_ + ".other";
  const bool is_last = comm().rank() == comm().size() - 1;
  EXPECT_THAT(error_of_all([&] { catalog.save(is_last ? other : saved); }),
              ::testing::AllOf(HasSubstr("rank 0 has the file \"" + saved + '"'),
                               HasSubstr("this rank has the file \"" + other + '"')));
  EXPECT_THAT(error_of_all([&] { catalog.save(saved, is_last ? "auto" : "lines"); }),
              HasSubstr("the format \"auto\""));
  EXPECT_FALSE(fs::exists(saved) || fs::exists(other));
}

TEST_F(CatalogTogether, KnowWhatHasChangedSinceTheySaved) {
  write(100, 2);
  const std::string saved = data_ + ".rota";
  together().save(saved);
  if (directory_) directory_->write("00/new.txt", "1\n");
  wait();
  const Catalog loaded(comm(), saved);
  EXPECT_EQ(loaded.changes().appeared, 1);
  EXPECT_EQ(loaded.changes().first, "00/new.txt");
  wait();
  if (directory_) fs::remove(saved);
}

TEST_F(CatalogTogether, HoldFilesToTheNumbersOfSamplesInAManifest) {
  write(2, 1);
  if (directory_) directory_->write("list", "{\"path\": \"00/file_000001.txt\", \"samples\": 3}\n");
  wait();
  const Catalog catalog = Catalog::from_manifest(comm(), data_ + "/list");
  EXPECT_THAT(error_of_all([&] { open(catalog, "lines"); }), HasSubstr("says 3"));
}

TEST_F(CatalogTogether, ThrowTheSameOnAllRanks) {
  EXPECT_THAT(error_of_all([&] { Catalog(comm(), "/no/such/place"); }), HasSubstr("/no/such/place"));
  write(100, 2);
  EXPECT_THAT(error_of_all([&] { open(together(), "tfrecord"); }), HasSubstr("00/file_000000.txt"));
  const int threads = comm().rank() == comm().size() - 1 ? 0 : 8;
  EXPECT_THAT(error_of_all([&] { Catalog(comm(), data_, {.listing_threads = threads}); }),
              HasSubstr("listing_threads is 0"));
  EXPECT_THAT(error_of_all([&] { together().save("/no/such/place"); }), HasSubstr("save a catalog"));
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
    EXPECT_THAT(error_of_all([&] {
                  Catalog(comm(), "memory://b", comm().rank() == lacking ? CatalogOptions() : options);
                }),
                HasSubstr("there is no storage for memory://"));
  }
}

TEST_F(CatalogTogether, RefuseToOpenDifferentPaths) {
  write(2, 1);
  if (comm().size() == 1) GTEST_SKIP() << "one rank has no others";
  const std::string mine = comm().rank() == 1 ? data_ + "/00" : data_;
  for (const auto& open : {+[](const std::string& path) { Catalog(comm(), path); },
                           +[](const std::string& path) { Catalog::from_manifest(comm(), path); },
                           +[](const std::string& path) { Catalog::from_pattern(comm(), path, {}); }}) {
    EXPECT_THAT(
        error_of_all([&] { open(mine); }),
        ::testing::AllOf(HasSubstr("rank 1: "), HasSubstr("this rank has the path \"" + data_ + "/00\"")));
  }
}

TEST_F(CatalogTogether, ThrowOnAllRanksWhatOneCannotOpen) {
  write(200, 2);
  const Catalog catalog = together();
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  if (comm().rank() == comm().size() - 1) {
    const auto used = static_cast<rlim_t>(std::distance(fs::directory_iterator("/proc/self/fd"), {}));
    const rlimit few{.rlim_cur = used + 30, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  EXPECT_THAT(error_of_all([&] { open(catalog, "lines"); }), HasSubstr("raise the limit of open files"));
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(open(catalog, "lines")->size(), open(data_, "lines")->size());
}

}  // namespace rota::test::catalog_ranks_test
