// Generated names on several ranks.

#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::pattern_ranks_test {

constexpr int kFiles = 300;
const PatternOptions kTold{.files = kFiles, .folders = 3};

/// Files that rank 0 makes for all.
class PatternRanks : public testing::Test {
 public:
  PatternRanks() {
    if (comm.rank() == 0) {
      directory.emplace();
      for (int i = 0; i < kFiles; ++i) directory->write(name(i), "");
    }
    path = mpi::broadcast(comm, directory ? directory->path().string() : "");
  }
  ~PatternRanks() override { agree(); }
  static std::string name(int i) { return fmt::format("{}/img_{:04}", i % 3, i); }
  void agree() const { mpi::agree(comm, "wait for all", nullptr); }
  void remove(int i) const {
    if (directory) std::filesystem::remove(*directory / name(i));
    agree();
  }
  [[nodiscard]] Catalog make(std::string_view pattern, const PatternOptions& options = kTold) {
    return Catalog::from_pattern(comm, path + std::string(pattern), options, how());
  }
  [[nodiscard]] CatalogOptions how() {
    return {.progress = [this](const Progress& progress) {
      if (progress.is_over) looked_for = progress.done;
    }};
  }
  /// What making it throws here, which must be what it throws on rank 0.
  [[nodiscard]] std::optional<Error> error_of_all(std::string_view pattern,
                                                  const PatternOptions& options = kTold) {
    auto error = error_of([&] { (void)make(pattern, options); });
    const std::string here = error ? std::string(to_string(error->code())) + error->what() : "";
    EXPECT_EQ(here, mpi::broadcast(comm, here));
    return error;
  }

  const mpi::Communicator& comm = mpi_session().comm();
  std::optional<TemporaryDirectory> directory;
  std::string path;
  std::int64_t looked_for = 0;
};

TEST_F(PatternRanks, AllRanksHaveTheSameNames) {
  const Catalog catalog = make("/{folder}/img_{index:04}");
  EXPECT_EQ(catalog.size(), kFiles);
  for (int i = 0; i < kFiles; ++i) EXPECT_EQ(catalog.path(i), path + "/" + name(i));
  const std::string fingerprint = to_string(catalog.fingerprint());
  EXPECT_EQ(fingerprint, mpi::broadcast(comm, fingerprint));
}

TEST_F(PatternRanks, ValidationIsSharedOut) {
  (void)make("/{folder}/img_{index:04}");
  std::int64_t all = looked_for;
  mpi::sum(comm, std::span(&all, 1));
  EXPECT_GT(all, kFiles);
  EXPECT_GE(looked_for, all / comm.size());
  EXPECT_LE(looked_for, all / comm.size() + 1);
}

TEST_F(PatternRanks, AllRanksThrowWhatIsMissingForAnyOfThem) {
  for (const int i : {100, 150, 200, 250}) remove(i);
  EXPECT_THAT(error_of_all("/{folder}/img_{index:04}", kTold),
              is_error(not_found, {"of 303 names asked for", "4 are missing"}));
}

TEST_F(PatternRanks, NamesOfMissingFilesDoNotDependOnRanks) {
  for (int i = 5; i < kFiles; i += 5) remove(i);
  const auto together = error_of_all("/{folder}/img_{index:04}", kTold);
  const auto alone = error_of([&] { Catalog::from_pattern(path + "/{folder}/img_{index:04}", kTold); });
  ASSERT_TRUE(together && alone);
  EXPECT_STREQ(together->what(), alone->what());
}

TEST_F(PatternRanks, AllRanksThrowWhatRankZeroDoesNotFind) {
  EXPECT_THAT(error_of_all("/pic_{index}", {.files = 3}),
              is_error(not_found, {"pic_0", "pic_1", "holds no such name, but 0"}));
  EXPECT_THAT(error_of_all("/{number}"), is_error(invalid_argument, {"{number}"}));
  EXPECT_THAT(error_of_all("/{index}", {}), is_error(invalid_argument, {"PatternOptions::files"}));
  EXPECT_THAT(error_of_all("/nowhere/{index}", {.files = 3}), is_error(not_found, {"nowhere"}));
}

TEST_F(PatternRanks, OptionsThatOneRankHasWrongAreAnErrorOnAll) {
  const double confidence = comm.rank() == comm.size() - 1 ? 2 : 0.95;
  EXPECT_THAT(
      error_of_all("/{folder}/img_{index:04}", {.files = kFiles, .folders = 3, .confidence = confidence}),
      is_error(invalid_argument, {"confidence is 2"}));
}

TEST_F(PatternRanks, OptionsThatDifferAreAnErrorOnAll) {
  if (comm.size() == 1) GTEST_SKIP() << "one rank has no others";
  const int files = comm.rank() == comm.size() - 1 ? kFiles - 3 : kFiles;
  EXPECT_THAT(error_of_all("/{folder}/img_{index:04}", {.files = files, .folders = 3}),
              is_error(mismatch, {"rank 0 has files 300, ", "this rank has files 297, "}));
}

TEST_F(PatternRanks, ProgressThatThrowsOnOneRankIsAnErrorOnAll) {
  CatalogOptions options;
  options.progress = [&](const Progress&) {
    if (comm.rank() == comm.size() - 1) throw Error(callback, "enough");
  };
  EXPECT_ERROR(Catalog::from_pattern(comm, path + "/{folder}/img_{index:04}", kTold, options), callback,
               {"enough"});
}

}  // namespace rota::test::pattern_ranks_test
