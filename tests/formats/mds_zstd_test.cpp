// MosaicML's shards, compressed by the tool zstd.

#include "formats/mds_writer.hpp"
#include "formats/python.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::mds_zstd_test {

// Shards of about 40 KB, half of it zeros.
constexpr const char* kShards = R"(
random.seed(2)
shards = [[dict(a=random.randbytes(random.randrange(900)) + bytes(random.randrange(900)), b=i) for i in range(40)]
          for _ in range(6)]
write({'a': 'bytes', 'b': 'int'}, shards)
)";

class MdsZstd : public testing::Test {
 protected:
  void write(const std::string& script, const std::string& shards = kShards) {
    python(directory_, kMdsWriter + shards + script);
  }
  [[nodiscard]] std::string at(std::string_view name) const { return (directory_ / name).string(); }
  [[nodiscard]] auto opening() const {
    return error_of([&] { open_mds(directory_.path()); });
  }
  [[nodiscard]] std::string bytes_of(std::string_view name) const {
    std::ifstream file(directory_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // All samples, field by field.
  [[nodiscard]] static std::vector<std::string> all(const Source& source) {
    const Samples samples(source, all_ids(source));
    std::vector<std::string> values;
    for (std::size_t i = 0; i < static_cast<std::size_t>(source.size()); ++i) {
      for (std::size_t f = 0; f < source.fields().size(); ++f) values.push_back(samples.sample(f, i));
    }
    return values;
  }
  static auto reading(const Source& source, std::int64_t id) {
    return error_of([&] { Samples(source, ids({id})); });
  }
  // In the files that are open, too.
  void zero_packed_shards() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(directory_.path())) {
      if (entry.path().extension() != ".zstd") continue;
      std::fstream(entry.path(), std::ios::binary | std::ios::in | std::ios::out)
          << std::string(entry.file_size(), '\0');
    }
  }

  TemporaryDirectory directory_;
};

TEST_F(MdsZstd, PackedShardsAreReadAsIfTheyWereNot) {
  write("");
  const auto plain = open(directory_.path());
  const auto expected = all(*plain);
  for (const auto* script : {"pack([1, 4])", "pack([0, 1, 2, 3, 4, 5], '-19')", "pack([2], '--no-check')"}) {
    write(script);
    const auto packed = open(directory_.path());
    EXPECT_EQ(all(*packed), expected) << script;
    EXPECT_EQ(packed->fingerprint(), plain->fingerprint()) << script;
    EXPECT_EQ(packed->where({1}).substr(0, at("").size()), at(""));
  }
}

TEST_F(MdsZstd, SeveralFramesWithoutTheirSizesAreOneShard) {
  write("");
  const auto expected = all(*open(directory_.path()));
  write(R"(
raw = open('shard.00003.mds', 'rb').read()
frames = [subprocess.run(['zstd', '-q'], input=part, stdout=subprocess.PIPE).stdout for part in (raw[:999], b'', raw[999:])]
skipped = b'\x50\x2A\x4D\x18\x03\0\0\0abc'
open('shard.00003.mds.zstd', 'wb').write(skipped.join([b''] + frames + [b'']))
os.remove('shard.00003.mds')
change(3, compression='zstd', zip_data=dict(basename='shard.00003.mds.zstd', bytes=os.path.getsize('shard.00003.mds.zstd')))
)");
  EXPECT_EQ(all(*open(directory_.path())), expected);
}

TEST_F(MdsZstd, AShardThatWasUnpackedBesideIsReadFromThere) {
  write("pack([0, 1, 2], keep=True)\nchange(5, compression='gz', zip_data=dict(basename='x.gz', bytes=1))");
  zero_packed_shards();
  EXPECT_EQ(open_mds(directory_.path())->size(), 240);
  directory_.write("shard.00001.mds", "short");
  EXPECT_THAT(opening(), is_error(ErrorCode::corrupt, {at("shard.00001.mds: "), "index.json says"}));
}

TEST_F(MdsZstd, OtherCompressionsAreRefused) {
  for (const auto* name : {"gz", "gz:9", "br:11", "snappy", "bz2", "zstdx", ""}) {
    write(
        fmt::format("os.remove('shard.00001.mds')\n"
                    "change(1, compression='{}', zip_data=dict(basename='shard.x', bytes=1))",
                    name));
    EXPECT_THAT(opening(), is_error(ErrorCode::unsupported, {at("index.json"), "shard 1", "shard.x",
                                                             fmt::format("by {},", name), "zstd alone"}));
  }
}

