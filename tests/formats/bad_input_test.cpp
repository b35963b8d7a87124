// What is wrong with a dataset is said with the name of the file and the place in it, in every format alike.
// The datasets are those of formats/write.py, whose files have odd names.

#include "run_command.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::bad_input_test {

// What a format can tell of its files.
enum class Tells {
  all,          // what they are, and where they end
  kind,         // what they are; one that was cut short may be taken for a shorter one
  size,         // where they end; any bytes will do
  hardly_more,  // than whether elements are whole
};

struct Case {
  const char* format;
  const char* suffix;  // of the files that are damaged
  Tells tells;
  const char* place = "byte";  // what a message has of the place
  bool has_samples = true;     // and not only the places of those in another file
  bool has_checksums = false;

  [[nodiscard]] bool ends_are_known() const { return tells == Tells::all || tells == Tells::size; }
  [[nodiscard]] bool kind_is_known() const { return tells == Tells::all || tells == Tells::kind; }
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.format << " " << one.suffix; }

// Of each sample, its fields.
using Contents = std::vector<std::vector<std::string>>;

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void overwrite(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A prefix of `whole`, of whose last sample some may lack; half an end of a line may be left.
bool begins(const Contents& part, const Contents& whole) {
  if (part.size() > whole.size()) return false;
  for (std::size_t i = 0; i < part.size(); ++i) {
    for (std::size_t f = 0; f < part[i].size(); ++f) {
      if (i + 1 < part.size() ? part[i][f] != whole[i][f] : !(whole[i][f] + '\r').starts_with(part[i][f]))
        return false;
    }
  }
  return true;
}

class BadInput : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Ended ended = run_command("cd " + directory_.path().string() +
                                    " && timeout 60 " ROTA_TEST_PYTHON " " ROTA_TESTS "/formats" "/write.py " +
                                    GetParam().format);
    ASSERT_EQ(ended.code, 0) << ended.output;
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
    if (format == "mds") return open_mds(file.parent_path());
    if (format == "megatron") return open_megatron(fs::path(file).replace_extension(".idx"));
    if (format == "tar") return open_tar(file, {.fields = {"cls", "jpg"}});
    return open(file, format);
  }
  static Contents read(const Source& source) {
    const Samples samples(source, all_ids(source));
    Contents contents(static_cast<std::size_t>(source.size()));
    for (std::size_t i = 0; i < contents.size(); ++i) {
      for (std::size_t f = 0; f < source.fields().size(); ++f) contents[i].push_back(samples.sample(f, i));
    }
    return contents;
  }
  static auto is_damage_of(const fs::path& file) {
    return is_error(ErrorCode::corrupt, {file.string(), GetParam().place});
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

  TemporaryDirectory directory_;
  std::vector<fs::path> files_;
};

using BadInputOfAKind = BadInput;
using BadInputInAList = BadInput;
using BadInputUnderChecksums = BadInput;

TEST_P(BadInput, CutShortIsDamageOrHasTheSamplesBefore) {
  std::mt19937_64 random(1);
  for (const fs::path& file : files_) {
    const std::string bytes = bytes_of(file);
    const Contents whole = read(*open_one(file));
    std::vector<std::size_t> lengths = {0, 1, 5, bytes.size() / 2, bytes.size() - 1};
    for (int i = 0; i < 30; ++i) lengths.push_back(random() % bytes.size());
    for (const std::size_t length : lengths) {
      overwrite(file, bytes.substr(0, length));
      Contents left;
      const auto error = error_of([&] { left = read(*open_one(file)); });
      const bool is_right = GetParam().ends_are_known() ? left == whole : begins(left, whole);
      if (!error && is_right) continue;
      EXPECT_THAT(error, is_damage_of(file)) << length << " of " << bytes.size();
    }
    overwrite(file, bytes);
  }
}

TEST_P(BadInputOfAKind, IsDamageWhereItIsOfAnother) {
  for (const fs::path& file : files_) {
    const std::string bytes = bytes_of(file);
    for (const std::string& other : {std::string("this is some text\n"), std::string(600, 'x'),
                                     std::string(bytes.size(), 'x'), std::string(bytes.size(), '\xFF')}) {
      overwrite(file, other);
      EXPECT_THAT(error_of([&] { open_one(file); }), is_damage_of(file)) << other.size();
    }
    overwrite(file, bytes);
  }
}

