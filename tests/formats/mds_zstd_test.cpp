// MosaicML's shards, compressed by the tool zstd.

#include "formats/python.hpp"

namespace rota::test::mds_zstd_test {

// Shards of about 40 KB, half of it zeros.
constexpr const char* kShards = R"(
import json, subprocess
from writers import change, pack, write_mds as write
def make():
    random.seed(2)
    shards = [[dict(a=random.randbytes(random.randrange(900)) + bytes(random.randrange(900)), b=i) for i in range(40)]
              for _ in range(6)]
    write({'a': 'bytes', 'b': 'int'}, shards)
first = 'shard.00000.mds'
def say(raw_bytes):
    pack([0])
    change(0, raw_data=dict(basename=first, bytes=raw_bytes))
def cut(end):
    pack([0])
    data = open(first + '.zstd', 'rb').read()[:end]
    open(first + '.zstd', 'wb').write(data)
    change(0, zip_data=dict(basename=first + '.zstd', bytes=len(data)))
)";

class MdsZstd : public PythonTest {
 protected:
  MdsZstd() : PythonTest(kShards, "make()\n") {}
};

TEST_F(MdsZstd, PackedShardsAreReadAsIfTheyWereNot) {
  auto all = write_each({"", "pack([1, 4])", "pack([0, 1, 2, 3, 4, 5], '-19')", "pack([2], '--no-check')", R"(
raw = open('shard.00003.mds', 'rb').read()
frames = [subprocess.run(['zstd', '-q'], input=part, stdout=subprocess.PIPE).stdout for part in (raw[:999], b'', raw[999:])]
skipped = b'\x50\x2A\x4D\x18\x03\0\0\0abc'
open('shard.00003.mds.zstd', 'wb').write(skipped.join([b''] + frames + [b'']))
os.remove('shard.00003.mds')
change(3, compression='zstd', zip_data=dict(basename='shard.00003.mds.zstd', bytes=os.path.getsize('shard.00003.mds.zstd')))
)"});  // several frames without their sizes are one shard
  all.push_back(write_each({R"(
import bz2, gzip
for number, name, compress in (1, 'gz:9', gzip.compress), (2, 'bz2', bz2.compress):
    raw = f'shard.{number:05}.mds'
    open(raw + '.x', 'wb').write(compress(open(raw, 'rb').read()))
    os.remove(raw)
    change(number, compression=name, zip_data=dict(basename=raw + '.x', bytes=os.path.getsize(raw + '.x')))
)"})[0]);
  const auto plain = open(all[0]);
  for (const fs::path& path : all) {
    const auto packed = open(path);
    EXPECT_EQ(contents(*packed), contents(*plain)) << path;
    EXPECT_EQ(packed->fingerprint(), plain->fingerprint()) << path;
    EXPECT_THAT(packed->where({1}), StartsWith(path.string()));
  }
}

TEST_F(MdsZstd, AShardThatWasUnpackedBesideIsReadFromThere) {
  write("pack([0, 1, 2], keep=True)\nchange(5, compression='gz', zip_data=dict(basename='x.gz', bytes=1))");
  for (const char* number : {"0", "1", "2"}) {
    const fs::path path = at(fmt::format("shard.0000{}.mds.zstd", number));
    write_file(path, std::string(fs::file_size(path), '\0'));
  }
  EXPECT_EQ(open(directory_.path(), "mds")->size(), 240);
  directory_.write("shard.00001.mds", "short");
  EXPECT_ERROR(open(directory_.path(), "mds"), corrupt, {at("shard.00001.mds: "), "index.json says"});
}

TEST_F(MdsZstd, OtherCompressionsAndWhatPackedShardsCannotBeAreRefused) {
  std::vector<Refused> cases;
  for (const auto* name : {"br:11", "snappy", "zstdx", ""}) {
    cases.push_back(Refused(
        fmt::format("os.remove('shard.00001.mds')\n"
                    "change(1, compression='{}', zip_data=dict(basename='shard.x', bytes=1))",
                    name),
        unsupported, {"index.json", "shard 1", "shard.x", fmt::format("by {},", name), "zstd, gz and bz2"}));
  }
  for (const auto* zip :
       {"dict(basename='../x', bytes=1)", "dict(basename='x')", "dict(bytes=1)", "[]", "1"}) {
    cases.push_back(
        Refused(fmt::format("change(1, compression='zstd', zip_data={})", zip), corrupt, {"index.json"}));
  }
  const std::string file = "shard.00000.mds.zstd";
  for (const auto* end : {"0", "1", "5", "9999", "-1"}) {
    cases.push_back(Refused(fmt::format("cut({})", end), corrupt, {file + ": byte "}));
  }
  const std::vector<Refused> sizes = {
      Refused("pack([0])\nopen(first + '.zstd', 'ab').write(b'x')", corrupt, {file, "index.json says"}),
      Refused("pack([0])\nos.remove(first + '.zstd')", io, {file}),
      Refused("say(os.path.getsize(first) + 1)", corrupt, {file, "were to come"}),
      Refused("say(os.path.getsize(first) - 1)", corrupt, {file, "unpacks to more than"}),
      Refused("say(5)", corrupt, {file, "unpacks to more than the 5 bytes"}),
      Refused("say(1 << 25)", corrupt, {file, "33554432 were to come"}),
      Refused("write({'a': 'int'}, [[dict(a=1)]])\nsay(1 << 32)", corrupt, {file, "cannot unpack to"}),
      Refused("say((1 << 32) + 1)", corrupt, {"index.json", "shard 0", "cannot be"}),
      Refused("say((1 << 64) - 1)", corrupt, {"index.json", "shard 0", "cannot be"}),
      Refused("raw = bytearray(open(first, 'rb').read())\nraw[4:8] = b'\\xFF' * 4\nopen(first, "
              "'wb').write(raw)\npack([0])",
              corrupt, {file, "byte 4 of what it unpacks to"})};
  cases.insert(cases.end(), sizes.begin(), sizes.end());
  expect_refused(cases, [](const fs::path& path) { open(path, "mds"); });
}

// Whatever byte is changed, the shard is refused or the same: frames have checksums.
TEST_F(MdsZstd, DamagedFramesAreRefused) {
  write("pack([0, 1, 2, 3, 4, 5])");
  const fs::path path = directory_ / "shard.00003.mds.zstd";
  const std::string packed = read_file(path);
  const Contents expected = contents(*open(directory_.path()));
  std::mt19937_64 random(3);
  for (int i = 0; i < 400; ++i) {
    std::string damaged = packed;
    damaged[i < 20 ? static_cast<std::size_t>(i) : random() % damaged.size()] ^=
        static_cast<char>(1 + random() % 255);
    write_file(path, damaged);
    Contents found = expected;
    const auto error = error_of([&] { found = contents(*open(directory_.path(), "mds")); });
    EXPECT_EQ(found, expected);
    EXPECT_THAT(error, AnyOf(Eq(std::nullopt), is_error(corrupt, {path.string(), "byte "})));
  }
}

TEST_F(MdsZstd, ManySmallShardsDoNotUseUpTheDescriptors) {
  write("write({'a': 'int'}, [[dict(a=i)] for i in range(600)])\npack(list(range(600)))");
  const auto source = open(directory_.path(), "mds");
  EXPECT_EQ(contents(*source).size(), 600U);
  EXPECT_LE(std::distance(fs::directory_iterator("/proc/self/fd"), {}), 256 + 64);
}

}  // namespace rota::test::mds_zstd_test
