// Shards as MosaicML's MDSWriter lays them out.

#include "formats/mds_writer.hpp"
#include "formats/python.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::mds_test {

class Mds : public testing::Test {
 protected:
  auto write(const std::string& script) { return python(directory_, kMdsWriter + script); }
  [[nodiscard]] std::string at(std::string_view name) const { return (directory_ / name).string(); }
  [[nodiscard]] auto opening(const MdsOptions& options = {}) const {
    return error_of([&] { open_mds(directory_.path(), options); });
  }

  TemporaryDirectory directory_;
};

TEST_F(Mds, ColumnsAreFieldsOfTheirTypes) {
  const auto values = write(R"(
columns = {'text': 'str', 'id': 'int', 'x': 'ndarray:float32:2,3', 'tokens': 'ndarray:uint16', 'score': 'float64',
           'image': 'jpeg:90'}
random.seed(1)
shards = [[dict(text='é' * (i % 5), id=-i, x=np.arange(6.0).reshape(2, 3) + i, score=i / 7,
                tokens=np.arange(1 + i * i * 37 % 70000), image=random.randbytes(i * 11))
           for i in range(first, first + n)] for first, n in ((0, 20), (20, 0), (20, 5))]
write(columns, shards)
for shard in shards:
    for s in shard:
        tell(s['id'].to_bytes(8, 'little', signed=True), s['image'], struct.pack('<d', s['score']), s['text'].encode(),
             s['tokens'].astype('u2').tobytes(), s['x'].astype('f4').tobytes())
)");
  const auto source = open(directory_.path());
  EXPECT_THAT(source->fields(),
              ElementsAre(Field{"id", DType::int64}, Field{"image", DType::uint8, {}, true},
                          Field{"score", DType::float64}, Field{"text", DType::uint8, {}, true},
                          Field{"tokens", DType::uint16, {}, true}, Field{"x", DType::float32, {2, 3}}));
  ASSERT_EQ(source->size(), 25);
  const Samples samples(*source, all_ids(*source));
  for (std::size_t i = 0; i < 25; ++i) {
    for (std::size_t f = 0; f < 6; ++f) ASSERT_EQ(samples.sample(f, i), values[6 * i + f]) << i << " " << f;
  }
}

TEST_F(Mds, OnlyTheColumnsThatAreNamedAreRead) {
  write("write({'a': 'int', 'b': 'pkl', 'c': 'str'}, [[dict(a=1, b=b'pickle', c='see')]])");
  const auto source = open_mds(directory_.path(), {.columns = {"c", "a"}});
  EXPECT_EQ(Samples(*source, ids({0})).sample(0, 0), "see");
  EXPECT_EQ(Samples(*source, ids({0})).values<std::int64_t>(1, 0)[0], 1);
  EXPECT_THAT(opening(),
              is_error(ErrorCode::unsupported, {at("index.json"), "\"b\" is pkl", "run anything"}));
  EXPECT_THAT(opening({.columns = {"d"}}),
              is_error(ErrorCode::not_found, {"no column \"d\"", "\"a\", \"b\", \"c\""}));
  EXPECT_THAT(opening({.columns = {"a", "c", "a"}}),
              is_error(ErrorCode::invalid_argument, {"MdsOptions::columns", "\"a\" is named twice"}));
}

TEST_F(Mds, ArraysOfAnyShapeNeedOneDimension) {
  write("write({'a': 'ndarray:int8'}, [[dict(a=[1, 2]), dict(a=[[1], [2]])]])");
  EXPECT_THAT(opening(), is_error(ErrorCode::unsupported, {at("shard.00000.mds"), "\"a\" has 2 dimensions"}));
}

TEST_F(Mds, OtherFormatsAndVersionsAreRefused) {
  write(
      "write({'a': 'int'}, [[dict(a=1)]])\nopen('index.json', 'w').write('{\"version\": 3, \"shards\": "
      "[]}')");
  EXPECT_THAT(opening(), is_error(ErrorCode::unsupported, {"version 3", "rota knows 2"}));
  write("write({'a': 'int'}, [[dict(a=1)], [dict(a=2)]])\nchange(1, version=1)");
  EXPECT_THAT(opening(), is_error(ErrorCode::unsupported,
                                  {at("index.json"), "shard 1", "version 1 of MDS", "rota knows 2"}));
}

