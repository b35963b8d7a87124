// A file that was cut short, by a copy that was broken off or a full disk, is damage, whatever its format and
// wherever the cut is. Where a format cannot tell, the samples before the cut are left, and no others.

#include "formats/mds_writer.hpp"
#include "formats/megatron_writer.hpp"
#include "formats/python.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::cut_files_test {

// Of each sample, its fields.
using Contents = std::vector<std::vector<std::string>>;

// What a cut may leave where it is no error.
enum class Left {
  all,      // the cut is behind the end of what counts
  samples,  // the first samples
  fields,   // those, and a last one that lacks some fields
  line,     // those, and a last one that is cut short
};

struct Case {
  const char* name;
  std::string file;    // that is cut
  std::string script;  // makes the dataset
  Left left = Left::all;
  std::shared_ptr<const Source> (*open)(const Catalog&) = nullptr;  // not as what it is found to be
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

bool may_be_left(const std::string& part, const std::string& whole, Left left) {
  if (part == whole) return true;
  return left == Left::line ? (whole + '\r').starts_with(part) : left == Left::fields && part.empty();
}

bool may_be_left(const Contents& part, const Contents& whole, Left left) {
  if (part == whole) return true;
  if (left == Left::all || part.size() > whole.size()) return false;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const Left here = i + 1 < part.size() ? Left::all : left;
    for (std::size_t f = 0; f < part[i].size(); ++f) {
      if (!may_be_left(part[i][f], whole[i][f], here)) return false;
    }
  }
  return true;
}

class CutFiles : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { python(directory_, "import gzip, io, subprocess, tarfile\n" + GetParam().script); }

  [[nodiscard]] Contents read() const {
    const Catalog catalog(directory_.path(), {.indexing_threads = 1});
    const auto source = GetParam().open == nullptr ? open(catalog) : GetParam().open(catalog);
    const Samples samples(*source, all_ids(*source), false);
    Contents contents(static_cast<std::size_t>(source->size()));
    for (std::size_t i = 0; i < contents.size(); ++i) {
      for (std::size_t f = 0; f < source->fields().size(); ++f) contents[i].push_back(samples.sample(f, i));
    }
    return contents;
  }

  TemporaryDirectory directory_;
};

TEST_P(CutFiles, AtAnyByteAreDamageOrLeaveWholeSamples) {
  const fs::path path = directory_ / GetParam().file;
  const Contents whole = read();
  ASSERT_GE(whole.size(), 3U);
  int refused = 0;
  for (auto bytes = fs::file_size(path); bytes-- > 0;) {
    fs::resize_file(path, bytes);
    Contents left;
    const auto error = error_of([&] { left = read(); });
    if (!error) {
      ASSERT_TRUE(may_be_left(left, whole, GetParam().left)) << bytes << " leave " << left.size();
      continue;
    }
    ASSERT_THAT(error, is_error(ErrorCode::corrupt, {path.string()})) << bytes;
    ++refused;
  }
  EXPECT_EQ(refused > 0, GetParam().left != Left::line);
}

// The first sample of each tar file has a field of no bytes, the last has one that ends with a block, and
// some names take a head of their own.
constexpr const char* kTar = R"(
def tar(format=tarfile.GNU_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w', format=format) as tar:
        for sample, fields in (('0', [b'', b'zero']), ('1' * 120, [b'1' * 600]), ('2', [b'2' * 512])):
            for extension, data in zip(('a', 'b'), fields):
                info = tarfile.TarInfo(sample + '.' + extension)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return out.getvalue().rstrip(b'\0') + bytes(1536)
def write(name, data):
    open(name, 'wb').write(data)
def zstd(data):
    return subprocess.run(['zstd', '-q'], input=data, stdout=subprocess.PIPE, check=True).stdout
)";

constexpr const char* kLines = R"(
def write(name, pack=lambda data: data):
    open(name, 'wb').write(pack(b'{"text": "one"}\n\n{"text": "two"}\r\n{"text": "three"}'))
def zstd(data):
    return subprocess.run(['zstd', '-q'], input=data, stdout=subprocess.PIPE, check=True).stdout
)";

constexpr const char* kTfRecord = R"(
def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack('<I', ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
with open('a.tfrecord', 'wb') as out:
    for data in (b'first', b'', b'third' * 20, b'4'):
        length = struct.pack('<Q', len(data))
        out.write(length + masked(length) + data + masked(data))
)";

constexpr const char* kHdf5 = R"(
import h5py, numpy as np
with h5py.File('a.h5', 'w', libver='latest') as out:
    out['x'] = np.arange(10.0).reshape(5, 2)
    out.create_dataset('y', data=np.arange(15).reshape(5, 3), chunks=(2, 3), compression='gzip')
    out['text'] = np.arange(7, dtype='u1')
    out['text_offsets'] = [0, 1, 1, 4, 7, 7]
)";

constexpr const char* kNpz = R"(
import numpy as np
def write(save):
    for name in 'abc':
        save(name + '.npz', x=np.arange(30.0).reshape(10, 3), y=np.arange(10))
)";

constexpr const char* kNpy = R"(
import numpy as np
for name in 'abc':
    np.save(name + '.npy', np.arange(12.0).reshape(4, 3))
)";

