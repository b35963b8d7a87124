// Plain files that are copied into shared memory once, and read from there.

#include "formats/python.hpp"
#include "source/node_files.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::copied_files_test {

constexpr std::int64_t kFiles = 6;

// Six files of each format, in directories of their names.
constexpr const char* kWriter = R"(
import h5py, io, json, numpy as np, os, random, struct, tarfile
random.seed(5)
for name in ('hdf5', 'lines', 'npy', 'tokens', 'tar', 'npz', 'megatron'):
    os.mkdir(name)
for i in range(6):
    rows = np.random.default_rng(i).integers(0, 1000, (20 + 3 * i, 7)).astype('u2')
    with h5py.File(f'hdf5/{i}.h5', 'w') as f:
        f.create_dataset('x', data=rows, chunks=(5, 7), compression='gzip')
        f.create_dataset('y', data=rows[:, 0])
    open(f'lines/{i}.jsonl', 'w').writelines(json.dumps(row.tolist()) + '\n' for row in rows)
    np.save(f'npy/{i}.npy', rows)
    np.savez(f'npz/{i}.npz', x=rows)
    rows.tofile(f'tokens/{i}.bin')
    with tarfile.open(f'tar/{i}.tar', 'w') as tar:
        for k, row in enumerate(rows):
            info = tarfile.TarInfo(f'{i}{k:03}.x')
            info.size = row.nbytes
            tar.addfile(info, io.BytesIO(row.tobytes()))
    rows.tofile(f'megatron/{i}.bin')
    with open(f'megatron/{i}.idx', 'wb') as out:
        out.write(b'MMIDIDX\0\0' + struct.pack('<QBQQ', 1, 8, len(rows), len(rows) + 1))
        np.full(len(rows), 7, 'i4').tofile(out)
        (np.arange(len(rows)) * 14).astype('i8').tofile(out)
        np.arange(len(rows) + 1).astype('i8').tofile(out)
)";

class CopiedFiles : public testing::TestWithParam<std::string> {
 protected:
  CopiedFiles() { python(directory_, kWriter); }
  [[nodiscard]] std::shared_ptr<const Source> open(bool share_files) const {
    const Catalog catalog(directory_ / GetParam(), {.share_files = share_files, .shared_memory_limit = 0});
    if (GetParam() == "tokens") return open_tokens(catalog, {.length = 7});
    return rota::open(catalog, GetParam());
  }
  [[nodiscard]] static std::vector<std::string> all(const Source& source, const Ids& ids) {
    const Samples samples(source, ids);
    std::vector<std::string> values;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      for (std::size_t f = 0; f < source.fields().size(); ++f) values.push_back(samples.sample(f, i));
    }
    return values;
  }

  TemporaryDirectory directory_;
};

TEST_P(CopiedFiles, AreReadAsTheFilesAre) {
  const auto plain = open(false);
  const auto shared = open(true);
  EXPECT_EQ(plain->node_files(), nullptr);
  ASSERT_NE(shared->node_files(), nullptr);
  EXPECT_EQ(all(*shared, all_ids(*shared)), all(*plain, all_ids(*plain)));
  EXPECT_EQ(shared->fingerprint(), plain->fingerprint());
  EXPECT_GE(shared->node_files()->fetched().files, kFiles);
}

TEST_P(CopiedFiles, AreCopiedOncePerEpochWhateverTheShards) {
  const auto plain = open(false);
  const auto shared = open(true);
  for (const std::int64_t shards : {1, 2, 3, 5, 6}) {
    Loader loader(shared,
                  {.global_batch_size = 7, .shards = shards, .interleave = 1, .shuffle = Shuffle::within});
    while (const auto batch = loader.next()) {
      const auto expected = all(*plain, {batch->ids().begin(), batch->ids().end()});
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const std::size_t fields = batch->fields().size();
        const auto bytes = batch->bytes(i % fields, static_cast<std::int64_t>(i / fields));
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), expected[i]);
      }
    }
    EXPECT_EQ(loader.stats().fetched.files, kFiles) << shards;
  }
}

TEST_P(CopiedFiles, ReadRowsOfWindowsAndOfJoinedDatasets) {
  const auto plain = open(false);
  const auto shared = open(true);
  for (const Field& field : plain->fields()) {
    if (field.ragged) return;
  }
  const WindowOptions options{.length = 5, .stride = 2, .across_files = true};
  const std::shared_ptr<const Source> expected = join({windows(plain, options), windows(plain, options)});
  const std::shared_ptr<const Source> joined = join({windows(plain, options), windows(shared, options)});
  Loader loader(joined, {.global_batch_size = 16, .shards = 12, .interleave = 2, .shuffle = Shuffle::within});
  while (const auto batch = loader.next()) {
    const Samples samples(*expected, {batch->ids().begin(), batch->ids().end()});
    for (std::int64_t i = 0; i < batch->size(); ++i) {
      const auto bytes = batch->bytes(0, i);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                samples.sample(0, static_cast<std::size_t>(i)));
    }
  }
  EXPECT_GE(loader.stats().fetched.files, kFiles);
}

TEST_P(CopiedFiles, ThatWereCutShortSinceAreNoticed) {
  const auto shared = open(true);
  for (const auto& entry : std::filesystem::directory_iterator(directory_ / GetParam())) {
    std::filesystem::resize_file(entry.path(), 50);
  }
  EXPECT_THAT(error_of([&] { Samples(*shared, ids({3})); }), is_error(ErrorCode::corrupt, {"50 bytes now"}));
}

INSTANTIATE_TEST_SUITE_P(Formats, CopiedFiles,
                         testing::Values("hdf5", "lines", "npy", "tokens", "tar", "npz", "megatron"),
                         [](const auto& made) { return made.param; });

TEST(CopiedFilesOfOneSample, AreRefused) {
  const TemporaryDirectory directory;
  directory.write("a", "text");
  EXPECT_THAT(error_of([&] { open_files(Catalog(directory.path(), {.share_files = true})); }),
              is_error(ErrorCode::unsupported, {"share_files", "leave it false"}));
}

}  // namespace rota::test::copied_files_test
