// Shards as MosaicML's MDSWriter lays them out.

#include "formats/python.hpp"

namespace rota::test::mds_test {

class Mds : public PythonTest {
 protected:
  Mds()
      : PythonTest(
            "import json, subprocess, numpy as np\nfrom writers import change, pack, write_mds as write\n") {}
  auto opening(const MdsOptions& options = {}) const {
    return error_of([&] { open(directory_.path(), options); });
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
  write("write({'a': 'int', 'b': 'x', 'c': 'str'}, [[dict(a=1, b=b'bytes', c='see')]])");
  const auto source = open(directory_.path(), MdsOptions{.columns = {"c", "a"}});
  EXPECT_EQ(contents(*source), (Contents{{"see", std::string("\1\0\0\0\0\0\0\0", 8)}}));
  EXPECT_THAT(opening(), is_error(unsupported, {at("index.json"), "\"b\" is x", "the option columns"}));
  EXPECT_THAT(opening({.columns = {"d"}}), is_error(not_found, {"no column \"d\"", "\"a\", \"b\", \"c\""}));
  EXPECT_THAT(opening({.columns = {"a", "c", "a"}}),
              is_error(invalid_argument, {"the option columns", "\"a\" is named twice"}));
}

// As they are written; of lists, the images and their sizes, behind a zero or, for arrays of images, without.
TEST_F(Mds, PicklesListsAndArraysOfAnyTypeAreBytes) {
  write(R"(
u32 = lambda *numbers: struct.pack(f'<{len(numbers)}I', *numbers)
columns = {'any': 'ndarray', 'array': 'jpeg_array', 'list': 'list[png]', 'old': 'pkl'}
write(columns, [[dict(any=b'\x08\4\2ab', old=b'\x80\4K\1.', list=u32(0, 2, 1, 3) + b'pong', array=u32(1, 2) + b'jj'),
                 dict(any=b'\x08\4\1a', old=b'', list=u32(0, 0), array=u32(0))]])
)");
  const auto source = open(directory_.path());
  EXPECT_THAT(field_names(*source), ElementsAre("any", "array", "array.sizes", "list", "list.sizes", "old"));
  EXPECT_EQ(source->fields()[2], (Field{"array.sizes", DType::uint32, {}, true}));
  const auto numbers = [](std::initializer_list<std::uint32_t> all) {
    return std::string(reinterpret_cast<const char*>(all.begin()), all.size() * sizeof(std::uint32_t));
  };
  EXPECT_EQ(contents(*source),
            (Contents{{"\x08\4\2ab", "jj", numbers({2}), "pong", numbers({1, 3}), "\x80\4K\1."},
                      {"\x08\4\1a", "", "", "", "", ""}}));
  EXPECT_THAT(field_names(*open(directory_.path(), MdsOptions{.columns = {"list"}})),
              ElementsAre("list", "list.sizes"));
}

TEST_F(Mds, AnArrayOfSeveralDimensionsComesWithItsShape) {
  const auto told = write(R"(
arrays = [np.arange(6, dtype='i2').reshape(2, 3), np.arange(600, dtype='i2').reshape(2, 1, 300), np.ones(4, 'i2')]
write({'a': 'ndarray:int16'}, [[dict(a=array) for array in arrays]])
for array, head in zip(arrays, (b'\x08\2\3', b'\x0d\2\0\1\0\x2c\1', b'\4\4')): tell(array.tobytes(), head)
)");
  expect_samples(*open(directory_.path(), MdsOptions{.columns = {"a", "a.shape"}}), told);
  EXPECT_THAT(opening(), is_error(unsupported, {"several dimensions", "\"a.shape\"", "the option columns"}));
}

TEST_F(Mds, AColumnMayBeNamedAsAShapeAndNotAsSizes) {
  write("write({'a': 'ndarray:int8', 'a.shape': 'int'}, [[dict([('a', [1, 2]), ('a.shape', 77)])]])");
  EXPECT_EQ(open(directory_.path(), MdsOptions{.columns = {"a.shape"}})->fields(),
            (std::vector<Field>{{"a.shape", DType::int64}}));
  write("write({'a': 'list[png]', 'a.sizes': 'int'}, [[dict([('a', b'\\0' * 8), ('a.sizes', 7)])]])");
  EXPECT_THAT(opening(), is_error(unsupported, {"\"a.sizes\"", "another one has that name"}));
  EXPECT_FALSE(opening({.columns = {"a.sizes"}}).has_value());
}

TEST_F(Mds, ListsAndShapesThatCannotBeAreDamage) {
  std::vector<Refused> cases;
  for (const auto* value : {"b''", "b'\\1'", "b'\\1\\0\\0\\0'", "b'\\1\\0\\0\\0\\3\\0\\0\\0ab'",
                            "b'\\0\\0\\0\\0\\xff\\xff\\xff\\xff'", "b'\\2\\0\\0\\0' + b'\\xff' * 9"}) {
    cases.push_back(Refused(fmt::format("write({{'a': 'list[jpeg]'}}, [[dict(a={})]])", value), corrupt,
                            {"shard.00000.mds", "\"a\" says"}));
  }
  for (const auto* value :
       {"b''", "b'\\0a'", "b'\\4'", "b'\\7\\xff'", "b'\\x0b' + b'\\xff' * 16 + b'a'", "b'\\4\\2a'"}) {
    cases.push_back(
        Refused(fmt::format("columns = {{'a': 'ndarray:int8'}}\nwrite({{'a': 'bytes'}}, [[dict(a={})]])\n"
                            "change(0, column_encodings=['ndarray:int8'])",
                            value),
                corrupt, {"shard.00000.mds", "\"a\" says"}));
  }
  expect_refused(cases, [](const fs::path& path) { open(path, "mds"); });
}

TEST_F(Mds, InFoldersAreNamedWhereTheirParentIsOpened) {
  write(
      "for split in 'train', 'val':\n    os.mkdir(split), os.chdir(split)\n"
      "    write({'a': 'int'}, [[dict(a=1)]])\n    os.chdir('..')");
  for (const auto& opens :
       {std::function([&] { open(directory_.path()); }), {[&] { open(directory_.path(), "mds"); }}}) {
    EXPECT_ERROR(opens(), invalid_argument, {"folders train, val", at("train")});
  }
  EXPECT_EQ(open(directory_ / "val")->size(), 1);
  write(R"(
merged = []
for split in 'train', 'val':
    for shard in json.load(open(split + '/index.json'))['shards']:
        shard['raw_data']['basename'] = split + '/' + shard['raw_data']['basename']
        merged.append(shard)
json.dump(dict(version=2, shards=merged), open('index.json', 'w'))
)");
  EXPECT_EQ(open(directory_.path())->size(), 2);
  EXPECT_EQ(open(directory_ / "val/index.json")->size(), 1);
  EXPECT_ERROR(open(directory_.write("none/index.json", R"({"version": 2, "shards": []})")), not_found,
               {"names no shards"});
}

TEST_F(Mds, WhatAnIndexAndItsShardsMayNotBeIsNamed) {
  const std::string one = "write({'a': 'int'}, [[dict(a=1)]])\n";
  std::vector<Refused> cases = {
      Refused("write({'a': 'ndarray:int8'}, [[dict(a=[1, 2]), dict(a=[[1], [2]])]])", unsupported,
              {"shard.00000.mds", "\"a\" has several dimensions"}),
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
  expect_refused(cases, [](const fs::path& path) { open(path, "mds"); });
}

}  // namespace rota::test::mds_test
