// Ranks that open files together: replicas get what one process does, and ranks that ask for different things
// are told so, where they would wait for one another.

#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "source/documents.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::open_ranks_test {

constexpr int kFiles = 30;

const mpi::Communicator& comm() { return mpi_session().comm(); }
bool is_last() { return comm().rank() == comm().size() - 1; }

std::string text_of(int i) { return std::string(static_cast<std::size_t>(i % 7) + 1, 'x'); }

// A tar file of one member.
std::string tar_of(const std::string& name, const std::string& data) {
  std::string head(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { head.replace(at, text.size(), text); };
  put(0, name);
  put(100, "0000644");
  put(124, fmt::format("{:011o}", data.size()));
  put(148, "        ");  // the checksum is that of the head with these
  put(156, "0");
  put(257, "ustar");
  put(263, "00");
  unsigned sum = 0;
  for (const char c : head) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  std::string padded = data;
  padded.resize((data.size() + 511) / 512 * 512);
  return head + padded + std::string(1024, '\0');
}

// An NPY file of `rows` bytes.
std::string npy_of(int rows) {
  std::string header = fmt::format("{{'descr': '|u1', 'fortran_order': False, 'shape': ({},), }}", rows);
  header.resize(117, ' ');
  return std::string("\x93NUMPY\x01\0\x76\0", 10) + header + "\n" +
         std::string(static_cast<std::size_t>(rows), static_cast<char>(rows));
}

/// Files of some formats that rank 0 makes for all, each in a directory of the format's name.
class OpenRanks : public testing::Test {
 protected:
  OpenRanks() {
    if (comm().rank() == 0) {
      directory_.emplace();
      for (int i = 0; i < kFiles; ++i) {
        directory_->write(fmt::format("lines/{:03}.jsonl", i), fmt::format("{}\n{}", i, text_of(i)));
        directory_->write(fmt::format("tar/{:03}.tar", i), tar_of(fmt::format("{:03}.txt", i), text_of(i)));
        directory_->write(fmt::format("npy/{:03}.npy", i), npy_of(i % 7 + 1));
      }
    }
    data_ = mpi::broadcast(comm(), directory_ ? directory_->path().string() : std::string());
  }
  ~OpenRanks() override { mpi::agree(comm(), "wait for all", nullptr); }

  [[nodiscard]] std::string path(const std::string& format) const { return data_ + "/" + format; }

  std::optional<TemporaryDirectory> directory_;
  std::string data_;
};

void expect_same(const Source& source, const Source& alone) {
  EXPECT_EQ(source.fingerprint(), alone.fingerprint());
  ASSERT_EQ(source.size(), alone.size());
  const Samples here(source, all_ids(source));
  const Samples there(alone, all_ids(alone));
  for (std::size_t i = 0; i < static_cast<std::size_t>(source.size()); ++i)
    EXPECT_EQ(here.sample(0, i), there.sample(0, i));
}

/// The ranks with all in one place of the data, two places, and a place each.
std::vector<mpi::Communicator> replications() {
  std::vector<mpi::Communicator> all;
  for (const int places : {1, 2, comm().size()}) {
    if (comm().size() % places == 0) all.push_back(mpi::data_parallel(comm(), comm().rank() % places));
  }
  return all;
}

TEST_F(OpenRanks, ReplicasOpenWhatOneProcessDoes) {
  for (const mpi::Communicator& data : replications()) {
    SCOPED_TRACE(data.world().size);
    for (const char* format : {"lines", "tar", "npy"}) {
      SCOPED_TRACE(format);
      expect_same(*open(data, path(format)), *open(path(format)));
    }
    expect_same(*open(data, path("lines"), "files"), *open(path("lines"), "files"));
  }
}

TEST_F(OpenRanks, ReplicasMakeWhatOneProcessDoesOfAPattern) {
  const std::string pattern = path("lines/{index:03}.jsonl");
  for (const mpi::Communicator& data : replications()) {
    SCOPED_TRACE(data.world().size);
    const Catalog catalog = Catalog::from_pattern(data, pattern, {.files = kFiles});
    const Catalog alone = Catalog::from_pattern(pattern, {.files = kFiles});
    EXPECT_EQ(catalog.fingerprint(), alone.fingerprint());
    expect_same(*open_lines(catalog), *open_lines(alone));
  }
}

TEST_F(OpenRanks, ReplicasPackWhatOneProcessDoes) {
  const auto documents = std::make_shared<Documents>(std::vector<std::int64_t>{3, 0, 40, 7, 1, 16, 5, 9});
  const PackOptions options{.length = 8, .seed = 4};
  for (const mpi::Communicator& data : replications()) {
    SCOPED_TRACE(data.world().size);
    expect_same(*pack(data, documents, options), *pack(documents, options));
  }
}

using Opening = std::function<void(const Catalog&)>;

struct Difference {
  std::string format;  // of the files
  Opening here;        // on all ranks but the last
  Opening there;
  std::string says_here;
  std::string says_there;
};

Opening open_as(const std::string& format) {
  return [format](const Catalog& catalog) { (void)open(catalog, format); };
}
Opening open_tar_with(const TarOptions& options) {
  return [options](const Catalog& catalog) { (void)open_tar(catalog, options); };
}

std::vector<Difference> differences() {
  return {
      {"lines", open_as("lines"), open_as("files"), "the format \"lines\"", "the format \"files\""},
      {"lines", open_as("lines"), open_as("auto"), "the format \"lines\"", "the format \"auto\""},
      {"lines", open_as("auto"), open_as("bogus"), "the format \"auto\"", "the format \"bogus\""},
      {"tar", open_as("tar"), open_as("lines"), "the format \"tar\"", "the format \"lines\""},
      {"lines", [](const Catalog& catalog) { (void)open_lines(catalog); }, open_as("lines"), "open_lines",
       "the format \"lines\""},
      {"lines", [](const Catalog& catalog) { (void)open_lines(catalog); },
       [](const Catalog& catalog) { (void)open_files(catalog); }, "open_lines", "open_files"},
      {"tar", open_tar_with({}), open_tar_with({.fields = {"txt"}}), "fields []", "fields [\"txt\"]"},
      {"tar", open_tar_with({.fields = {"txt"}}), open_tar_with({.fields = {"txt", "cls"}}),
       "fields [\"txt\"]", "fields [\"txt\", \"cls\"]"},
      {"tar", open_tar_with({}), open_tar_with({.keys = true}), "keys false", "keys true"},
      {"npy", [](const Catalog& catalog) { (void)open_npy(catalog); },
       [](const Catalog& catalog) { (void)open_npy(catalog, {.file_is_sample = true}); },
       "file_is_sample false", "file_is_sample true"},
      {"npy", [](const Catalog& catalog) { (void)open_tokens(catalog, {.length = 1}); },
       [](const Catalog& catalog) { (void)open_tokens(catalog, {.length = 2}); }, "length 1", "length 2"}};
}

TEST_F(OpenRanks, ThatOpenDifferentlyAreToldSo) {
  if (comm().size() == 1) GTEST_SKIP() << "one rank has no others";
  for (const Difference& different : differences()) {
    SCOPED_TRACE(different.says_there);
    const Catalog catalog(comm(), path(different.format));
    const Opening& mine = is_last() ? different.there : different.here;
    EXPECT_THAT(
        error_of([&] { mine(catalog); }),
        is_error(ErrorCode::mismatch, {fmt::format("rank {}: open files of {}/: rank 0 has ",
                                                   comm().size() - 1, path(different.format)),
                                       different.says_here, "; this rank has ", different.says_there}));
    // The catalog is as good as before.
    EXPECT_GT(open(catalog)->size(), 0);
  }
}

TEST_F(OpenRanks, OptionsThatOneRankHasWrongAreAnErrorOnAll) {
  const Catalog catalog(comm(), path("tar"));
  const TarOptions options{.fields = {"txt", is_last() ? "txt" : "cls"}};
  EXPECT_THAT(error_of([&] { open_tar(catalog, options); }),
              is_error(ErrorCode::invalid_argument, {"\"txt\" is named twice"}));
}

}  // namespace rota::test::open_ranks_test
