// Tar files and lines that are compressed as a whole, by Python and the tool zstd.

#include "formats/python.hpp"
#include "source/node_files.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::packed_files_test {

// Three files as both formats, plain; `pack` compresses them in one way or another.
constexpr const char* kWriter = R"(
import gzip, io, os, random, subprocess, tarfile
def zstd(data, *options):
    return subprocess.run(['zstd', '-q', *options], input=data, stdout=subprocess.PIPE, check=True).stdout
def halves(data, compress):
    return compress(data[:len(data) // 3]) + compress(b'') + compress(data[len(data) // 3:])
ways = {
    'gz': gzip.compress,
    'gz of members': lambda data: halves(data, gzip.compress),
    'gz with a name': lambda data: b'\x1f\x8b\x08\x08' + bytes(6) + b'a.tar\0' + gzip.compress(data)[10:],
    'zst': zstd,
    'zst of frames': lambda data: halves(data, zstd),
    'zst, streamed': lambda data: zstd(data, '--no-content-size', '-19'),
    'zst behind what is skipped': lambda data: b'\x50\x2A\x4D\x18\x03\0\0\0abc' + zstd(data)}
def pack(way):
    for number, name in enumerate(sorted(os.listdir('.'))):
        # plain files among them are read as they are
        data = open(name, 'rb').read()
        if number != 1:
            open(name, 'wb').write(ways[way](data))
random.seed(3)
def some(count):
    return random.randbytes(random.randrange(count)) + bytes(random.randrange(count))
)";

constexpr const char* kTars = R"(
for name in 'abc':
    with tarfile.open(name + '.tar', 'w') as tar:
        for i in range(50):
            for extension in ('x', 'y'):
                data = some(9000)
                info = tarfile.TarInfo(f'{name}{i:03}.{extension}')
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
)";

constexpr const char* kLines = R"(
for name in 'abc':
    open(name + '.jsonl', 'wb').write(b''.join(b'%x\r\n' % random.getrandbits(8 * random.randrange(1, 3000))
                                              for _ in range(99)) + b'last')
)";

constexpr std::array kWays = {"gz",
                              "gz of members",
                              "gz with a name",
                              "zst",
                              "zst of frames",
                              "zst, streamed",
                              "zst behind what is skipped"};

class PackedFiles : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { write(""); }
  void write(const std::string& script) {
    for (const auto& entry : fs::directory_iterator(directory_.path())) fs::remove(entry.path());
    python(directory_, kWriter + std::string(GetParam()) + script);
  }
  [[nodiscard]] std::vector<std::string> all() const { return all(*open(directory_.path())); }
  [[nodiscard]] static std::vector<std::string> all(const Source& source) {
    const Samples samples(source, all_ids(source));
    std::vector<std::string> values;
    for (std::size_t i = 0; i < static_cast<std::size_t>(source.size()); ++i) {
      for (std::size_t f = 0; f < source.fields().size(); ++f) values.push_back(samples.sample(f, i));
    }
    return values;
  }
  [[nodiscard]] fs::path first_file() const {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(directory_.path())) paths.push_back(entry.path());
    return *std::ranges::min_element(paths);
  }
  [[nodiscard]] static std::string bytes_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void expect_corrupt(const std::string& bytes, std::string_view what) {
    const fs::path path = first_file();
    std::ofstream(path, std::ios::binary) << bytes;
    const std::string format = std::string(GetParam()) == kTars ? "tar" : "lines";
    EXPECT_THAT(error_of([&] { (void)open(directory_.path(), format); }),
                is_error(ErrorCode::corrupt, {path.string(), "byte "}))
        << what << " " << bytes.size();
  }

  TemporaryDirectory directory_;
};

TEST_P(PackedFiles, AreFoundAndReadAsIfTheyWereNot) {
  const auto expected = all();
  for (const std::string way : kWays) {
    write(fmt::format("pack('{}')", way));
    const auto source = open(directory_.path());
    EXPECT_EQ(all(*source), expected) << way;
    ASSERT_NE(source->node_files(), nullptr);
    EXPECT_EQ(source->node_files()->fetched().files, 2);
  }
}

TEST_P(PackedFiles, AreKnownByTheirNamesAndBytes) {
  write("pack('zst')");
  const auto fingerprint = open(directory_.path())->fingerprint();
  EXPECT_EQ(open(directory_.path())->fingerprint(), fingerprint);
  write("pack('gz')");
  EXPECT_NE(open(directory_.path())->fingerprint(), fingerprint);
}

TEST_P(PackedFiles, FilesCutShortAreCorrupt) {
  for (const std::string way : kWays) {
    write(fmt::format("pack('{}')", way));
    const std::string packed = bytes_of(first_file());
    for (const std::size_t bytes : {std::size_t{12}, packed.size() / 2, packed.size() - 1}) {
      expect_corrupt(packed.substr(0, bytes), way);
    }
  }
}

TEST_P(PackedFiles, FilesWithGarbageBehindAreCorrupt) {
  for (const std::string way : kWays) {
    write(fmt::format("pack('{}')", way));
    const std::string packed = bytes_of(first_file());
    for (const std::string garbage : {"x", "some bytes behind the end of it"})
      expect_corrupt(packed + garbage, way);
  }
}

// Whatever byte is changed, a file is refused or the same: both have checksums.
TEST_P(PackedFiles, DamageIsNoticed) {
  const auto expected = all();
  std::mt19937_64 random(3);
  for (const std::string way : {"gz", "zst of frames"}) {
    write(fmt::format("pack('{}')", way));
    const fs::path path = first_file();
    const std::string packed = bytes_of(path);
    for (int i = 0; i < 100; ++i) {
      std::string damaged = packed;
      damaged[i < 20 ? static_cast<std::size_t>(i) : random() % packed.size()] ^=
          static_cast<char>(1 + random() % 255);
      std::ofstream(path, std::ios::binary) << damaged;
      std::vector<std::string> values;
      const std::string format = std::string(GetParam()) == kTars ? "tar" : "lines";
      const auto error = error_of([&] { values = all(*open(directory_.path(), format)); });
      if (!error && i >= 4) {
        EXPECT_EQ(values, expected) << way;
      }
    }
  }
}

TEST_P(PackedFiles, OneThatChangesWhileItIsOpenIsNoticed) {
  write("pack('gz')");
  const auto source = open(directory_.path());
  const fs::path path = first_file();
  const std::string packed = bytes_of(path);
  std::ofstream(path, std::ios::binary) << packed.substr(0, packed.size() / 2);
  EXPECT_THAT(error_of([&] { Samples(*source, ids({0})); }),
              is_error(ErrorCode::corrupt, {path.string(), "bytes now and had"}));
}

TEST_P(PackedFiles, OtherCompressionsAreRefused) {
  python(directory_,
         "import bz2, lzma, os\nfor name, way in zip(sorted(os.listdir('.')), (bz2, lzma)):\n"
         "    data = open(name, 'rb').read()\n    open(name, 'wb').write(way.compress(data))");
  const std::string format = std::string(GetParam()) == kTars ? "tar" : "lines";
  EXPECT_THAT(error_of([&] { (void)open(directory_.path(), format); }),
              is_error(ErrorCode::unsupported, {first_file().string(), "bzip2"}));
}

INSTANTIATE_TEST_SUITE_P(TarAndLines, PackedFiles, testing::Values(kTars, kLines),
                         [](const auto& made) { return made.index == 0 ? "tar" : "lines"; });

}  // namespace rota::test::packed_files_test
