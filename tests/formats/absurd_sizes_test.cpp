// Files whose numbers are not to be believed: they are refused by name and place, and take no memory.

#include "allocations.hpp"
#include "formats/python.hpp"
#include "hdf5/hdf5.hpp"

namespace rota::test::absurd_sizes_test {

constexpr std::size_t kMostBytes = 4 << 20;

class AbsurdSizes : public PythonTest {
 protected:
  // The dataset that each of `scripts` makes, after `preamble`, is refused with a message that names `file`,
  // and says `place`.
  void expect_refused(const std::string& format, std::string_view file, const std::string& preamble,
                      const std::vector<std::string>& scripts, const std::string& place = "byte ",
                      ErrorCode code = corrupt) {
    preamble_ = preamble;
    const auto directories = write_each(scripts);
    for (std::size_t i = 0; i < scripts.size(); ++i) {
      watch_memory();
      const auto error = error_of([&] {
        const auto source = open(directories[i], format);
        Samples(*source, ids({source->size() - 1}));
      });
      const auto memory = watched_memory();
      EXPECT_THAT(error, is_error(code, {directories[i] / file, place})) << scripts[i];
      EXPECT_LT(memory.most, kMostBytes) << scripts[i];
      EXPECT_LT(memory.largest, kMostBytes) << scripts[i];
    }
  }
};

constexpr const char* kTar = R"(
import tarfile
def write(size, kind=tarfile.REGTYPE, data=b'x' * 512, rest=b'', **more):
    info = tarfile.TarInfo('0.a')
    info.size, info.type = size, kind
    open('a.tar', 'wb').write(info.tobuf(tarfile.GNU_FORMAT) + data + rest + bytes(1024))
def pax(record):
    file = tarfile.TarInfo('0.a').tobuf(tarfile.GNU_FORMAT)
    write(len(record), tarfile.XHDTYPE, record.ljust(512, b'\0'), file)
)";

TEST_F(AbsurdSizes, OfMembersOfTar) {
  expect_refused("tar", "a.tar", kTar,
                 {"write((1 << 33) - 1)", "write(1 << 62)", "write(-1)", "write(-(1 << 60))",
                  "write((1 << 33) - 1, tarfile.GNUTYPE_LONGNAME)", "write((1 << 33) - 1, tarfile.XHDTYPE)",
                  "write(1 << 62, tarfile.XHDTYPE)", "pax(b'32 size=9999999999999999999999\\n')",
                  "pax(b'999999999999 path=x\\n')", "pax(b'17 size=99999999\\n')",
                  // Records of another length than they say, or of none.
                  "pax(b'31 path=a.x\\n')", "pax(b'x path=a.x\\n')", "pax(b'12 path=a.xx')"});
}

// The checksums of which are right.
TEST_F(AbsurdSizes, OfTfRecords) {
  expect_refused("tfrecord", "a.tfrecord", R"(
from writers import masked_crc32c as masked
def write(length):
    head = struct.pack('<Q', length)
    open('a.tfrecord', 'wb').write(head + masked(head) + bytes(100))
)",
                 {"write(97)", "write(1 << 32)", "write(1 << 62)", "write(1 << 63)", "write((1 << 64) - 1)",
                  "write((1 << 64) - 4)", "write((1 << 64) - 16)"});
}

constexpr const char* kNpz = R"(
import io, zipfile, numpy as np
def write(change, packed=zipfile.ZIP_STORED, header='(3, 2)'):
    array = io.BytesIO()
    np.save(array, np.zeros((3, 2)))
    data = array.getvalue().replace(b'(3, 2), }'.ljust(40), (header + ', }').encode().ljust(40))
    with zipfile.ZipFile('a.npz', 'w', packed) as out:
        out.writestr('x.npy', data)
        change(out.filelist[0])
def sizes(stored, bytes):
    def change(member):
        member.compress_size, member.file_size = stored, bytes
    return change
def place(offset):
    def change(member):
        member.header_offset = offset
    return change
)";

