// Elements that are no native numbers, as h5py and NumPy write them.

#include "formats/python.hpp"
#include "messages.hpp"
#include "resident_memory.hpp"

namespace rota::test::stored_types_test {

// Arrays of 60 elements of many types, and what each becomes: its fields, sorted by name, each with the bytes
// of a row.
constexpr std::string_view kArrays = R"(
import h5py, numpy as np
random, n = np.random.default_rng(3), 60
words = np.array([['', 'a', 'zwölf €', '😀' * 5][i % 4] + str(i) * (i % 3) for i in range(n)])
record = np.zeros(n, [('b', '>i4'), ('two', 'f8', (2,)), ('s', 'S40'), ('in', [('y', 'u1'), ('z', '>c16', (3,))])])
for name in 'b', 'two': record[name] = random.integers(-99, 99, record[name].shape)
record['s'] = [word.encode() for word in words]
record['in']['y'], record['in']['z'] = np.arange(n), random.random((n, 3)) + 2j
arrays = dict(big=random.integers(-9e8, 9e8, (n, 3)).astype('>i4'), huge=random.random(n).astype('>f8'),
              half=random.random((n, 2)).astype('>f2'), complex=(random.random((n, 2)) + 1j).astype('c8'),
              complex_big=(random.random(n) - 3j).astype('>c16'), bytes=record['s'], record=record,
              opaque=np.frombuffer(random.bytes(5 * n), 'V5'), one=np.arange(n).astype('>u1'))
def native(row):
    return np.ascontiguousarray(row).astype(row.dtype.newbyteorder('=')).tobytes()
def fields_of(name, array):
    if array.dtype.names:
        for member in array.dtype.names: yield from fields_of(name + '.' + member, array[member])
    elif array.dtype.kind == 'S': yield name, list(array)
    elif array.dtype.kind in 'UO': yield name, [text.encode() for text in array]
    else: yield name, [native(row) for row in array]
def tell_rows(name, array):
    columns = [column for _, column in fields_of(name, array)]
    tell(*(column[i] for i in range(n) for column in columns))
)";

class StoredTypes : public PythonTest {
 protected:
  StoredTypes() : PythonTest(std::string(kArrays)) {}
};
using StoredNpy = StoredTypes;
using StoredHdf5 = StoredTypes;

TEST_F(StoredNpy, IsReadAsNativeNumbersMembersAndText) {
  const auto told = write(R"(
arrays.update(text=words, text_big=words.astype('>U60'), days=np.arange(n).astype('M8[D]'),
              seconds=np.arange(n).astype('>m8[s]'), named=np.zeros(n, [(('A title', 'Time L'), 'f4'), ('F', 'u2')]),
              aligned=np.zeros(n, np.dtype('u1,f8', align=True)))
tell(*(name.encode() for name in sorted(arrays)))
for name in sorted(arrays):
    np.save(name, arrays[name])
    tell_rows('data', arrays[name])
)");
  const std::map<std::string, std::vector<Field>> expected = {
      {"big", {{"data", DType::int32, {3}}}},
      {"huge", {{"data", DType::float64}}},
      {"half", {{"data", DType::float16, {2}}}},
      {"complex", {{"data", DType::float32, {2, 2}}}},
      {"complex_big", {{"data", DType::float64, {2}}}},
      {"bytes", {{"data", DType::uint8, {}, true}}},
      {"text", {{"data", DType::uint8, {}, true}}},
      {"text_big", {{"data", DType::uint8, {}, true}}},
      {"opaque", {{"data", DType::uint8, {5}}}},
      {"one", {{"data", DType::uint8}}},
      {"days", {{"data", DType::int64}}},
      {"seconds", {{"data", DType::int64}}},
      {"named", {{"data.Time L", DType::float32}, {"data.F", DType::uint16}}},
      {"aligned", {{"data.f0", DType::uint8}, {"data.f1", DType::float64}}},
      {"record",
       {{"data.b", DType::int32},
        {"data.two", DType::float64, {2}},
        {"data.s", DType::uint8, {}, true},
        {"data.in.y", DType::uint8},
        {"data.in.z", DType::float64, {3, 2}}}}};
  std::size_t at = expected.size();
  for (const auto& [name, fields] : expected) {
    SCOPED_TRACE(name);
    ASSERT_THAT(std::span(told).first(expected.size()), Contains(name));
    const auto source = open(directory_ / (name + ".npy"), "npy");
    EXPECT_EQ(source->fields(), fields);
    const auto begin = told.begin() + static_cast<std::ptrdiff_t>(at);
    expect_samples(*source, {begin, begin + static_cast<std::ptrdiff_t>(60 * fields.size())});
    at += 60 * fields.size();
  }
}

