#include "limits/refusals.hpp"
#include "limits/told_stream.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::dataset_calls_test {

using SourcePtr = std::shared_ptr<const Source>;

/// A directory whose "data" has one file, "a", of one byte.
class CatalogCalls : public testing::Test {
 protected:
  CatalogCalls() { d_.write("data/a", "x"); }

  TemporaryDirectory d_;
  fs::path data_ = d_ / "data";
};

TEST_F(CatalogCalls, NamePathsThatHaveNoFile) {
  refused({"empty"}, [] { Catalog(""); });
  refused(kMissing, {"/nowhere"}, [] { Catalog("/nowhere/data"); });
  refused(kMissing, {"/dev/null"}, [] { Catalog("/dev/null/data"); });
  refused(kMissing, {"*.tar"}, [&] { Catalog(d_ / "*.tar"); });
  fs::create_directory(d_ / "empty");
  refused(kMissing, {"no regular file"}, [&] { Catalog(d_ / "empty"); });
}

TEST_F(CatalogCalls, PassOverFifosAndRefuseLinksThatLeadNowhere) {
  ASSERT_EQ(::mkfifo((data_ / "fifo").c_str(), 0600), 0);
  refused(kMissing, {"no regular file"}, [&] { Catalog(data_ / "fifo"); });
  EXPECT_EQ(Catalog(data_).size(), 1);
  for (const auto& [target, code] :
       {std::pair("nothing", ErrorCode::io), std::pair("link", ErrorCode::unsupported),
        std::pair(".", ErrorCode::unsupported)}) {
    fs::create_symlink(target, data_ / "link");
    refused(code, {"link"}, [&] { Catalog(data_.string()); });
    fs::remove(data_ / "link");
  }
}

TEST_F(CatalogCalls, AnswerForFilesThatThereAre) {
  const Catalog catalog(data_);
  refused(kRange, {"file 1 of"}, [&] { catalog.path(1); });
  refused(kRange, {"file -1 of"}, [&] { catalog.bytes(-1); });
  const Catalog by_name(data_, {.change_detection = ChangeDetection::by_name});
  refused({"sizes"}, [&] { by_name.bytes(0); });
  fs::remove(data_ / "a");
  d_.write("data/a\nb", "");
  EXPECT_EQ(Catalog(data_).path(0), (data_ / "a\nb").string());
  EXPECT_EQ(Catalog(data_).bytes(0), 0);
}

TEST(DatasetCalls, NameFormatsAndPathsThatThereAreNot) {
  const TemporaryDirectory d;
  refused({"parquet"}, [&] { open(d.write("a", "x"), "parquet"); });
  refused({"auto"}, [&] { open(d.write("a", "x"), ""); });
  refused(kMissing, {"/nowhere"}, [] { open("/nowhere"); });
  d.write("a.tar", std::string(1024, '\0'));
  refused({"field"}, [&] { open(d / "a.tar", TarOptions{.fields = {""}}); });
}

TEST(DatasetCalls, OpenAnEmptyFileWhereTheFormatAllowsOne) {
  for (const std::string format :
       {"files", "hdf5", "tar", "tfrecord", "lines", "npy", "npz", "tokens", "mds"}) {
    SCOPED_TRACE(format);
    const TemporaryDirectory d;
    const auto path = d.write(format == "mds" ? "index.json" : "a", "");
    const auto open_it = [&] { open(path, format); };
    if (format == "files" || format == "tfrecord" || format == "lines" || format == "tokens") {
      EXPECT_NO_THROW(open_it());
    } else {
      refused(kCorrupt, {"it is no"}, open_it);
    }
  }
}

TEST(DatasetCalls, NameAFileThatHasChangedSinceItWasOpened) {
  const TemporaryDirectory d;
  const auto path = d.write("a", "xyz");
  const SourcePtr source = open(path, "files");
  refused(kRange, {"sample 1:"}, [&] { Samples(*source, ids({1})); });
  d.write("a", "x");
  refused(kCorrupt, {"/a: it has 1 bytes now"}, [&] { Samples(*source, all_ids(*source)); });
  fs::remove(path);
  refused(kMissing, {"/a: No such file"}, [&] { Samples(*open(path, "files"), ids({0})); });
}

TEST(DatasetCalls, OfAdaptorsRefuseNoSourceAndTakeAnEmptyOne) {
  const SourcePtr none;
  refused({"one or more"}, [] { join({}); });
  refused({"null pointer"}, [&] { join({told(1), none}); });
  refused({"null"}, [&] { split(none, std::vector{1.0}, 0); });
  refused({"null"}, [&] { windows(none, {.length = 1}); });
  refused({"null"}, [&] { pack(none, {}); });
  const SourcePtr two = told(2);
  EXPECT_EQ(join({told(1)})->size(), 1);
  EXPECT_EQ(join({told(0), told(0)})->size(), 0);
  EXPECT_EQ(join({two, two})->size(), 4);
  EXPECT_EQ(split(two, std::vector{1.0}, 0).front()->size(), 2);
  EXPECT_THAT(split(told(0), std::vector{0.5, 0.5}, 0), SizeIs(2));
  EXPECT_THAT(split(told(1), std::vector{0.25, 0.25, 0.5}, 0), SizeIs(3));
  EXPECT_EQ(windows(two, {.length = 1, .stride = kMost})->size(), 1);
  EXPECT_EQ(windows(told(0), {.length = 1})->size(), 0);
}

}  // namespace rota::test::dataset_calls_test
