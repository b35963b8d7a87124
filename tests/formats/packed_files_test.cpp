// Tar files and lines that are compressed as a whole, by Python and the tool zstd.

#include "formats/python.hpp"
#include "source/read_plan.hpp"

namespace rota::test::packed_files_test {

// Three files as both formats, plain; `pack` compresses the first and the last in one way or another.
constexpr const char* kWriter = R"(
import bz2, gzip, lzma
from writers import write_tar, zstd
def halves(data, compress):
    return compress(data[:len(data) // 3]) + compress(b'') + compress(data[len(data) // 3:])
ways = {
    'gz': gzip.compress,
    'gz of members': lambda data: halves(data, gzip.compress),
    'gz with a name': lambda data: b'\x1f\x8b\x08\x08' + bytes(6) + b'a.tar\0' + gzip.compress(data)[10:],
    'zst': zstd,
    'zst of frames': lambda data: halves(data, zstd),
    'zst, streamed': lambda data: zstd(data, '--no-content-size', '-19'),
    'bz2': bz2.compress,
    'bz2 of streams': lambda data: halves(data, bz2.compress),
    'xz': lzma.compress,
    'xz of streams': lambda data: halves(data, lzma.compress),
    'zst behind what is skipped': lambda data: b'\x50\x2A\x4D\x18\x03\0\0\0abc' + zstd(data)}
def pack(compress):
    for name in sorted(os.listdir('.'))[::2]:
        data = open(name, 'rb').read()
        open(name, 'wb').write(compress(data))
def some(count):
    return random.randbytes(random.randrange(count)) + bytes(random.randrange(count))
def tar():
    for name in 'abc':
        write_tar(name + '.tar', [(f'{name}{i:03}.{extension}', some(9000)) for i in range(50) for extension in 'xy'])
def lines():
    for name in 'abc':
        open(name + '.jsonl', 'wb').write(b''.join(b'%x\r\n' % random.getrandbits(8 * random.randrange(1, 3000))
                                                  for _ in range(99)) + b'last')
)";

class PackedFiles : public PythonTest, public WithParamInterface<std::string> {
 protected:
  PackedFiles() : PythonTest(kWriter, "random.seed(3); " + GetParam() + "()\n") {}
  // The dataset, packed in each way, and plain in the last directory.
  std::vector<fs::path> write_all_ways() const {
    std::vector<std::string> scripts;
    for (const std::string way :
         {"gz", "gz of members", "gz with a name", "zst", "zst of frames", "zst, streamed",
          "zst behind what is skipped", "bz2", "bz2 of streams", "xz", "xz of streams"}) {
      scripts.push_back("pack(ways['" + way + "'])");
    }
    scripts.emplace_back();
    return write_each(scripts);
  }
  static fs::path first_file(const fs::path& directory) {
    return directory / (GetParam() == "tar" ? "a.tar" : "a.jsonl");
  }
  static auto opening(const fs::path& directory) {
    return error_of([&] { (void)open(directory, GetParam()); });
  }
};

TEST_P(PackedFiles, AreFoundAndReadAsIfTheyWereNot) {
  auto directories = write_all_ways();
  const Contents expected = contents(*open(directories.back()));
  directories.pop_back();
  std::set<std::string> fingerprints;
  for (const fs::path& directory : directories) {
    const auto source = open(directory);
    EXPECT_EQ(contents(*source), expected) << directory;
    EXPECT_EQ(PlannedSource::plan_of(*source)->sharing(), Sharing::in_few);
    EXPECT_EQ(PlannedSource::plan_of(*source)->counts().files, 2);
    EXPECT_EQ(open(directory)->fingerprint(), source->fingerprint());
    fingerprints.insert(to_string(source->fingerprint()));
  }
  EXPECT_EQ(fingerprints.size(), directories.size()) << "they are known by their bytes";
}

TEST_P(PackedFiles, ThatAreCutShortOrHaveGarbageBehindAreCorrupt) {
  auto directories = write_all_ways();
  directories.pop_back();
  for (const fs::path& directory : directories) {
    const fs::path path = first_file(directory);
    const std::string packed = read_file(path);
    for (const std::string& bytes :
         {packed.substr(0, 12), packed.substr(0, packed.size() / 2), packed.substr(0, packed.size() - 1),
          packed + "x", packed + "some bytes behind the end of it"}) {
      write_file(path, bytes);
      EXPECT_THAT(opening(directory), is_error(corrupt, {path.string(), "byte "}))
          << directory << bytes.size();
      EXPECT_THAT(opening(directory)->what(), Not(HasSubstr("byte 18446744073709551615"))) << directory;
    }
  }
}

// Whatever byte is changed, a file is refused or the same: both have checksums.
TEST_P(PackedFiles, DamageIsNoticed) {
  const auto directories = write_each({"pack(ways['gz'])", "pack(ways['zst of frames'])"});
  const Contents expected = contents(*open(directories[0]));
  std::mt19937_64 random(3);
  for (const fs::path& directory : directories) {
    const std::string packed = read_file(first_file(directory));
    for (int i = 0; i < 100; ++i) {
      std::string damaged = packed;
      damaged[i < 20 ? static_cast<std::size_t>(i) : random() % packed.size()] ^=
          static_cast<char>(1 + random() % 255);
      write_file(first_file(directory), damaged);
      Contents found;
      const auto error = error_of([&] { found = contents(*open(directory, GetParam())); });
      if (!error && i >= 4) {
        EXPECT_EQ(found, expected) << directory;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TarAndLines, PackedFiles, Values("tar", "lines"),
                         [](const auto& made) { return made.param; });

}  // namespace rota::test::packed_files_test
