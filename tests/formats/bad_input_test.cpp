// What is wrong with a dataset is said with the name of the file and the place in it, in every format alike.
// The datasets are those of formats/write.py, whose files have odd names.

#include "formats/python.hpp"

namespace rota::test::bad_input_test {

struct Case {
  const char* format;
  const char* suffix;          // of the files that are damaged
  bool kind_is_known = true;   // and not any bytes will do
  const char* place = "byte";  // what a message has of the place
  bool has_samples = true;     // and not only the places of those in another file
  bool has_checksums = false;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.format << " " << one.suffix; }

class BadInput : public PythonTest, public WithParamInterface<Case> {
 protected:
  void SetUp() override {
    write_dataset(directory_, GetParam().format);
    for (const auto& entry : fs::recursive_directory_iterator(directory_.path())) {
      if (entry.is_regular_file() && entry.path().native().ends_with(GetParam().suffix) &&
          entry.file_size() > 0) {
        files_.push_back(entry.path());
      }
    }
    std::sort(files_.begin(), files_.end());
    files_.resize(std::min<std::size_t>(files_.size(), 4));
  }

  // The dataset of this file alone, or, for a file that another names, of that.
  static std::shared_ptr<const Source> open_one(const fs::path& file) {
    const std::string format = GetParam().format;
    if (format == "mds") return open(file.parent_path(), "mds");
    if (format == "megatron") return open(fs::path(file).replace_extension(".idx"), "megatron");
    if (format == "tar") return open(file, TarOptions{.fields = {"jpg"}});
    return open(file, format);
  }
  static auto is_damage_of(const fs::path& file) {
    return is_error(corrupt, {file.string(), GetParam().place});
  }

  // Puts so many copies of the first file into a directory of their own that they are not all kept open.
  void copy_many() {
    fs::create_directory(directory_ / "many");
    for (int i = 100; i < 400; ++i) {
      const auto copy = directory_ / "many" / std::to_string(i);
      fs::copy(files_[0], fs::path(copy).replace_extension(files_[0].extension()));
      if (files_[0].extension() != ".bin" || GetParam().format != std::string("megatron")) continue;
      fs::copy(fs::path(files_[0]).replace_extension(".idx"), fs::path(copy).replace_extension(".idx"));
    }
  }

  std::vector<fs::path> files_;
};

using BadInputOfAKind = BadInput;
using BadInputInAList = BadInput;
using BadInputUnderChecksums = BadInput;

TEST_P(BadInputOfAKind, IsDamageWhereItIsOfAnotherAndOfZerosMayHaveNoSamples) {
  for (const fs::path& file : files_) {
    const std::string bytes = read_file(file);
    const Contents whole = contents(*open_one(file));
    for (const std::string& other : {std::string("this is some text\n"), std::string(600, 'x'),
                                     std::string(bytes.size(), 'x'), std::string(bytes.size(), '\xFF')}) {
      write_file(file, other);
      EXPECT_THAT(error_of([&] { open_one(file); }), is_damage_of(file)) << other.size();
    }
    write_file(file, std::string(bytes.size(), '\0'));
    Contents left;  // nothing, of a tar file; or all, where the file had no samples
    const auto error = error_of([&] { left = contents(*open_one(file)); });
    EXPECT_TRUE(left.empty() || left == whole) << file;
    write_file(file, bytes);
    if (error) {
      EXPECT_THAT(error, is_damage_of(file));
    }
  }
}

TEST_P(BadInput, WhileItIsOpenIsReadAsItWasWhereReplacedAndIsDamageWhereCutShort) {
  int damaged = 0;
  for (const fs::path& file : files_) {
    const std::string bytes = read_file(file);
    const auto source = open_one(file);
    const Contents whole = contents(*source);
    fs::rename(file, directory_ / "former");
    write_file(file, "another file");
    EXPECT_EQ(contents(*source), whole) << file;
    fs::rename(directory_ / "former", file);

    write_file(file, "");
    const auto error = error_of([&] { EXPECT_EQ(contents(*source), whole); });  // of no bytes, or of an index
    write_file(file, bytes);
    if (!error) continue;
    EXPECT_THAT(error, is_damage_of(file));
    ++damaged;
  }
  EXPECT_EQ(damaged > 0, GetParam().has_samples);
}

// Whatever bytes are changed, most of them at the beginning, it is refused, or values differ; nothing worse.
TEST_P(BadInputOfAKind, ChangedDoesNoHarm) {
  if (GetParam().format == std::string("hdf5")) GTEST_SKIP() << "a library reads it";
  const fs::path& file = files_[0];
  const std::string bytes = read_file(file);
  std::mt19937_64 random(1);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string changed = bytes;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t most = std::min<std::size_t>(bytes.size(), i % 4 == 0 ? bytes.size() : 300);
      changed[random() % most] = static_cast<char>(random());
    }
    if (i % 10 == 0) changed.resize(random() % changed.size());
    write_file(file, changed);
    refused += error_of([&] { (void)contents(*open_one(file)); }) ? 1 : 0;
  }
  EXPECT_GT(refused, 250);
}

