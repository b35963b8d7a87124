#include "limits/refusals.hpp"
#include "limits/told_stream.hpp"

namespace rota::test::dataset_calls_test {

using SourcePtr = std::shared_ptr<const Source>;

TEST(DatasetCalls, AnswerForFilesThatThereAre) {
  const TemporaryDirectory d;
  d.write("data/a", "x");
  const fs::path data = d / "data";
  const Catalog catalog(data);
  refused(kRange, {"file 1 of"}, [&] { catalog.path(1); });
  refused(kRange, {"file -1 of"}, [&] { catalog.bytes(-1); });
  const Catalog by_name(data, {.change_detection = ChangeDetection::by_name});
  refused({"sizes"}, [&] { by_name.bytes(0); });
  fs::remove(data / "a");
  d.write("data/a\nb", "");
  EXPECT_EQ(Catalog(data).path(0), (data / "a\nb").string());
  EXPECT_EQ(Catalog(data).bytes(0), 0);
}

TEST(DatasetCalls, NameFormatsAndPathsThatThereAreNot) {
  const TemporaryDirectory d;
  refused({"\"parquet\"", "\"files\"", "\"hdf5\""}, [&] { open(d.write("a", "x"), "parquet"); });
  refused({"auto"}, [&] { open(d.write("a", "x"), ""); });
  refused(kMissing, {"/nowhere"}, [] { open("/nowhere"); });
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