TEST_F(StoredNpy, IsRefusedWhereOneSampleHasSeveralTexts) {
  write(
      "np.save('a', words.reshape(20, 3))\nnp.savez('b', x=words, y=np.float32(1))\nnp.savez('c', "
      "x=words[2])");
  EXPECT_ERROR(open(directory_ / "a.npy", "npy"), unsupported, {"\"data\"", "several texts"});
  EXPECT_ERROR(open(directory_ / "b.npz", "npz"), unsupported, {"\"x\"", "several texts"});
  expect_samples(*open(directory_ / "c.npz", "npz"), {"zwölf €22"});
}

TEST_F(StoredNpy, HasOneTextInARowOfOne) {
  const auto told = write(R"(
np.save('a', words.reshape(-1, 1))
np.save('b', np.array([(i, [words[i].encode()]) for i in range(n)], [('i', 'i4'), ('t', 'S40', (1,))]))
tell(*(word.encode() for word in words))
)");
  expect_samples(*open(directory_ / "a.npy", "npy"), told);
  const auto members = open(directory_ / "b.npy", "npy");
  EXPECT_EQ(members->fields()[1], (Field{"data.t", DType::uint8, {}, true}));
  EXPECT_EQ(contents(*members)[7][1], told[7]);
}

TEST_F(StoredNpy, IsRefusedAsAnElementThatCannotBe) {
  for (const auto* descr :
       {"[('a', '<f4', (4294967296, 4294967296))]", "[('a', '|V2000000000'), ('b', '|V2000000000')]",
        "'|V99999999999'", "[('a', '|V1004'), ('', '|V1', (4611686018427387654, 4))]",
        "[('a', '<f4'), ('b', '|S0')]", "[('a', '<f4'), ('b', '<f4', (0,))]", "'|S0'", "[]", "[('a',)]",
        "[('', '|V4')]", "'<f3'", "'<f16'", "'<b2'", "'<f4x'", "'<f4[ns]'"}) {
    directory_.write("a.npy", python(directory_, fmt::format(R"(
import struct
head = "{{'descr': {}, 'fortran_order': False, 'shape': (1,)}}".encode()
tell(b'\x93NUMPY\x01\0' + struct.pack('<H', len(head)) + head + bytes(100))
)",
                                                             descr))[0]);
    EXPECT_ERROR(open(directory_ / "a.npy", "npy"), unsupported, {"elements of type"}) << descr;
  }
}

TEST_F(StoredNpy, IsNotCalledDamagedForAHeaderThatIsTooLong) {
  write("np.save('a', np.zeros(1, [(f'{i:060}', 'u1') for i in range(1000)]))\n");
  EXPECT_ERROR(open(directory_ / "a.npy", "npy"), unsupported, {"an NPY header of", "65536", "fewer fields"});
}

// Of Latin-1 in versions before 3, as Python writes it in quotes.
TEST_F(StoredNpy, HasMembersOfAnyName) {
  write(R"(
names = ['é', 'both\'"', 'a\x01b', 'T F L', '(x)', 'back\\slash']
np.save('a', np.zeros(2, [(name, 'u1') for name in names]))
np.save('b', np.zeros(2, [(name, 'u1') for name in names + ['漢']]))
)");
  EXPECT_THAT(field_names(*open(directory_ / "a.npy", "npy")),
              ElementsAre("data.é", "data.both'\"",
                          "data.a\x01"
                          "b",
                          "data.T F L", "data.(x)", "data.back\\slash"));
  EXPECT_THAT(field_names(*open(directory_ / "b.npy", "npy")), Contains("data.漢"));
}

TEST_F(StoredNpy, IsAnotherDatasetWhereMembersAreOthers) {
  write("np.save('a', np.zeros(3, 'i4,f4'))\nos.mkdir('x')\nnp.save('x/a', np.zeros(3, 'f4,i4'))");
  EXPECT_NE(open(directory_ / "a.npy", "npy")->fingerprint(),
            open(directory_ / "x/a.npy", "npy")->fingerprint());
}

