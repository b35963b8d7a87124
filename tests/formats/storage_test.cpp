// Datasets in a Storage are those of a file system, in every format, and what fails there is named.

#include "files/reads.hpp"
#include "formats/memory_storage.hpp"
#include "formats/python.hpp"
#include "source/read_plan.hpp"

namespace rota::test::storage_test {

using namespace std::string_literals;

CatalogOptions options_of(const std::shared_ptr<MemoryStorage>& storage,
                          Access access = CatalogOptions().access) {
  return {.access = access, .storages = {{"memory", storage}}};
}

/// The datasets of formats/write.py, whose files have odd names.
class EachFormat : public TestWithParam<const char*> {};

TEST_P(EachFormat, IsReadFromAStorageAsFromADirectory) {
  const std::string format = GetParam();
  const TemporaryDirectory directory;
  write_dataset(directory, format);
  const auto storage = std::make_shared<MemoryStorage>();
  storage->copy(directory.path(), "bucket/data");
  storage->copy(directory.path(), "bucket/data-2");  // whose names come between, by their bytes
  const auto here = open(Catalog(directory.path()), format);
  const Catalog catalog("memory://bucket/data", options_of(storage));
  const auto there = open(catalog, format);
  EXPECT_EQ(storage->lists, 1);
  EXPECT_EQ(there->fingerprint(), here->fingerprint());
  EXPECT_EQ(contents(*there), contents(*here));
  EXPECT_EQ(there->where({0}).substr(0, 21), "memory://bucket/data/");
  for (const std::int64_t id : {std::int64_t{-1}, here->size()}) {
    EXPECT_THAT(reading(*here, {id}), is_error(out_of_range, {fmt::format("sample {}", id)}));
  }
  EXPECT_EQ(here->where({here->size()}), "");
  // What Linux can be asked to bring into the page cache.
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < catalog.size(); ++i) bytes += catalog.bytes(i);
  const auto bring = [](const Source& source, SampleRange samples) {
    return PlannedSource::plan_of(source)->bring(samples, true).bytes;
  };
  const std::int64_t near = bring(*here, {0, here->size()});
  EXPECT_EQ(near > bytes / 10, format != "files") << near << " of " << bytes;
  EXPECT_LE(near, bytes);
  EXPECT_EQ(bring(*there, {0, there->size()}), 0);
  if (format != "files") EXPECT_ERROR(bring(*here, {1, here->size() + 1}), out_of_range, {"bring samples"});
  EXPECT_ERROR(bring(*join({here, here}), {2 * here->size(), 2 * here->size() + 1}), out_of_range,
               {"bring samples"});

  for (const Access access : {Access::direct, Access::mapped, Access::automatic}) {
    EXPECT_EQ(contents(*open(Catalog("memory://bucket/data", options_of(storage, access)), format)),
              contents(*here));
  }
}
INSTANTIATE_TEST_SUITE_P(Formats, EachFormat,
                         Values("files", "hdf5", "lines", "mds", "megatron", "npy", "npz", "tar", "tfrecord",
                                "tokens"),
                         [](const auto& one) { return std::string(one.param); });

/// Has no read of a storage end before so many have begun, but for those of one file.
class Together {
 public:
  Together(MemoryStorage& storage, int count, const std::string& but_for = {}) {
    storage.on_read = [this, count, but_for](const StoredBytes& wanted) {
      if (wanted.file->name == but_for) return;
      std::unique_lock lock(mutex_);
      ++reads;
      arrived_.notify_all();
      if (!arrived_.wait_for(lock, 30s, [&] { return reads >= count; }))
        throw Error(io, "nothing else is read meanwhile");
    };
  }
  int reads = 0;

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
};

/// Small files of text, in memory.
class StorageTest : public PythonTest {
 protected:
  StorageTest() {
    for (int i = 0; i < 50; ++i) {
      storage_->files[fmt::format("b/train/{:02}.txt", i)] = {std::string(static_cast<std::size_t>(i), 'x')};
    }
    storage_->files["b/train/"] = {};  // as object stores mark directories
    storage_->files["b/val/0.txt"] = {"one\ntwo\nthree"};
  }
  CatalogOptions options() const { return options_of(storage_); }
  std::shared_ptr<const Source> train() const {
    return open(Catalog("memory://b/train", options()), "files");
  }
  auto opening(const std::string& path) const {
    return error_of([&] { (void)Catalog(path, options()); });
  }
  std::vector<std::string> names(const std::string& path) const {
    const Catalog catalog(path, options());
    std::vector<std::string> all;
    for (std::int64_t i = 0; i < catalog.size(); ++i) all.push_back(catalog.path(i));
    return all;
  }