TEST_F(MdsZstd, AnIndexOfPackedShardsThatCannotBeIsRefused) {
  for (const auto* zip :
       {"dict(basename='../x', bytes=1)", "dict(basename='x')", "dict(bytes=1)", "[]", "1"}) {
    write(fmt::format("change(1, compression='zstd', zip_data={})", zip));
    EXPECT_THAT(opening(), is_error(ErrorCode::corrupt, {at("index.json")})) << zip;
  }
}

TEST_F(MdsZstd, AMissingOrReplacedFileIsNamed) {
  write("pack([2])\nopen('shard.00002.mds.zstd', 'ab').write(b'x')");
  EXPECT_THAT(opening(), is_error(ErrorCode::corrupt, {at("shard.00002.mds.zstd"), "index.json says"}));
  fs::remove(directory_ / "shard.00002.mds.zstd");
  EXPECT_THAT(opening(), is_error(ErrorCode::io, {at("shard.00002.mds.zstd")}));
}

TEST_F(MdsZstd, AFileThatChangesItsSizeWhileOpenIsNoticed) {
  write("pack([0, 1])");
  const auto source = open_mds(Catalog(directory_.path(), {.indexing_threads = 1, .shared_memory_limit = 0}));
  fs::resize_file(directory_ / "shard.00000.mds.zstd", 1000);
  EXPECT_THAT(reading(*source, 0),
              is_error(ErrorCode::corrupt, {at("shard.00000.mds.zstd"), "1000 bytes now"}));
  EXPECT_FALSE(reading(*source, 40));
}

// Sizes that the index has wrong, in the raw shard of 40 KB or so.
TEST_F(MdsZstd, ShardsThatUnpackToOtherSizesAreCorrupt) {
  const std::string script =
      "pack([0])\nraw = json.load(open('index.json'))['shards'][0]['raw_data']\n"
      "change(0, raw_data=dict(raw, bytes={}))";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"raw['bytes'] + 1", "were to come"},
      {"raw['bytes'] - 1", "unpacks to more than"},
      {"5", "unpacks to more than the 5 bytes"},
      {"1 << 25", "33554432 were to come"}};
  for (const auto& [bytes, what] : cases) {
    write(fmt::format(fmt::runtime(script), bytes));
    EXPECT_THAT(opening(), is_error(ErrorCode::corrupt, {at("shard.00000.mds.zstd"), what})) << bytes;
  }
}

TEST_F(MdsZstd, AbsurdSizesAreRefusedBeforeAnythingIsUnpacked) {
  const std::string tiny = "write({'a': 'int'}, [[dict(a=1)]])\n";
  const std::string script = "pack([0])\nchange(0, raw_data=dict(basename='shard.00000.mds', bytes={}))";
  write(fmt::format(fmt::runtime(script), "1 << 32"), tiny);
  EXPECT_THAT(opening(), is_error(ErrorCode::corrupt, {at("shard.00000.mds.zstd"), "cannot unpack to"}));
  for (const auto* bytes : {"(1 << 32) + 1", "(1 << 64) - 1"}) {
    write(fmt::format(fmt::runtime(script), bytes), tiny);
    EXPECT_THAT(opening(), is_error(ErrorCode::corrupt, {at("index.json"), "shard 0", "cannot be"}));
  }
}

TEST_F(MdsZstd, FramesCutShortAreCorrupt) {
  write("pack([0])");
  const std::string packed = bytes_of("shard.00000.mds.zstd");
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{5}, packed.size() / 2, packed.size() - 1}) {
    directory_.write("shard.00000.mds.zstd", packed.substr(0, bytes));
    python(directory_, fmt::format("{}change(0, zip_data=dict(basename='shard.00000.mds.zstd', bytes={}))",
                                   kMdsWriter, bytes));
    EXPECT_THAT(opening(), is_error(ErrorCode::corrupt, {at("shard.00000.mds.zstd: byte ")})) << bytes;
  }
}