TEST_F(StoredNpy, OfMoreSamplesThanThereMayBeIsDamage) {
  const std::string empty = python(directory_, R"(
import struct
head = b"{'descr': '|u1', 'fortran_order': False, 'shape': (4611686018427387903, 0)}"
tell(b'\x93NUMPY\x01\0' + struct.pack('<H', len(head)) + head)
)")[0];
  for (const auto* name : {"a.npy", "b.npy"}) directory_.write(name, empty);
  EXPECT_EQ(open(directory_ / "a.npy", "npy")->size(), 4611686018427387903);
  EXPECT_ERROR(open(directory_.path(), "npy"), corrupt, {"2^62 samples"});
}

// Contiguous, in chunks that are cut at a row's edge, and in others.
TEST_F(StoredHdf5, IsReadAsNativeNumbersMembersAndText) {
  const auto told = write(R"(
text = h5py.string_dtype()
long = np.zeros(n, [('u', 'i2'), ('t', text), ('in', [('t', text), ('x', '>f4')]), ('w', 'u1')])
for i in range(n): long[i] = i, words[i] * (i % 5), (words[-i], i / 2), i
sequences = [random.random(i * 37 % 1200).astype('>f4') for i in range(n)]
blank = h5py.h5t.C_S1.copy()
blank.set_size(50); blank.set_strpad(h5py.h5t.STR_SPACEPAD)
arrays.update(long=long, enum=np.arange(n) % 2)
for form, options in dict(plain={}, rows=dict(chunks=True, compression='gzip', shuffle=True), odd=dict(cut=True)).items():
    with h5py.File(form + '.h5', 'w') as f:
        def create(name, array, **more):
            used = dict(options, **more)
            if used.pop('cut', False): used['chunks'] = (7, *(2 for _ in array.shape[1:]))
            return f.create_dataset(name, data=array, **used)
        for name, array in arrays.items():
            if name != 'enum': create(name, array)
        create('enum', arrays['enum'], dtype=h5py.enum_dtype({'A': 0, 'B': 1}, '>i2'))
        create('text', words.astype(object), dtype=text)
        rows = f.create_dataset('rows', (n,), h5py.vlen_dtype(np.dtype('>f4')), **({} if form == 'odd' else options))
        for i in range(n): rows[i] = sequences[i]
        names = list(f)
        space = h5py.h5s.create_simple((n,))
        blanks = h5py.h5d.create(f.id, b'zblank', blank, space)
        blanks.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([w.encode().ljust(50) for w in words]), mtype=blank)
arrays.update(enum=arrays['enum'].astype('i2'), text=words.astype(object))
columns = []
for name in names + ['zblank']:
    if name == 'rows': columns.append([native(row) for row in sequences])
    elif name == 'zblank': columns.append([word.encode() for word in words])
    else: columns += [column for _, column in fields_of(name, arrays[name])]
tell(','.join(names + ['zblank']).encode(), *(column[i] for i in range(n) for column in columns))
)");
  std::vector<std::string> names;
  for (std::string_view rest = told[0]; !rest.empty();) {
    names.emplace_back(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), names.back().size() + 1));
  }
  for (const auto* form : {"plain.h5", "rows.h5", "odd.h5"}) {
    SCOPED_TRACE(form);
    const auto source = open(directory_ / form, Hdf5Options{.datasets = names});
    EXPECT_THAT(
        source->fields(),
        IsSupersetOf({Field{"complex", DType::float32, {2, 2}}, Field{"enum", DType::int16},
                      Field{"rows", DType::float32, {}, true}, Field{"long.in.t", DType::uint8, {}, true},
                      Field{"long.w", DType::uint8}, Field{"record.in.z", DType::float64, {3, 2}}}));
    expect_samples(*source, {told.begin() + 1, told.end()});
  }
}