// More files than are kept open.
TEST_P(BadInputInAList, ReplacedByALongerOneIsNotRead) {
  copy_many();
  const auto source = open(directory_ / "many", GetParam().format);
  const fs::path file = fs::path(directory_ / "many/399").replace_extension(files_[0].extension());
  const Ids last = {{source->size() - 1}};
  write_file(file, read_file(file) + "x");
  EXPECT_ERROR(Samples(*source, last), corrupt, {file.string(), "bytes now", "had", "restore"});
}

TEST_P(BadInputUnderChecksums, ChangedWithinItsSizeIsDamage) {
  std::mt19937_64 random(1);
  for (const fs::path& file : files_) {
    const auto source = open_one(file);
    const Contents whole = contents(*source);
    const std::string bytes = read_file(file);
    int damaged = 0;
    for (int i = 0; i < 200; ++i) {
      std::string changed = bytes;
      changed[random() % bytes.size()] ^= static_cast<char>(1U << random() % 8);
      write_file(file, changed);
      const auto error =
          error_of([&] { EXPECT_EQ(contents(*source), whole); });  // where it is not looked at again
      if (!error) continue;
      EXPECT_THAT(error, is_damage_of(file));
      ++damaged;
    }
    EXPECT_GT(damaged, 20) << file;
  }
}

constexpr Case kCases[] = {{"hdf5", ".h5", true, ""},
                           {"tar", ".tar"},
                           {.format = "tfrecord", .suffix = ".tfrecord", .has_checksums = true},
                           {"lines", ".txt", false},
                           {"npy", ".npy"},
                           {.format = "npz", .suffix = ".npz", .has_checksums = true},
                           {"tokens", ".bin", false},
                           {"megatron", ".idx", true, "byte", false},
                           {"megatron", ".bin", false},
                           {"mds", ".mds"},
                           {"mds", ".json", true, "line 1, column", false}};

template <typename Wanted>
auto cases(Wanted wanted) {
  std::vector<Case> some;
  std::copy_if(std::begin(kCases), std::end(kCases), std::back_inserter(some), wanted);
  return ValuesIn(some);
}
std::string name_of(const TestParamInfo<Case>& one) {
  return std::string(one.param.format) + "_" + std::string(one.param.suffix).substr(1);
}

INSTANTIATE_TEST_SUITE_P(Files, BadInput, ValuesIn(kCases), name_of);
INSTANTIATE_TEST_SUITE_P(Files, BadInputOfAKind, cases([](const Case& one) { return one.kind_is_known; }),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Files, BadInputInAList, cases([](const Case& one) {
                           return one.has_samples && one.format != std::string_view("mds");
                         }),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Files, BadInputUnderChecksums,
                         cases([](const Case& one) { return one.has_checksums; }), name_of);

}  // namespace rota::test::bad_input_test