TEST_F(AbsurdSizes, OfMembersOfNpz) {
  expect_refused(
      "npz", "a.npz", kNpz,
      {"write(sizes(1 << 31, 1 << 31))", "write(sizes(1 << 62, 1 << 62))", "write(sizes(100, 1 << 40))",
       "write(sizes((1 << 64) - 1, (1 << 64) - 1))", "write(sizes(60, 1 << 40), zipfile.ZIP_DEFLATED)",
       "write(sizes(1 << 40, 176), zipfile.ZIP_DEFLATED)", "write(place(1 << 31))", "write(place(1 << 62))",
       "write(lambda member: None, header='(999999999999,)')",
       "write(lambda member: None, header='(4611686018427387904, 4)')",
       "write(lambda member: None, zipfile.ZIP_DEFLATED, '(999999999999,)')"});
}

TEST_F(AbsurdSizes, OfHeadersOfNpy) {
  expect_refused("npy", "a.npy", R"(
def write(length, text=b"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }"):
    open('a.npy', 'wb').write(b'\x93NUMPY\2\0' + struct.pack('<I', length) + text.ljust(116) + bytes(24))
def shape(text):
    write(116, b"{'descr': '<f8', 'fortran_order': False, 'shape': " + text + b', }')
)",
                 {"write((1 << 32) - 1)", "write(1 << 31)", "write(141)", "write(0)", "write(60000)",
                  "shape(b'(1 2,)')", "shape(b'(1L2,)')", "shape(b'(99999999999, 2)')",
                  "shape(b'(9223372036854775807, 2)')", "shape(b'(0, 9223372036854775807, 9)')",
                  "write(60050, b\"{'descr': '<f8', 'fortran_order': False, 'shape': \" + b'(' * 60000)"});
}

constexpr const char* kMegatron = R"(
def write(sequences=1, length=5, place=0, entries=2, first=0, last=1):
    open('a.bin', 'wb').write(bytes(10))
    open('a.idx', 'wb').write(b'MMIDIDX\0\0' + struct.pack('<QBQQ', 1, 8, sequences, entries) +
                              struct.pack('<iqqq', length, place, first, last))
)";

TEST_F(AbsurdSizes, OfIndicesOfMegatron) {
  expect_refused("megatron", "a.idx", kMegatron,
                 {"write(1 << 32)", "write(1 << 61)", "write((1 << 64) - 1)", "write(length=6)",
                  "write(length=(1 << 31) - 1)", "write(length=-1)", "write(length=-(1 << 31))",
                  "write(place=1)", "write(place=(1 << 63) - 1)", "write(place=(1 << 63) - 8)"});
  expect_refused("megatron", "a.idx", kMegatron,
                 {"write(place=-1)", "write(place=-(1 << 63))", "write(entries=3)", "write(entries=1 << 32)",
                  "write(entries=1 << 61)", "write(entries=(1 << 64) - 1)", "write(first=-(1 << 63))",
                  "write(last=1 << 31)", "write(last=(1 << 63) - 1)", "write(last=-(1 << 63))"});
}

constexpr const char* kMds = R"(
import json
def write(samples=1, told=None, offsets=None, size=1, column=None, encoding='str', data=b'x', **raw):
    begin = 12
    body = struct.pack('<I', size) + data
    offsets = offsets or (begin, begin + len(body))
    shard = struct.pack('<III', samples, *offsets) + body
    open('a.mds', 'wb').write(shard)
    json.dump({'version': 2, 'shards': [{
        'format': 'mds', 'version': 2, 'column_names': ['x'], 'column_encodings': [encoding], 'column_sizes': [column],
        'samples': samples if told is None else told, 'zip_data': None,
        'raw_data': {'basename': 'a.mds', 'bytes': len(shard), **raw}}]}, open('index.json', 'w'))
)";