  std::shared_ptr<MemoryStorage> storage_ = std::make_shared<MemoryStorage>();
};

TEST_F(StorageTest, APathIsAFileADirectoryOrAGlob) {
  EXPECT_EQ(names("memory://b/train").size(), 50U);
  EXPECT_EQ(names("memory://b/train/").size(), 50U);
  EXPECT_EQ(names("memory://b").size(), 51U);
  EXPECT_EQ(names("memory://").size(), 51U);
  EXPECT_THAT(names("memory://b/val/0.txt"), ElementsAre("memory://b/val/0.txt"));
  EXPECT_THAT(names("memory://b/*/0.txt"), ElementsAre("memory://b/val/0.txt"));
  EXPECT_THAT(names("memory://b/train/0[78].t?t"),
              ElementsAre("memory://b/train/07.txt", "memory://b/train/08.txt"));
  EXPECT_EQ(Catalog("memory://b/train", options()).bytes(7), 7);
}

TEST_F(StorageTest, WhatIsNotThereIsSaid) {
  EXPECT_THAT(opening("memory://b/trai"), is_error(not_found, {"memory://b/trai", "no file"}));
  EXPECT_THAT(opening("memory://b/*.txt"), is_error(not_found, {"no file that matches"}));
  EXPECT_THAT(opening("other://b"), is_error(not_found, {"other://b", "the option storages"}));
  storage_->files.erase("b/train/03.txt");
  storage_->files["b/train/00.txt"].version = 2;
  EXPECT_EQ(names("memory://b/train").size(), 49U);
}

TEST_F(StorageTest, OneMayBeForAllOtherSchemes) {
  for (const std::string name : {"a.txt", "b.txt"}) storage_->files["x-1://c/" + name] = {name};
  const CatalogOptions others{.storages = {{"", storage_}}};
  EXPECT_EQ(contents(*open(Catalog("x-1://c/*.txt", others), "files")).size(), 2U);
  EXPECT_EQ(Catalog::from_paths({"x-1://c/b.txt", "x-1://c/a.txt"}, others).path(0), "x-1://c/b.txt");
  EXPECT_ERROR(Catalog("x-2://c", others), not_found, {"x-2://c"});
  EXPECT_NE(stored_path("https://c/x", others.storages).storage, storage_) << "which rota has";
}

TEST_F(StorageTest, OptionsAreChecked) {
  const auto with = [](const std::string& scheme, const std::shared_ptr<const Storage>& storage) {
    return error_of([&] { (void)Catalog("memory://b", {.storages = {{scheme, storage}}}); });
  };
  for (const std::string scheme : {"3d", "Memory", "me mory", "me/mory", "-x"}) {
    EXPECT_THAT(with(scheme, storage_), is_error(invalid_argument, {"storages"})) << scheme;
  }
  EXPECT_THAT(with("memory", nullptr), is_error(invalid_argument, {"storages", "memory"}));
  EXPECT_ERROR(Catalog::from_pattern("memory://b/train/{index:02}.txt", {}, options()), invalid_argument,
               {"memory://b/train", "the option files"});
}

TEST_F(StorageTest, AListingThatIsNotInOrderIsRefused) {
  for (const auto& names : std::vector<std::vector<std::string>>{
           {"a/2", "a/1"}, {"a/1", "a/1"}, {"b/1"}, {"a/1", "ab"}, {"a/1", "a/2", ""}}) {
    storage_->listed = names;
    EXPECT_THAT(opening("memory://a/"),
                is_error(corrupt, {"memory://a/", "\"" + names.back() + "\"", "in order"}));
  }
}

TEST_F(StorageTest, WhatItThrowsIsToldWithThePathAndWhatOthersThrowIsNot) {
  storage_->on_list = [] { throw Error(io, "the wire is cut"); };
  EXPECT_THAT(opening("memory://b/train"), is_error(io, {"list memory://b/train: the wire is cut"}));
  storage_->on_list = nullptr;
  storage_->files["b/train/99\0"s] = {"x"};
  EXPECT_THAT(opening("memory://b/train"), is_error(unsupported, {"memory://b/train", "zero byte"}));
}

TEST_F(StorageTest, AllOfABatchIsAskedForTogether) {
  const auto source = train();
  const std::int64_t finds = storage_->finds;
  const Samples samples(*source, all_ids(*source), false);
  EXPECT_EQ(storage_->reads, 1);
  EXPECT_EQ(storage_->ranges, 49);  // and nothing for the empty one
  EXPECT_EQ(storage_->finds, finds);

  for (int i = 0; i < 200; ++i) storage_->files[fmt::format("many/{:03}.txt", i)] = {fmt::format("{}\n", i)};
  const auto lines = open(Catalog("memory://many", options()), "lines");
  storage_->reads = 0;
  (void)Samples(*lines, all_ids(*lines), false);
  EXPECT_EQ(storage_->reads, 1) << "of many files";
}