// Which would make no batches beside numbers; it is said, so that nobody misses it in silence.
TEST_F(StoredHdf5, IsLeftOutUnlessNamedWhereItIsTextOrHasMembers) {
  const SinkMessages messages;
  const auto path = h5py(directory_, "a.h5", R"(
f['x'] = np.arange(3)
f['g/caption'] = ['a', 'bc', '']
f['table'] = np.zeros(9, 'i4,f4')
f['version'] = 3
f['link'] = h5py.ExternalLink('other.h5', '/y')
)");
  EXPECT_THAT(field_names(*open(path, "hdf5")), ElementsAre("x"));
  EXPECT_THAT(messages.lines,
              ElementsAre(AllOf(HasSubstr("left out \"/g/caption\" (text), \"/table\" (compounds), "
                                          "\"/version\" (a scalar), \"/link\" (an "
                                          "external link)"),
                                HasSubstr("the option datasets"))));
  EXPECT_THAT(field_names(*open(path, Hdf5Options{.datasets = {"x", "g/caption"}})),
              ElementsAre("x", "g/caption"));
  const auto alone =
      open(h5py(directory_, "b.h5", "f['t'] = ['a', 'bc', '']\nf['u'] = np.zeros(3, 'u1,u1')"), "hdf5");
  EXPECT_THAT(field_names(*alone), ElementsAre("t", "u.f0", "u.f1"));
  EXPECT_EQ(messages.lines.size(), 1U);
}

TEST_F(StoredHdf5, HasTheFillValueWhereNothingWasWritten) {
  const auto source = open_h5(R"(
x = f.create_dataset('x', (9,), '>i4', chunks=(3,), fillvalue=7)
x[3:6] = [1, 2, 3]
f.create_dataset('y', (9,), '>f8', fillvalue=.5)
f.create_dataset('z', (9,), 'c16', fillvalue=2 + 1j)
)");
  const Samples samples(*source, ids({0, 4}));
  EXPECT_THAT(samples.values<std::int32_t>(0, 0), ElementsAre(7));
  EXPECT_THAT(samples.values<std::int32_t>(0, 1), ElementsAre(2));
  EXPECT_THAT(samples.values<double>(1, 0), ElementsAre(.5));
  EXPECT_THAT(samples.values<double>(2, 1), ElementsAre(2, 1));
  const auto text =
      open(h5py(directory_, "t.h5", "f.create_dataset('t', (5,), h5py.string_dtype())[1] = 'b'"), "hdf5");
  EXPECT_THAT(contents(*text), ElementsAre(ElementsAre(""), ElementsAre("b"), ElementsAre(""), _, _));
}

// It may be meant so, or a writer that crashed: it is counted.
TEST_F(StoredHdf5, WasNeverWrittenIsSaidOnce) {
  const SinkMessages messages;
  const std::string sparse = "f.create_dataset('x', (9, 4), 'f4', chunks=(3, 2))";
  EXPECT_EQ(open(h5py(directory_, "a.h5", sparse + "[3:6, :2] = 1"), "hdf5")->size(), 9);
  EXPECT_THAT(messages.lines, ElementsAre(HasSubstr("5 of 6 chunks were never written")));
  EXPECT_THAT(messages.lines[0], HasSubstr("\"/x\" in " + at("a.h5")));
  EXPECT_EQ(open(h5py(directory_, "b.h5", "f.create_dataset('x', (9,), 'f4')"), "hdf5")->size(), 9);
  EXPECT_THAT(messages.lines, ElementsAre(_, HasSubstr("1 of 1 chunks were never written")));
  (void)open(h5py(directory_, "c.h5",
                  sparse + "[:] = 1\nf.create_dataset('y', (0, 4), maxshape=(None, 4), chunks=(2, 2))", ""),
             Hdf5Options{.datasets = {"x"}});
  (void)open(h5py(directory_, "d.h5", "f.create_dataset('y', (0, 4), maxshape=(None, 4), chunks=(2, 2))"),
             "hdf5");
  EXPECT_EQ(messages.lines.size(), 2U);
}

TEST_F(StoredHdf5, IsDamagedWhereAHeapIsNone) {
  const auto path = h5py(directory_, "a.h5",
                         "f.create_dataset('t', data=['some text', 'more'], dtype=h5py.string_dtype())");
  const std::string bytes = read_file(path);
  const std::size_t heap = bytes.find("GCOL");
  for (const auto& [at, byte] :
       {std::pair{heap, 'X'}, {heap + 15, '\x7f'}, {heap + 16, '\x33'}, {heap + 24, '\2'}}) {
    std::string changed = bytes;
    changed[at] = byte;
    write_file(path, changed);
    EXPECT_THAT(reading(*open(path, "hdf5"), {0, 1}), is_error(corrupt, {path, "text or sequences"}))
        << at - heap;
  }
  write_file(path, bytes);
  EXPECT_THAT(contents(*open(path, "hdf5")), ElementsAre(ElementsAre("some text"), ElementsAre("more")));
}

