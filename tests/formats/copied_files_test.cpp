// Plain files that are copied into shared memory once, and read from there.

#include "formats/python.hpp"
#include "source/read_plan.hpp"

namespace rota::test::copied_files_test {

constexpr std::int64_t kFiles = 6;

// Six files of each format, in directories of their names.
constexpr const char* kWriter = R"(
import h5py, json, numpy as np
from writers import write_megatron, write_tar
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
    write_tar(f'tar/{i}.tar', [(f'{i}{k:03}.x', row.tobytes()) for k, row in enumerate(rows)])
    write_megatron(f'megatron/{i}', 'u2', 8, [[7]] * len(rows))
)";

class CopiedFiles : public PythonTest, public WithParamInterface<std::string> {
 protected:
  CopiedFiles() {
    write(kWriter);
    plain_ = open(false);
    shared_ = open(true);
  }
  std::shared_ptr<const Source> open(bool share_files) const {
    const Catalog catalog(directory_ / GetParam(), {.share_files = share_files, .shared_memory_limit = 0});
    if (GetParam() == "tokens") return rota::open(catalog, TokensOptions{.length = 7});
    return rota::open(catalog, GetParam());
  }
  // Each sample of all batches of `loader` is what it is in `source`.
  static void expect_batches(Loader& loader, const Source& source) {
    while (const auto batch = loader.next()) {
      const Samples samples(source, {batch->ids().begin(), batch->ids().end()}, false);
      for (std::size_t f = 0; f < source.fields().size(); ++f) {
        for (std::int64_t i = 0; i < batch->size(); ++i) {
          EXPECT_EQ(text_of(batch->bytes(f, i)), samples.sample(f, static_cast<std::size_t>(i)));
        }
      }
    }
  }

  std::shared_ptr<const Source> plain_;
  std::shared_ptr<const Source> shared_;
};

TEST_P(CopiedFiles, AreReadAsTheFilesAreAndThatOneWasCutShortSinceIsNoticed) {
  EXPECT_EQ(PlannedSource::plan_of(*plain_)->sharing(), Sharing::none);
  EXPECT_EQ(PlannedSource::plan_of(*shared_)->sharing(), Sharing::in_few);
  EXPECT_EQ(contents(*shared_), contents(*plain_));
  EXPECT_EQ(shared_->fingerprint(), plain_->fingerprint());
  EXPECT_GE(PlannedSource::plan_of(*shared_)->counts().files, kFiles);
  for (const auto& entry : fs::directory_iterator(directory_ / GetParam())) fs::resize_file(entry.path(), 50);
  EXPECT_THAT(reading(*shared_, {3}), is_error(corrupt, {"50 bytes now"}));
}

TEST_P(CopiedFiles, AreCopiedOncePerEpochWhateverTheShards) {
  for (const std::int64_t shards : {1, 2, 3, 5, 6}) {
    Loader loader(shared_,
                  {.global_batch_size = 7, .shards = shards, .interleave = 1, .shuffle = Shuffle::within});
    expect_batches(loader, *plain_);
    EXPECT_EQ(loader.stats().fetched_files, kFiles) << shards;
  }
}

TEST_P(CopiedFiles, ReadRowsOfWindowsAndOfJoinedDatasets) {
  for (const Field& field : plain_->fields()) {
    if (field.ragged) return;
  }
  for (const WindowOptions& options :
       {WindowOptions{.length = 5, .stride = 2, .across_files = true},
        WindowOptions{.stride = 2, .across_files = true, .offsets = {-7, 0, 9}, .edges = Edges::clamp},
        WindowOptions{.length = 5, .stride = 2, .across_files = true, .jitter = 4}}) {
    const auto expected = join({windows(plain_, options), windows(plain_, options)});
    const auto joined = join({windows(plain_, options), windows(shared_, options)});
    Loader loader(joined,
                  {.global_batch_size = 16, .shards = 12, .interleave = 2, .shuffle = Shuffle::within});
    expect_batches(loader, *expected);
    EXPECT_GE(loader.stats().fetched_files, kFiles);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CopiedFiles,
                         Values("hdf5", "lines", "npy", "tokens", "tar", "npz", "megatron"),
                         [](const auto& made) { return made.param; });

TEST(CopiedFilesOfOneSample, AreRefused) {
  const TemporaryDirectory directory;
  directory.write("a", "text");
  EXPECT_ERROR(open(Catalog(directory.path(), {.share_files = true}), "files"), unsupported,
               {"share_files", "leave it false"});
}

}  // namespace rota::test::copied_files_test
