// A file that was cut short, by a copy that was broken off or a full disk, is damage, whatever its format and
// wherever the cut is. Where a format cannot tell, the samples before the cut are left, and no others.

#include "formats/python.hpp"

namespace rota::test::cut_files_test {

// What a cut may leave where it is no error.
enum class Left {
  all,      // the cut is behind the end of what counts
  samples,  // the first samples
  fields,   // those, and a last one that lacks some fields
  line,     // those, and a last one that is cut short
};

struct Case {
  const char* name;
  std::string file;  // that is cut
  std::string preamble;
  std::string script;  // makes the dataset
  Left left = Left::all;
  // Not as what it is found to be.
  std::function<std::shared_ptr<const Source>(const Catalog&)> open = [](const Catalog& catalog) {
    return rota::open(catalog);
  };
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

class CutFiles : public PythonTest, public WithParamInterface<Case> {
 protected:
  Contents read() const {
    return contents(*GetParam().open(Catalog(directory_.path(), {.indexing_threads = 1})));
  }
};

TEST_P(CutFiles, AtAnyByteAreDamageOrLeaveWholeSamples) {
  write("import gzip\n" + GetParam().preamble + GetParam().script);
  const fs::path path = directory_ / GetParam().file;
  const Contents whole = read();
  ASSERT_GE(whole.size(), 3U);
  const bool has_places = path.extension() != ".h5" && path.extension() != ".json";
  int refused = 0;
  for (auto bytes = fs::file_size(path); bytes-- > 0;) {
    fs::resize_file(path, bytes);
    Contents left;
    const auto error = error_of([&] { left = read(); });
    if (!error) {
      ASSERT_TRUE(may_be_left(left, whole, GetParam().left)) << bytes << " leave " << left.size();
      continue;
    }
    const bool has_no_field = GetParam().left == Left::fields && error->code() == invalid_argument;
    if (!has_no_field)
      ASSERT_THAT(error, is_error(corrupt, {path.string(), has_places ? "byte" : ""})) << bytes;
    ++refused;
  }
  EXPECT_EQ(refused > 0, GetParam().left != Left::line);
}

// The first sample has a field of no bytes, the last has one that ends with a block, and some names take a
// head of their own.
constexpr const char* kTar = R"(
import tarfile
from writers import write_tar, zstd
def tar(name, pack=lambda data: data, format=tarfile.GNU_FORMAT):
    write_tar('tar', [('0.a', b''), ('0.b', b'zero'), ('1' * 120 + '.a', b'1' * 600), ('2.a', b'2' * 512)], format)
    data = open('tar', 'rb').read().rstrip(b'\0') + bytes(1536)
    os.remove('tar')
    open(name, 'wb').write(pack(data))
)";

constexpr const char* kLines = R"(
from writers import zstd
def lines(name, pack=lambda data: data):
    open(name, 'wb').write(pack(b'{"text": "one"}\n\n{"text": "two"}\r\n{"text": "three"}'))
)";

constexpr const char* kHdf5 = R"(
import h5py, numpy as np
with h5py.File('a.h5', 'w', libver='latest') as out:
    out['x'] = np.arange(10.0).reshape(5, 2)
    out.create_dataset('y', data=np.arange(15).reshape(5, 3), chunks=(2, 3), compression='gzip')
    out['text'] = np.arange(7, dtype='u1')
    out['text_offsets'] = [0, 1, 1, 4, 7, 7]
)";

constexpr const char* kNumpy = R"(
import numpy as np
def npz(save):
    for name in 'abc':
        save(name + '.npz', x=np.arange(30.0).reshape(10, 3), y=np.arange(10))
def npy():
    for name in 'abc':
        np.save(name + '.npy', np.arange(12.0).reshape(4, 3))
)";

constexpr const char* kWriters = "import numpy as np\nfrom writers import *\n";
constexpr const char* kMegatron = "write_megatron('a', 'uint16', 8, [[5, 2], [], [3], [0, 4]])";
constexpr const char* kMds =
    "write_mds({'n': 'int', 'text': 'str', 'x': 'ndarray:uint16'},"
    "      [[dict(n=i, text='text' * i, x=np.arange(i + 1)) for i in range(4)]])\n";

std::vector<Case> cases() {
  const auto as = [](auto format) {
    return [format](const Catalog& catalog) { return open(catalog, format); };
  };
  const auto without_end = as(TarOptions{.fields = {"a", "b"}, .allow_missing_end = true});
  const auto of_fields = as(TarOptions{.fields = {"a", "b"}});
  const auto sequences = as(MegatronOptions{.sequence_is_sample = true});
  return {{"tar_of_gnu", "a.tar", kTar, "tar('a.tar')"},
          {"tar_without_end", "a.tar", kTar, "tar('a.tar')", Left::fields, without_end},
          {"tar_of_pax_without_end", "a.tar", kTar, "tar('a.tar', format=tarfile.PAX_FORMAT)", Left::fields,
           without_end},
          {"tar_gz", "a.tar.gz", kTar, "tar('a.tar.gz', gzip.compress)"},
          {"tgz_of_fields", "a.tgz", kTar, "tar('a.tgz', gzip.compress)", Left::all, of_fields},
          {"tar_zst", "a.tar.zst", kTar, "tar('a.tar.zst', zstd)"},
          {"tar_zst_without_end", "a.tar.zst", kTar, "tar('a.tar.zst', zstd)", Left::all, without_end},
          {"lines", "a.jsonl", kLines, "lines('a.jsonl')", Left::line},
          {"lines_gz", "a.jsonl.gz", kLines, "lines('a.jsonl.gz', gzip.compress)"},
          {"lines_zst", "a.jsonl.zst", kLines, "lines('a.jsonl.zst', zstd)"},
          {"text_zstd", "a.txt.zstd", kLines, "lines('a.txt.zstd', zstd)", Left::all, as("lines")},
          {"tfrecord", "a.tfrecord", kWriters,
           "write_tfrecord('a.tfrecord', [b'first', b'', b'third' * 20, b'4'])", Left::samples},
          {"hdf5", "a.h5", kHdf5, ""},
          {"npy", "b.npy", kNumpy, "npy()"},
          {"npy_files", "b.npy", kNumpy, "npy()", Left::all, as(NpyOptions{.file_is_sample = true})},
          {"npz", "b.npz", kNumpy, "npz(np.savez)", Left::all, as("npz")},
          {"npz_deflated", "b.npz", kNumpy, "npz(np.savez_compressed)", Left::all, as("npz")},
          {"npz_rows", "b.npz", kNumpy, "npz(np.savez)", Left::all, as(NpzOptions{.rows = true})},
          {"tokens", "a.bin", "", "open('a.bin', 'wb').write(bytes(range(60)))", Left::samples,
           as(TokensOptions{.length = 5, .stride = 3})},
          {"megatron_idx", "a.idx", kWriters, kMegatron, Left::all, as("megatron")},
          {"megatron_bin", "a.bin", kWriters, kMegatron, Left::all, as("megatron")},
          {"megatron_sequences_idx", "a.idx", kWriters, kMegatron, Left::all, sequences},
          {"megatron_sequences_bin", "a.bin", kWriters, kMegatron, Left::all, sequences},
          {"mds", "shard.00000.mds", kWriters, kMds},
          {"mds_index", "index.json", kWriters, kMds},
          {"mds_zstd", "shard.00000.mds.zstd", kWriters, std::string(kMds) + "pack([0])"}};
}
INSTANTIATE_TEST_SUITE_P(Formats, CutFiles, ValuesIn(cases()),
                         [](const auto& one) { return one.param.name; });

}  // namespace rota::test::cut_files_test