constexpr const char* kMdsSamples =
    "write({'n': 'int', 'text': 'str', 'x': 'ndarray:uint16'},"
    "      [[dict(n=i, text='text' * i, x=np.arange(i + 1)) for i in range(4)]])\n";

std::shared_ptr<const Source> open_tar_without_end(const Catalog& catalog) {
  return open_tar(catalog, {.fields = {"a", "b"}, .allow_missing_end = true});
}
std::shared_ptr<const Source> open_tar_of_fields(const Catalog& catalog) {
  return open_tar(catalog, {.fields = {"a", "b"}});
}
std::shared_ptr<const Source> open_as_lines(const Catalog& catalog) { return open_lines(catalog); }
std::shared_ptr<const Source> open_arrays(const Catalog& catalog) {
  return open_npy(catalog, {.file_is_sample = true});
}
std::shared_ptr<const Source> open_zips(const Catalog& catalog) { return open_npz(catalog); }
std::shared_ptr<const Source> open_zipped_rows(const Catalog& catalog) {
  return open_npz(catalog, {.rows = true});
}
std::shared_ptr<const Source> open_windows(const Catalog& catalog) {
  return open_tokens(catalog, {.length = 5, .stride = 3});
}
std::shared_ptr<const Source> open_documents(const Catalog& catalog) { return open_megatron(catalog); }
std::shared_ptr<const Source> open_sequences(const Catalog& catalog) {
  return open_megatron(catalog, {.sequence_is_sample = true});
}

std::vector<Case> tar_cases() {
  const std::string tar = kTar;
  return {
      {"tar_of_gnu", "a.tar", tar + "write('a.tar', tar())"},
      {"tar_without_end", "a.tar", tar + "write('a.tar', tar())", Left::fields, open_tar_without_end},
      {"tar_of_pax_without_end", "a.tar", tar + "write('a.tar', tar(tarfile.PAX_FORMAT))", Left::fields,
       open_tar_without_end},
      {"tar_gz", "a.tar.gz", tar + "write('a.tar.gz', gzip.compress(tar()))"},
      {"tgz_of_fields", "a.tgz", tar + "write('a.tgz', gzip.compress(tar()))", Left::all, open_tar_of_fields},
      {"tar_zst", "a.tar.zst", tar + "write('a.tar.zst', zstd(tar()))"},
      {"tar_zst_without_end", "a.tar.zst", tar + "write('a.tar.zst', zstd(tar()))", Left::all,
       open_tar_without_end},
  };
}

std::vector<Case> text_cases() {
  const std::string lines = kLines;
  return {{"lines", "a.jsonl", lines + "write('a.jsonl')", Left::line},
          {"lines_gz", "a.jsonl.gz", lines + "write('a.jsonl.gz', gzip.compress)"},
          {"lines_zst", "a.jsonl.zst", lines + "write('a.jsonl.zst', zstd)"},
          {"text_zstd", "a.txt.zstd", lines + "write('a.txt.zstd', zstd)", Left::all, open_as_lines},
          {"tfrecord", "a.tfrecord", kTfRecord, Left::samples}};
}

std::vector<Case> array_cases() {
  return {{"hdf5", "a.h5", kHdf5},
          {"npy", "b.npy", kNpy},
          {"npy_files", "b.npy", kNpy, Left::all, open_arrays},
          {"npz", "b.npz", std::string(kNpz) + "write(np.savez)", Left::all, open_zips},
          {"npz_deflated", "b.npz", std::string(kNpz) + "write(np.savez_compressed)", Left::all, open_zips},
          {"npz_rows", "b.npz", std::string(kNpz) + "write(np.savez)", Left::all, open_zipped_rows}};
}

std::vector<Case> token_cases() {
  const std::string megatron =
      std::string(kMegatronWriter) + "write('a', 'uint16', 8, [[5, 2], [], [3], [0, 4]])";
  const std::string mds = std::string(kMdsWriter) + kMdsSamples;
  return {{"tokens", "a.bin", "open('a.bin', 'wb').write(bytes(range(60)))", Left::samples, open_windows},
          {"megatron_idx", "a.idx", megatron, Left::all, open_documents},
          {"megatron_bin", "a.bin", megatron, Left::all, open_documents},
          {"megatron_sequences_idx", "a.idx", megatron, Left::all, open_sequences},
          {"megatron_sequences_bin", "a.bin", megatron, Left::all, open_sequences},
          {"mds", "shard.00000.mds", mds},
          {"mds_index", "index.json", mds},
          {"mds_zstd", "shard.00000.mds.zstd", mds + "pack([0])"}};
}

INSTANTIATE_TEST_SUITE_P(Tar, CutFiles, testing::ValuesIn(tar_cases()),
                         [](const auto& one) { return one.param.name; });
INSTANTIATE_TEST_SUITE_P(Text, CutFiles, testing::ValuesIn(text_cases()),
                         [](const auto& one) { return one.param.name; });
INSTANTIATE_TEST_SUITE_P(Arrays, CutFiles, testing::ValuesIn(array_cases()),
                         [](const auto& one) { return one.param.name; });
INSTANTIATE_TEST_SUITE_P(Tokens, CutFiles, testing::ValuesIn(token_cases()),
                         [](const auto& one) { return one.param.name; });

}  // namespace rota::test::cut_files_test