// Counted from behind the block; addresses of 4 bytes have other references.
TEST_F(StoredHdf5, IsReadBehindAUserBlockAndRefusedOfShortAddresses) {
  const std::string text = "f.create_dataset('t', data=['some text', 'more'], dtype=h5py.string_dtype())";
  EXPECT_THAT(contents(*open(h5py(directory_, "a.h5", text, "userblock_size=1024"), "hdf5")),
              ElementsAre(ElementsAre("some text"), ElementsAre("more")));
  write(R"(
properties = h5py.h5p.create(h5py.h5p.FILE_CREATE)
properties.set_sizes(4, 4)
with h5py.File(h5py.h5f.create(b'b.h5', fcpl=properties)) as f:
    f.create_dataset('t', data=['some text', 'more'], dtype=h5py.string_dtype())
    f['x'] = [1, 2]
)");
  EXPECT_ERROR(open(directory_ / "b.h5", Hdf5Options{.datasets = {"t"}}), unsupported,
               {"\"/t\"", "4 bytes", "rewrite"});
  EXPECT_EQ(open(directory_ / "b.h5", "hdf5")->size(), 2);
}

TEST_F(StoredHdf5, IsRefusedWhereTextThatWasNotWrittenHasAFillValue) {
  const std::string create =
      "t = f.create_dataset('t', (4,), h5py.string_dtype(), chunks=(2,), fillvalue='abc')\n";
  EXPECT_ERROR(open_h5(create), unsupported, {"\"/t\"", "fill value", "write all"});
  EXPECT_ERROR(open_h5(create + "t[0] = 'x'"), unsupported, {"fill value"});
  EXPECT_THAT(contents(*open_h5(create + "t[:] = ['x', '', 'y', 'z']"))[1], ElementsAre(""));
}

TEST_F(StoredHdf5, OfElementsThatTakeMuchMemoryTakesNoneBeforeItIsRead) {
  forget_peak();
  const std::int64_t before = resident("VmHWM");
  EXPECT_EQ(open_h5("f.create_dataset('t', (4,), 'S500000000', chunks=(1,))")->size(), 4);
  EXPECT_LT(resident("VmHWM") - before, 100 << 10);
}

TEST_F(StoredHdf5, IsDamagedWhereASequenceIsLongerThanItsFile) {
  const auto path =
      h5py(directory_, "a.h5",
           "d = f.create_dataset('t', (2,), h5py.vlen_dtype('i8'))\nd[0] = [1, 2, 3]\nd[1] = [4]");
  std::string bytes = read_file(path);
  const std::size_t heap = bytes.find("GCOL");
  std::string reference(16, '\0');
  reference[0] = 3;
  std::memcpy(&reference[4], &heap, sizeof(heap));
  const std::size_t at = bytes.find(reference.substr(0, 12));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 3] = '\x70';
  write_file(path, bytes);
  EXPECT_THAT(reading(*open(path, "hdf5"), {0}), is_error(corrupt, {path, "\"t\" has", "elements in a row"}));
}

TEST_F(StoredHdf5, IsReadInPartsWhereSequencesAreLarge) {
  const auto source = open_h5(
      "d = f.create_dataset('t', (4,), h5py.vlen_dtype('u1'))\n"
      "for i in range(4): d[i] = np.full((24 << 20) + i, i, 'u1')");
  const Samples samples(*source, ids({3, 0, 2, 1}));
  for (std::size_t i = 0; i < 4; ++i) {
    const char value = std::array<char, 4>{3, 0, 2, 1}.at(i);
    const std::string text = samples.sample(0, i);
    EXPECT_EQ(text.size(), (24U << 20U) + static_cast<std::size_t>(value));
    EXPECT_EQ(text.find_first_not_of(value), std::string::npos);
  }
}

TEST_F(StoredHdf5, OfFilesThatStoreItOtherwiseIsRefused) {
  h5py(directory_, "a.h5", "f['x'] = np.arange(3, dtype='<i4')");
  h5py(directory_, "b.h5", "f['x'] = np.arange(3, dtype='>i4')");
  EXPECT_ERROR(open(directory_.path(), "hdf5"), invalid_argument, {at("b.h5"), "stored otherwise"});
}

}  // namespace rota::test::stored_types_test
