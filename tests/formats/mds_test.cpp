// Shards as MosaicML's MDSWriter lays them out.

#include "formats/python.hpp"

namespace rota::test::mds_test {

class Mds : public PythonTest {
 protected:
  Mds()
      : PythonTest(
            "import json, subprocess, numpy as np\nfrom writers import change, pack, write_mds as write\n") {}
  [[nodiscard]] auto opening(const MdsOptions& options = {}) const {
    return error_of([&] { open_mds(directory_.path(), options); });
  }
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
  expect_samples(*source, values);
}

TEST_F(Mds, OnlyTheColumnsThatAreNamedAreRead) {
  write("write({'a': 'int', 'b': 'pkl', 'c': 'str'}, [[dict(a=1, b=b'pickle', c='see')]])");
  const auto source = open_mds(directory_.path(), {.columns = {"c", "a"}});
  EXPECT_EQ(contents(*source), (Contents{{"see", std::string("\1\0\0\0\0\0\0\0", 8)}}));
  EXPECT_THAT(opening(), is_error(unsupported, {at("index.json"), "\"b\" is pkl", "run anything"}));
  EXPECT_THAT(opening({.columns = {"d"}}), is_error(not_found, {"no column \"d\"", "\"a\", \"b\", \"c\""}));
  EXPECT_THAT(opening({.columns = {"a", "c", "a"}}),
              is_error(invalid_argument, {"MdsOptions::columns", "\"a\" is named twice"}));
}

TEST_F(Mds, WhatAnIndexAndItsShardsMayNotBeIsNamed) {
  const std::string one = "write({'a': 'int'}, [[dict(a=1)]])\n";
  std::vector<Refused> cases = {
      Refused("write({'a': 'ndarray:int8'}, [[dict(a=[1, 2]), dict(a=[[1], [2]])]])", unsupported,
              {"shard.00000.mds", "\"a\" has 2 dimensions"}),
      Refused(one + "json.dump(dict(version=3, shards=[]), open('index.json', 'w'))", unsupported,
              {"version 3", "rota knows 2"}),
      Refused("write({'a': 'int'}, [[dict(a=1)], [dict(a=2)]])\nchange(1, version=1)", unsupported,
              {"index.json", "shard 1", "version 1 of MDS", "rota knows 2"}),
      Refused("write({'a': 'int', 'b': 'int'}, [[dict(a=1, b=2)]])\nchange(0, column_names=['a', 'a'])",
              corrupt, {"index.json", "shard 0", "two columns \"a\""}),
      Refused("open('index.json', 'w')", corrupt, {"index.json"}),
      Refused("open('index.json', 'w').write('{')", corrupt, {"index.json"}),
      Refused("json.dump(dict(version=2, shards=[]), open('index.json', 'w'))", not_found,
              {"names no shards"}),
      Refused(one + "open('shard.00000.mds', 'ab').write(b'x')", corrupt,
              {"shard.00000.mds", "index.json says"}),
      Refused(one + "os.remove('shard.00000.mds')", io, {"shard.00000.mds"})};
  // Files outside of the directory are not read.
  for (const auto* name : {"../x", "/etc/passwd", "a/../../x", ""}) {
    cases.push_back(Refused(one + fmt::format("change(0, raw_data=dict(basename='{}', bytes=1))", name),
                            corrupt, {"cannot be"}));
  }
  for (const auto* index :
       {"''", "[]", "dict(version=2)", "dict(version=2, shards=[{}])",
        "dict(version=2, shards=[dict(format=1)])", "dict(version=2, shards=[dict(format='mds')])"}) {
    cases.push_back(
        Refused(fmt::format("json.dump({}, open('index.json', 'w'))", index), corrupt, {"index.json"}));
  }
  expect_refused(cases, [](const fs::path& path) { open_mds(path); });
}

}  // namespace rota::test::mds_test