TEST_F(StorageTest, EachRangeFailsByItselfAndIsNamed) {
  const auto source = train();
  for (int i = 1; i < 50; ++i) {
    const std::string name = fmt::format("b/train/{:02}.txt", i);
    const bool is_foreign = i % 2 == 0;
    storage_->on_read = [&](const StoredBytes& wanted) {
      if (wanted.file->name != name) return;
      if (is_foreign) throw std::runtime_error("the wire is cut");
      throw Error(io, "the wire is cut");
    };
    EXPECT_ERROR(Samples(*source, all_ids(*source), false), is_foreign ? callback : io,
                 {"memory://" + name, "the wire is cut"});
  }
}

TEST_F(StorageTest, IsNeverAskedForBytesBehindTheEnd) {
  const DatasetFile file("memory://b/train/07.txt", 0, storage_, {"b/train/07.txt", 7, 1});
  std::string to(5, '?');
  const auto memory = std::as_writable_bytes(std::span(to));
  for (const std::uint64_t offset : {3U, 7U, 100U}) {
    EXPECT_ERROR(read_at_once(std::array{WantedBytes{&file, offset, memory}}), corrupt,
                 {"memory://b/train/07.txt", "the file ends here"})
        << offset;
  }
  read_at_once(std::array{WantedBytes{&file, 2, memory}});
  EXPECT_EQ(to, "xxxxx");
}

TEST_F(StorageTest, LoadersTryAgainAndSkip) {
  std::atomic<int> failures = 0;
  storage_->on_read = [&](const StoredBytes& wanted) {
    if (wanted.file->name == "b/train/08.txt") throw Error(corrupt, "its ends do not meet");
    if (wanted.file->name == "b/train/09.txt" && ++failures < 3) throw Error(io, "the wire is cut");
  };
  for (const int workers : {0, 1, 2}) {
    failures = 0;
    Loader loader(train(), {.global_batch_size = 10,
                            .workers = workers,
                            .bad_samples = {.policy = BadSamples::Policy::skip, .retry_wait = {}}});
    Numbers bytes(50);
    while (const auto batch = loader.next()) {
      for (std::int64_t i = 0; i < batch->size(); ++i) {
        bytes[static_cast<std::size_t>(batch->ids()[static_cast<std::size_t>(i)].value)] =
            std::ssize(batch->bytes(0, i));
      }
    }
    for (std::size_t id = 0; id < bytes.size(); ++id) EXPECT_EQ(bytes[id], id) << id;
    ASSERT_EQ(loader.skipped().samples.size(), 1U);
    EXPECT_EQ(loader.skipped().samples[0].where, "memory://b/train/08.txt");
    EXPECT_THAT(loader.skipped().samples[0].error, HasSubstr("its ends do not meet"));
    EXPECT_EQ(failures, 3);
  }
}

TEST_F(StorageTest, AFileThatWasReplacedIsRefused) {
  const auto source = train();
  storage_->files["b/train/07.txt"] = {"yyyyyyy", 2};
  EXPECT_THAT(reading(*source, {6, 7}), is_error(corrupt, {"memory://b/train/07.txt", "replaced"}));
}

TEST_F(StorageTest, IsReadAlikeWhereChangesAreDetectedByNameAndFromTheNodesMemory) {
  CatalogOptions by_name = options();
  by_name.change_detection = ChangeDetection::by_name;
  EXPECT_EQ(contents(*open(Catalog("memory://b/train", by_name), "files")), contents(*train()));
  CatalogOptions shared = options();
  shared.share_files = true;
  EXPECT_EQ(contents(*open(Catalog("memory://b/val", shared), "lines")),
            contents(*open(Catalog("memory://b/val", options()), "lines")));
}

TEST_F(StorageTest, SavedCatalogsTellWhatHasChanged) {
  const TemporaryDirectory directory;
  const auto saved = directory.path() / "data.rota";
  const Catalog catalog("memory://b/train", options());
  EXPECT_EQ(catalog.origin(), "memory://b/train");
  for (const std::string all : {"memory://", "memory://*/*/*"}) Catalog(all, options()).save(saved);
  catalog.save(saved);
  EXPECT_FALSE(Catalog(saved, options()).changes().any());
  storage_->files["b/train/07.txt"].version = 2;
  storage_->files.erase("b/train/08.txt");
  storage_->files["b/train/99.txt"] = {"new"};
  const Catalog changed(saved, options());
  EXPECT_EQ(changed.changes().changed, 1);
  EXPECT_EQ(changed.changes().vanished, 1);
  EXPECT_EQ(changed.changes().appeared, 1);
  EXPECT_ERROR(Catalog(saved), not_found, {"memory://b/train", "the option storages"});
}