TEST_F(Mds, AnIndexThatIsNoneIsRefused) {
  for (const auto* text : {"", "{", "[]", "{\"version\": 2}", "{\"version\": 2, \"shards\": [{}]}",
                           "{\"version\": 2, \"shards\": [{\"format\": 1}]}",
                           "{\"version\": 2, \"shards\": [{\"format\": \"mds\"}]}"}) {
    directory_.write("index.json", text);
    EXPECT_THAT(opening(), is_error(ErrorCode::corrupt, {at("index.json")})) << text;
  }
  directory_.write("index.json", "{\"version\": 2, \"shards\": []}");
  EXPECT_THAT(opening(), is_error(ErrorCode::not_found, {"names no shards"}));
}

TEST_F(Mds, ColumnsOfOneNameAreDamage) {
  write(
      "write({'a': 'int', 'b': 'int'}, [[dict(a=1, b=2)]])\n"
      "text = open('index.json').read().replace('\"b\"', '\"a\"')\nopen('index.json', 'w').write(text)");
  EXPECT_THAT(opening(), is_error(ErrorCode::corrupt, {at("index.json"), "shard 0", "two columns \"a\""}));
}

TEST_F(Mds, ColumnsOfMoreBytesThanThereCanBeAreDamage) {
  write(
      "write({'a': 'int'}, [[dict(a=1)]])\nindex = json.load(open('index.json'))\n"
      "index['shards'][0]['column_sizes'] = [(1 << 32) + 8]\njson.dump(index, open('index.json', 'w'))");
  EXPECT_THAT(opening(), is_error(ErrorCode::corrupt, {at("index.json"), "shard 0", "4294967304 bytes"}));
}

TEST_F(Mds, FilesOutsideOfTheDirectoryAreNotRead) {
  for (const auto* name : {"../x", "/etc/passwd", "a/../../x", ""}) {
    write(fmt::format(
        "write({{'a': 'int'}}, [[dict(a=1)]])\nindex = json.load(open('index.json'))\n"
        "index['shards'][0]['raw_data']['basename'] = '{}'\njson.dump(index, open('index.json', 'w'))",
        name));
    EXPECT_THAT(opening(), is_error(ErrorCode::corrupt, {"cannot be"})) << name;
  }
}

// Whatever byte is changed, the index or the samples are refused, or values differ; nothing worse.
TEST_F(Mds, DamagedShardsDoNoHarm) {
  write(
      "write({'a': 'str', 'b': 'ndarray:uint8', 'c': 'int'},"
      "      [[dict(a='x' * i, b=[1] * (i + 1), c=i) for i in range(9)]])");
  const fs::path path = directory_ / "shard.00000.mds";
  std::string bytes(fs::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), std::ssize(bytes));
  std::mt19937_64 random(1);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    if (i % 10 == 0) damaged.resize(random() % damaged.size());
    directory_.write("shard.00000.mds", damaged);
    refused += error_of([&] {
      const auto source = open_mds(directory_.path());
      Samples(*source, all_ids(*source));
    })
                   ? 1
                   : 0;
  }
  EXPECT_GT(refused, 500);
}

TEST_F(Mds, AShardThatIsNotTheOneInTheIndexIsNamed) {
  write("write({'a': 'int'}, [[dict(a=1)]])\nopen('shard.00000.mds', 'ab').write(b'x')");
  EXPECT_THAT(opening(), is_error(ErrorCode::corrupt, {at("shard.00000.mds"), "index.json says"}));
  fs::remove(directory_ / "shard.00000.mds");
  EXPECT_THAT(opening(), is_error(ErrorCode::io, {at("shard.00000.mds")}));
}

}  // namespace rota::test::mds_test