TEST_P(BadInputOfAKind, OfZerosIsDamageOrHasNoSamples) {
  for (const fs::path& file : files_) {
    const std::string bytes = bytes_of(file);
    const Contents whole = read(*open_one(file));
    overwrite(file, std::string(bytes.size(), '\0'));
    Contents left;  // nothing, of a tar file; or all, where the file had no samples
    const auto error = error_of([&] { left = read(*open_one(file)); });
    EXPECT_TRUE(left.empty() || left == whole) << file;
    overwrite(file, bytes);
    if (!error) continue;
    EXPECT_THAT(error, is_damage_of(file));
  }
}

TEST_P(BadInput, CutShortWhileItIsOpenIsDamageWhereItIsRead) {
  int damaged = 0;
  for (const fs::path& file : files_) {
    const std::string bytes = bytes_of(file);
    const auto source = open_one(file);
    const Contents whole = read(*source);
    overwrite(file, "");
    const auto error = error_of([&] { EXPECT_EQ(read(*source), whole); });  // of no bytes, or of an index
    overwrite(file, bytes);
    if (!error) continue;
    EXPECT_THAT(error, is_damage_of(file));
    ++damaged;
  }
  EXPECT_EQ(damaged > 0, GetParam().has_samples);
}

TEST_P(BadInput, ReplacedWhileItIsOpenIsReadAsItWas) {
  for (const fs::path& file : files_) {
    const auto source = open_one(file);
    const Contents whole = read(*source);
    fs::rename(file, directory_ / "former");
    overwrite(file, "another file");
    EXPECT_EQ(read(*source), whole) << file;
    fs::rename(directory_ / "former", file);
  }
}

// More files than are kept open.
TEST_P(BadInputInAList, ReplacedByALongerOneIsNotRead) {
  copy_many();
  const auto source = open(directory_ / "many", GetParam().format);
  const fs::path file = fs::path(directory_ / "many/399").replace_extension(files_[0].extension());
  const Ids last = {{source->size() - 1}};
  overwrite(file, bytes_of(file) + "x");
  EXPECT_THAT(error_of([&] { Samples(*source, last); }),
              is_error(ErrorCode::corrupt, {file.string(), "bytes now", "had", "restore"}));
}

TEST_P(BadInputUnderChecksums, ChangedWithinItsSizeIsDamage) {
  const fs::path& file = files_[0];
  const auto source = open_one(file);
  const Contents whole = read(*source);
  const std::string bytes = bytes_of(file);
  std::mt19937_64 random(1);
  int damaged = 0;
  for (int i = 0; i < 300; ++i) {
    std::string changed = bytes;
    changed[random() % bytes.size()] ^= static_cast<char>(1U << random() % 8);
    overwrite(file, changed);
    const auto error = error_of([&] { EXPECT_EQ(read(*source), whole); });  // where it is not looked at again
    if (!error) continue;
    EXPECT_THAT(error, is_damage_of(file));
    ++damaged;
  }
  EXPECT_GT(damaged, 30);
}

constexpr Case kCases[] = {
    {"hdf5", ".h5", Tells::all, ""},
    {"tar", ".tar", Tells::all},
    {.format = "tfrecord", .suffix = ".tfrecord", .tells = Tells::kind, .has_checksums = true},
    {"lines", ".txt", Tells::hardly_more},
    {"npy", ".npy", Tells::all},
    {.format = "npz", .suffix = ".npz", .tells = Tells::all, .has_checksums = true},
    {"tokens", ".bin", Tells::hardly_more},
    {"megatron", ".idx", Tells::all, "byte", false},
    {"megatron", ".bin", Tells::size},
    {"mds", ".mds", Tells::all},
    {"mds", ".json", Tells::all, "line 1, column", false}};

template <typename Wanted>
auto cases(Wanted wanted) {
  std::vector<Case> some;
  std::copy_if(std::begin(kCases), std::end(kCases), std::back_inserter(some), wanted);
  return testing::ValuesIn(some);
}

std::string name_of(const testing::TestParamInfo<Case>& one) {
  return std::string(one.param.format) + "_" + std::string(one.param.suffix).substr(1);
}

INSTANTIATE_TEST_SUITE_P(Files, BadInput, testing::ValuesIn(kCases), name_of);
INSTANTIATE_TEST_SUITE_P(Files, BadInputOfAKind, cases([](const Case& one) { return one.kind_is_known(); }),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Files, BadInputInAList, cases([](const Case& one) {
                           return one.has_samples && one.format != std::string_view("mds");
                         }),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Files, BadInputUnderChecksums,
                         cases([](const Case& one) { return one.has_checksums; }), name_of);

}  // namespace rota::test::bad_input_test