TEST_F(AbsurdSizes, OfShardsOfMds) {
  expect_refused(
      "mds", "a.mds", kMds,
      {"write((1 << 32) - 1)", "write(1 << 31)", "write(told=1 << 62)", "write(0, told=1)",
       "write(offsets=(12, (1 << 32) - 1))", "write(offsets=((1 << 32) - 2, (1 << 32) - 1))",
       "write(offsets=(17, 12))", "write(size=(1 << 32) - 1)", "write(size=2)", "write(bytes=1 << 62)",
       "write(bytes=-1)", "write(size=9, encoding='ndarray:uint8', data=b'\\x07' + b'\\xff' * 8)",
       "write(size=1, encoding='ndarray:uint8', data=b'\\x07')"},
      "");
}

TEST_F(AbsurdSizes, OfIndicesOfMds) {
  expect_refused(
      "mds", "index.json", kMds,
      {"write(told=-1)", "write(told='many')", "write(encoding='int', column=1 << 31)",
       "write(encoding='int', column=(1 << 32) + 8)", "write(encoding='ndarray:uint8:65536,65536', column=8)",
       "write(encoding='ndarray:uint8:4294967295', column=8)",
       "write(); open('index.json', 'w').write('[' * 20000)"},
      "");
}

constexpr const char* kHdf5 = R"(
import h5py, numpy as np
def write(**more):
    with h5py.File('a.h5', 'w') as out:
        out.create_dataset('x', data=np.arange(6151, dtype='i8'), **more)
def patch(old, new, form='<Q'):
    data = open('a.h5', 'rb').read()
    assert struct.pack(form, old) in data
    open('a.h5', 'wb').write(data.replace(struct.pack(form, old), struct.pack(form, new)))
def stored_bytes():
    with h5py.File('a.h5') as file:
        return file['x'].id.get_chunk_info(0).size
def compact():
    with h5py.File('a.h5', 'w') as out:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((6151,))
        data = h5py.h5d.create(out.id, b'x', h5py.h5t.NATIVE_INT64, space, properties)
        data.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(6151, dtype='i8'))
)";

TEST_F(AbsurdSizes, OfDatasetsOfHdf5) {
  constexpr bool kOpensNone = H5_VERSION_GE(1, 14, 0);  // such an HDF5 looks at what is not in chunks itself
  expect_refused(
      "hdf5", "a.h5", kHdf5,
      {"write(); patch(6151, 1 << 40)", "write(); patch(6151, 1 << 62)", "write(); patch(6151, 1 << 60)",
       "write(); patch(6151, 6152)", "compact(); patch(6151, 1 << 40)"},
      kOpensNone ? "or it is damaged" : "", kOpensNone ? unsupported : corrupt);
  expect_refused(
      "hdf5", "a.h5", kHdf5,
      {// Chunks: their size, how many there are, and how many bytes each has.
       "write(chunks=(877,), compression='gzip'); patch(877, (1 << 29) - 1, '<I')",
       "write(chunks=(877,)); patch(877 * 8, (1 << 32) - 1, '<I')",
       "write(chunks=(877,)); patch(6151, 1 << 50)",
       "write(chunks=(877,), maxshape=(None,)); patch(6151, 1 << 50)",
       "write(chunks=(877,), compression='gzip'); patch(stored_bytes(), (1 << 32) - 1, '<I')",
       // Offsets of a ragged field.
       "write(); h5py.File('a.h5', 'a').create_dataset('x_offsets', (1 << 40,), 'i8', chunks=(1024,))"},
      "");
}

// It is all fill value, and takes no room in the file.
TEST_F(AbsurdSizes, AreNoneInAnHdf5DatasetThatWasNeverWritten) {
  const auto source =
      open(h5py(directory_, "a.h5", "f.create_dataset('x', (1 << 40,), 'i8', chunks=(1024,), fillvalue=7)"),
           "hdf5");
  ASSERT_EQ(source->size(), std::int64_t{1} << 40);
  EXPECT_EQ(Samples(*source, ids({source->size() - 1})).values<std::int64_t>(0, 0)[0], 7);
}

}  // namespace rota::test::absurd_sizes_test