TEST_F(StorageTest, SentCatalogsListNothingAgain) {
  const std::string bytes = Catalog("memory://b/train", options()).serialize();
  const std::int64_t asked = storage_->lists + storage_->finds;
  const Catalog received = Catalog::deserialize(bytes, options());
  EXPECT_EQ(contents(*open(received, "files")), contents(*train()));
  EXPECT_EQ(storage_->lists + storage_->finds, asked + 2);  // of train()
  EXPECT_ERROR(Catalog::deserialize(bytes), not_found, {"memory://b/train", "the option storages"});
}

/// Datasets that Python makes, in memory and in a directory.
class StoredFiles : public StorageTest {
 protected:
  void make(const std::string& script) {
    write(script);
    storage_->copy(directory_.path(), "h");
  }
  Catalog here() const { return Catalog(directory_.path()); }
  Catalog there() const { return Catalog("memory://h", options()); }
};

TEST_F(StoredFiles, OfHdf5AreLookedIntoBesideEachOther) {
  make("import h5py\nfor i in range(6): h5py.File(f'{i}.h5', 'w')['x'] = range(1000)");
  const Together together(*storage_, 6);
  const auto source = open(there(), Hdf5Options{.datasets = {"x"}});
  EXPECT_EQ(source->size(), 6000);
  EXPECT_LE(together.reads, 12);  // the signature and a piece of each
}

TEST_F(StoredFiles, AreLookedIntoByFewReads) {
  make(R"(
from writers import write_tar
for i in range(12): write_tar(f'{i:02}.tar', [(f'{i}-{k}.bin', bytes(2000)) for k in range(400)])
)");
  const Together together(*storage_, 6, "h/00.tar");  // which is looked at alone, to begin with
  const auto source = open(there());
  EXPECT_LE(storage_->reads, 12 * 7);  // what it is: three formats; then 64 KiB, 256 KiB, 1 MiB, and its end
  storage_->on_read = nullptr;
  EXPECT_EQ(contents(*source), contents(*open(here())));
}

// A record that has to be unpacked takes several reads, one after the other.
TEST_F(StoredFiles, HaveRecordsThatAreUnpackedReadBesideEachOther) {
  make("import numpy as np\nfor i in range(6): np.savez_compressed(f'{i}', x=np.arange(1000))");
  const auto source = open(there(), "npz");
  const Together together(*storage_, 6);
  const Samples samples(*source, all_ids(*source), false);
  storage_->on_read = nullptr;
  EXPECT_EQ(contents(*source), contents(*open(here(), "npz")));
}

TEST_F(StoredFiles, HaveChunksThatHdf5HasCompressedAskedForTogether) {
  h5py(directory_, "x.h5",
       "f.create_dataset('x', data=np.arange(40000).reshape(400, 100), chunks=(4, 100), compression='gzip')");
  storage_->copy(directory_.path(), "h");
  const auto source = open(there(), "hdf5");
  storage_->reads = storage_->ranges = 0;
  const Samples samples(*source, all_ids(*source), false);
  EXPECT_EQ(storage_->reads, 1);
  EXPECT_EQ(storage_->ranges, 100);
  EXPECT_EQ(contents(*source), contents(*open(here(), "hdf5")));
}

// Libraries take some reads that fail for things that are not there.
TEST_F(StoredFiles, AreNotOpenedWhereAnyReadHasFailed) {
  CatalogOptions one_by_one = options();
  one_by_one.indexing_threads = 1;
  for (const std::string format : {"hdf5", "npz", "tar"}) {
    const TemporaryDirectory directory;
    write_dataset(directory, format);
    storage_->copy(directory.path(), format);
    std::atomic<std::int64_t> reads = 0;
    const auto open_failing = [&](std::int64_t failing) {
      reads = 0;
      storage_->on_read = [&, failing](const StoredBytes&) {
        if (reads++ == failing) throw Error(io, "the wire is cut");
      };
      return error_of([&] { (void)open(Catalog("memory://" + format, one_by_one), format); });
    };
    EXPECT_EQ(open_failing(-1), std::nullopt);
    const std::int64_t all = reads;
    ASSERT_GT(all, 4);
    for (std::int64_t failing = 0; failing < all; ++failing) {
      EXPECT_THAT(open_failing(failing), is_error(io, {"memory://" + format + "/", "the wire is cut"}))
          << failing;
    }
    storage_->on_read = nullptr;
  }
}

}  // namespace rota::test::storage_test