// Whatever byte is changed, the shard is refused or the same: frames have checksums.
TEST_F(MdsZstd, DamagedFramesAreRefused) {
  write("pack([0, 1, 2, 3, 4, 5])");
  const std::string packed = bytes_of("shard.00003.mds.zstd");
  const auto expected = all(*open(directory_.path()));
  std::mt19937_64 random(3);
  for (int i = 0; i < 400; ++i) {
    std::string damaged = packed;
    damaged[i < 20 ? static_cast<std::size_t>(i) : random() % damaged.size()] ^=
        static_cast<char>(1 + random() % 255);
    directory_.write("shard.00003.mds.zstd", damaged);
    std::vector<std::string> values;
    const auto error = error_of([&] { values = all(*open_mds(directory_.path())); });
    if (error) {
      EXPECT_THAT(error, is_error(ErrorCode::corrupt, {at("shard.00003.mds.zstd"), "byte "}));
    } else {
      EXPECT_EQ(values, expected);
    }
  }
}

TEST_F(MdsZstd, DamageInsideOfAShardIsToldFromThatOfItsFile) {
  write(
      "raw = bytearray(open('shard.00000.mds', 'rb').read())\nraw[4:8] = b'\\xFF' * 4\n"
      "open('shard.00000.mds', 'wb').write(raw)\npack([0])");
  EXPECT_THAT(opening(),
              is_error(ErrorCode::corrupt, {at("shard.00000.mds.zstd"), "byte 4 of what it unpacks to"}));
}

TEST_F(MdsZstd, ShardsUsedLastAreKeptAndOthersUnpackedAnew) {
  write("pack([0, 1, 2, 3, 4, 5])");
  const auto source =
      open_mds(Catalog(directory_.path(), {.indexing_threads = 1, .shared_memory_limit = 100'000}));
  for (const std::int64_t id : {0, 41, 2, 121, 42}) EXPECT_FALSE(reading(*source, id));
  zero_packed_shards();
  EXPECT_FALSE(reading(*source, 122));
  EXPECT_FALSE(reading(*source, 43));
  EXPECT_THAT(reading(*source, 0), is_error(ErrorCode::corrupt, {at("shard.00000.mds.zstd"), "byte 0"}));
}

TEST_F(MdsZstd, OneShardIsKeptHoweverLargeItIs) {
  write("pack([0, 1])");
  const auto source = open_mds(Catalog(directory_.path(), {.indexing_threads = 1, .shared_memory_limit = 0}));
  EXPECT_FALSE(reading(*source, 0));
  zero_packed_shards();
  EXPECT_FALSE(reading(*source, 1));
  EXPECT_THAT(reading(*source, 40), is_error(ErrorCode::corrupt, {at("shard.00001.mds.zstd")}));
}

TEST_F(MdsZstd, ThreadsThatReadAtRandomReadTheSame) {
  write("");
  const auto expected = all(*open(directory_.path()));
  write("pack([0, 1, 2, 4, 5])");
  for (const std::int64_t shared_memory_limit : {0, 100'000, 1 << 20}) {
    const auto source = open_mds(Catalog(directory_.path(), {.shared_memory_limit = shared_memory_limit}));
    const auto read_some = [&](std::uint64_t seed) {
      std::mt19937_64 random(seed);
      for (int i = 0; i < 40; ++i) {
        const Ids wanted = random_ids(*source, 8, random);
        const Samples samples(*source, wanted);
        for (std::size_t k = 0; k < wanted.size(); ++k) {
          const auto id = static_cast<std::size_t>(wanted[k].value);
          EXPECT_EQ(samples.sample(0, k), expected[2 * id]);
          EXPECT_EQ(samples.sample(1, k), expected[2 * id + 1]);
        }
      }
    };
    std::vector<std::jthread> threads;
    for (std::uint64_t seed = 0; seed < 8; ++seed) threads.emplace_back(read_some, seed);
  }
}

TEST_F(MdsZstd, ManySmallShardsDoNotUseUpTheDescriptors) {
  write("pack(list(range(600)))", "write({'a': 'int'}, [[dict(a=i)] for i in range(600)])\n");
  const auto source = open_mds(directory_.path());
  const Samples samples(*source, all_ids(*source));
  for (std::size_t i = 0; i < 600; ++i)
    EXPECT_EQ(samples.values<std::int64_t>(0, i)[0], static_cast<std::int64_t>(i));
  EXPECT_LE(std::distance(fs::directory_iterator("/proc/self/fd"), {}), 256 + 64);
}

}  // namespace rota::test::mds_zstd_test
