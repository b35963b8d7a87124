// Ranks that open files together: replicas get what one process does, and ranks that ask for different things
// are told so, where they would wait for one another.

#include "formats/memory_storage.hpp"
#include "formats/python.hpp"
#include "ranks/collectives.hpp"
#include "ranks_main.hpp"
#include "source/documents.hpp"

namespace rota::test::open_ranks_test {

constexpr int kFiles = 30;

const Communicator& comm() { return everyone(); }
bool is_last() { return comm().rank() == comm().size() - 1; }

constexpr const char* kWriter = R"(
import numpy as np
from writers import write_tar
for format in 'lines', 'tar', 'npy': os.mkdir(format)
for i in range(30):
    open(f'lines/{i:03}.jsonl', 'w').write(f'{i}\n' + 'x' * (i % 7 + 1))
    write_tar(f'tar/{i:03}.tar', [(f'{i:03}.txt', b'x' * (i % 7 + 1))])
    np.save(f'npy/{i:03}.npy', np.full(i % 7 + 1, i, 'u1'))
)";

/// Files of some formats that rank 0 makes for all, each in a directory of the format's name.
class OpenRanks : public Test {
 protected:
  static void SetUpTestSuite() {
    if (comm().rank() == 0) python(directory_.emplace(), kWriter);
    data_ = ranks::broadcast(comm(), directory_ ? directory_->path().string() : std::string());
  }
  static void TearDownTestSuite() {
    ranks::agree(comm(), "wait for all", nullptr);
    directory_.reset();
  }

  static std::string path(const std::string& format) { return data_ + "/" + format; }

 private:
  static inline std::optional<TemporaryDirectory> directory_;
  static inline std::string data_;
};

void expect_same(const Source& source, const Source& alone) {
  EXPECT_EQ(source.fingerprint(), alone.fingerprint());
  EXPECT_EQ(contents(source), contents(alone));
}

/// The ranks with all in one place of the data, two places, and a place each.
std::vector<Communicator> replications() {
  std::vector<Communicator> all;
  for (const int places : {1, 2, comm().size()}) {
    if (comm().size() % places == 0) all.push_back(comm().data_parallel(comm().rank() % places));
  }
  return all;
}

TEST_F(OpenRanks, ReplicasOpenAndPackWhatOneProcessDoesAndMakeItOfAPattern) {
  const std::string pattern = path("lines/{index:03}.jsonl");
  const auto documents = std::make_shared<Documents>(Numbers{3, 0, 40, 7, 1, 16, 5, 9});
  const PackOptions options{.length = 8, .seed = 4};
  for (const Communicator& data : replications()) {
    SCOPED_TRACE(data.world().size);
    for (const char* format : {"lines", "tar", "npy"}) {
      SCOPED_TRACE(format);
      expect_same(*open(data, path(format)), *open(path(format)));
    }
    expect_same(*open(data, path("lines"), "files"), *open(path("lines"), "files"));
    const Catalog catalog = Catalog::from_pattern(data, pattern, {.files = kFiles});
    const Catalog alone = Catalog::from_pattern(pattern, {.files = kFiles});
    EXPECT_EQ(catalog.fingerprint(), alone.fingerprint());
    expect_same(*open(catalog, "lines"), *open(alone, "lines"));
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

Opening open_as(const Format& format) {
  return [format](const Catalog& catalog) { (void)open(catalog, format); };
}

std::vector<Difference> differences() {
  return {
      {"lines", open_as("lines"), open_as("files"), "the format \"lines\"", "the format \"files\""},
      {"lines", open_as("lines"), open_as("auto"), "the format \"lines\"", "the format \"auto\""},
      {"lines", open_as("auto"), open_as("bogus"), "the format \"auto\"", "the format \"bogus\""},
      {"tar", open_as("tar"), open_as("lines"), "the format \"tar\"", "the format \"lines\""},
      {"lines", open_as("lines"), open_as(FilesOptions()), "the format \"lines\"", "files with keys false"},
      {"tar", open_as(TarOptions()), open_as(TarOptions{.fields = {"txt"}}), "fields []", "fields [\"txt\"]"},
      {"tar", open_as(TarOptions{.fields = {"txt"}}), open_as(TarOptions{.fields = {"txt", "cls"}}),
       "fields [\"txt\"]", "fields [\"txt\", \"cls\"]"},
      {"tar", open_as(TarOptions()), open_as(TarOptions{.keys = true}), "keys false", "keys true"},
      {"tar", open_as(TarOptions{.fields = {"txt"}}),
       open_as(TarOptions{.fields = {{"text", {"txt", "md"}}}}), "fields [\"txt\"]",
       "fields [\"text\"] [\"md\", \"txt\"]"},
      {"npy", open_as(NpyOptions()), open_as(NpyOptions{.file_is_sample = true}), "file_is_sample false",
       "file_is_sample true"},
      {"npy", open_as(TokensOptions{.length = 1}), open_as(TokensOptions{.length = 2}), "length 1",
       "length 2"}};
}

TEST_F(OpenRanks, ThatOpenDifferentlyAreToldSo) {
  if (comm().size() == 1) GTEST_SKIP() << "one rank has no others";
  for (const Difference& different : differences()) {
    SCOPED_TRACE(different.says_there);
    const Catalog catalog(comm(), path(different.format));
    const Opening& mine = is_last() ? different.there : different.here;
    EXPECT_ERROR(
        mine(catalog), mismatch,
        {fmt::format("rank {}: open files of {}/: rank 0 has ", comm().size() - 1, path(different.format)),
         different.says_here, "; this rank has ", different.says_there});
    // The catalog is as good as before.
    EXPECT_GT(open(catalog)->size(), 0);
  }
}

TEST_F(OpenRanks, OptionsThatOneRankHasWrongAreAnErrorOnAll) {
  const Catalog catalog(comm(), path("tar"));
  const TarOptions options{.fields = {"txt", is_last() ? "txt" : "cls"}};
  EXPECT_ERROR(open(catalog, options), invalid_argument, {"\"txt\" is named twice"});
}

// Which one rank does for longer than the others' deadline.
TEST(OneLongFile, IsIndexedWhileOtherRanksWait) {
  if (comm().size() != 3) GTEST_SKIP() << "it takes a second at any number of ranks";
  const auto storage = std::make_shared<MemoryStorage>();
  for (int i = 0; i < 4096; ++i) storage->files["data/a.txt"].bytes += std::string(1023, 'x') + '\n';
  storage->on_read = [](const StoredBytes& /*wanted*/) { std::this_thread::sleep_for(150ms); };
  const Catalog catalog(comm().duplicate(400ms), "slow://data/", {.storages = {{"slow", storage}}});
  EXPECT_EQ(open(catalog, "lines")->size(), 4096);
  EXPECT_GT(std::ranges::max(ranks::all_gather(comm(), storage->reads)), 3);
}

}  // namespace rota::test::open_ranks_test
