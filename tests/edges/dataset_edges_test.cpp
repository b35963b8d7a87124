#include "edges/edge.hpp"
#include "source/numbered_rows.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::dataset_edges_test {

using SourcePtr = std::shared_ptr<const Source>;

constexpr auto kInvalid = ErrorCode::invalid_argument;
constexpr auto kMissing = ErrorCode::not_found;
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

using InDirectory = std::function<void(const TemporaryDirectory&)>;
Edge in_directory(std::string test, InDirectory call, std::optional<ErrorCode> code = {},
                  std::string says = {}) {
  const auto make_and_call = [call = std::move(call)] {
    const TemporaryDirectory directory;
    call(directory);
  };
  return {std::move(test), make_and_call, code, std::move(says)};
}

void make_fifo(const std::filesystem::path& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); }

std::vector<Edge> catalogs() {
  return {
      {"NoPath", [] { Catalog(""); }, kInvalid, "empty"},
      {"PathThatIsNotThere", [] { Catalog("/nowhere/data"); }, kMissing, "/nowhere"},
      {"PathBelowAFile", [] { Catalog("/dev/null/data"); }, kMissing, "/dev/null"},
      in_directory(
          "EmptyDirectory", [](auto& d) { Catalog(d.path()); }, kMissing, "no regular file"),
      in_directory("OneEmptyFile",
                   [](auto& d) {
                     d.write("a", "");
                     EXPECT_EQ(Catalog(d.path()).bytes(0), 0);
                   }),
      in_directory(
          "Fifo",
          [](auto& d) {
            make_fifo(d / "fifo");
            Catalog(d / "fifo");
          },
          kMissing, "no regular file"),
      in_directory("FifoAmongFiles",
                   [](auto& d) {
                     make_fifo(d / "fifo");
                     d.write("file", "x");
                     EXPECT_EQ(Catalog(d.path()).size(), 1);
                   }),
      in_directory(
          "DanglingLink",
          [](auto& d) {
            std::filesystem::create_symlink("nothing", d / "link");
            Catalog(d.path());
          },
          ErrorCode::io, "link"),
      in_directory(
          "LinkToItself",
          [](auto& d) {
            std::filesystem::create_symlink("link", d / "link");
            Catalog(d.path());
          },
          ErrorCode::unsupported, "link"),
      in_directory(
          "LinkToItsDirectory",
          [](auto& d) {
            std::filesystem::create_directory_symlink(".", d / "link");
            Catalog(d.path());
          },
          ErrorCode::unsupported, "link"),
      in_directory(
          "GlobOfNothing", [](auto& d) { Catalog(d / "*.tar"); }, kMissing, "*.tar"),
      in_directory("NameWithNewline",
                   [](auto& d) {
                     d.write("a\nb", "x");
                     EXPECT_EQ(Catalog(d.path()).path(0), (d / "a\nb").string());
                   }),
      in_directory(
          "FileThatIsNotThere",
          [](auto& d) {
            d.write("a", "x");
            std::ignore = Catalog(d.path()).path(1);
          },
          ErrorCode::out_of_range, "file 1 of"),
      in_directory(
          "FileNegative",
          [](auto& d) {
            d.write("a", "x");
            std::ignore = Catalog(d.path()).bytes(-1);
          },
          ErrorCode::out_of_range, "file -1 of"),
      in_directory(
          "BytesWhereNamesAreEvidence",
          [](auto& d) {
            d.write("a", "x");
            std::ignore = Catalog(d.path(), {.change_detection = rota::ChangeDetection::by_name}).bytes(0);
          },
          kInvalid, "sizes"),
      in_directory(
          "ManifestEmpty", [](auto& d) { Catalog::from_manifest(d.write("m", "")); }, kMissing,
          "/m: it lists no files"),
      in_directory(
          "ManifestThatIsADirectory", [](auto& d) { Catalog::from_manifest(d.path()); }, kInvalid,
          "no regular file"),
      in_directory(
          "ManifestWithAPathTwice",
          [](auto& d) {
            d.write("a", "x");
            Catalog::from_manifest(d.write("m", "a\na\n"));
          },
          kInvalid, "line 2: a is listed"),
      in_directory(
          "ManifestWithAPathOfNothing", [](auto& d) { Catalog::from_manifest(d.write("m", "a\n")); },
          ErrorCode::io, "/a: No such file"),
      in_directory(
          "ManifestOfBrokenJson", [](auto& d) { Catalog::from_manifest(d.write("m", "{\"path\": \n")); },
          kInvalid, "line 1"),
      in_directory(
          "SaveOverItself",
          [](auto& d) {
            d.write("a", "x");
            Catalog(d.path()).save(d / "a");
          },
          kInvalid, "/a: it would be"),
      in_directory(
          "SaveWhereNothingIs",
          [](auto& d) {
            d.write("a", "x");
            Catalog(d.path()).save("/nowhere/c.rota");
          },
          ErrorCode::io, "/nowhere"),
      in_directory("SavedTwice",
                   [](auto& d) {
                     d.write("data/a", "x");
                     const Catalog catalog(d / "data");
                     catalog.save(d / "c.rota");
                     catalog.save(d / "c.rota");
                     EXPECT_EQ(Catalog(d / "c.rota").size(), 1);
                   }),
  };
}

Edge opened(std::string test, std::string name, std::string contents, std::string format,
            std::optional<ErrorCode> code, std::string says) {
  const auto call = [=](const TemporaryDirectory& d) { rota::open(d.write(name, contents), format); };
  return in_directory(std::move(test), call, code, std::move(says));
}

std::vector<Edge> formats() {
  std::vector<Edge> edges = {
      opened("UnknownFormat", "a", "x", "parquet", kInvalid, "parquet"),
      opened("NoFormat", "a", "x", "", kInvalid, "auto"),
      {"NothingThere", [] { rota::open("/nowhere"); }, kMissing, "/nowhere"},
      in_directory(
          "TokensOfNoLength", [](auto& d) { rota::open_tokens(d.write("a", "xx"), {.length = 0}); }, kInvalid,
          "length"),
      in_directory(
          "TokensOfNegativeStride",
          [](auto& d) { rota::open_tokens(d.write("a", "xx"), {.length = 1, .stride = -1}); }, kInvalid,
          "stride"),
      in_directory(
          "TokensOfHugeLength", [](auto& d) { rota::open_tokens(d.write("a", "xx"), {.length = kHuge}); },
          kInvalid, "length"),
      in_directory(
          "TokensOfAnotherType",
          [](auto& d) { rota::open_tokens(d.write("a", "xx"), {.dtype = rota::DType::float32}); }, kInvalid,
          "float32"),
      in_directory(
          "TarWithoutTheFieldAsked",
          [](auto& d) { rota::open_tar(d.write("a.tar", std::string(1024, '\0')), {.fields = {""}}); },
          kInvalid, "field"),
      in_directory(
          "FileThatShrankSince",
          [](auto& d) {
            const SourcePtr source = rota::open_files(d.write("a", "xyz"));
            d.write("a", "x");
            rota::test::Samples(*source, rota::test::all_ids(*source));
          },
          ErrorCode::corrupt, "/a: it has 1 bytes now"),
      in_directory(
          "FileThatVanishedSince",
          [](auto& d) {
            const SourcePtr source = rota::open_files(d.write("a", "xyz"));
            std::filesystem::remove(d / "a");
            rota::test::Samples(*source, rota::test::all_ids(*source));
          },
          kMissing, "/a: No such file"),
      in_directory(
          "IdThatIsNotThere",
          [](auto& d) {
            const SourcePtr source = rota::open_files(d.write("a", "xyz"));
            rota::test::Samples(*source, rota::test::ids({1}));
          },
          ErrorCode::out_of_range, "sample 1:"),
  };
  const std::vector<std::pair<std::string, bool>> takes_empty = {
      {"files", true}, {"hdf5", false}, {"tar", false},   {"tfrecord", true}, {"lines", true},
      {"npy", false},  {"npz", false},  {"tokens", true}, {"mds", false}};
  for (const auto& [format, is_right] : takes_empty) {
    edges.push_back(opened("EmptyFileAs" + format, format == "mds" ? "index.json" : "a", "", format,
                           is_right ? std::nullopt : std::optional(ErrorCode::corrupt),
                           is_right ? "" : "it is no"));
  }
  return edges;
}

Edge adapted(std::string test, std::function<SourcePtr()> make, std::optional<ErrorCode> code,
             std::string says = {}) {
  return {std::move(test), [make = std::move(make)] { EXPECT_NE(make(), nullptr); }, code, std::move(says)};
}

SourcePtr rows(std::int64_t size) { return std::make_shared<NumberedRows>(size); }

SourcePtr first_part(const SourcePtr& source, std::vector<double> fractions) {
  const auto parts = rota::split(source, fractions, 0);
  EXPECT_EQ(parts.size(), fractions.size());
  return parts.front();
}

std::vector<Edge> adaptors() {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  return {
      adapted(
          "JoinNone", [] { return rota::join({}); }, kInvalid, "one or more"),
      adapted(
          "JoinNull",
          [] {
            return rota::join({rows(1), nullptr});
          },
          kInvalid, "null pointer"),
      adapted("JoinOne", [] { return rota::join({rows(1)}); }, {}),
      adapted("JoinEmptyOnes",
              [] {
                return rota::join({rows(0), rows(0)});
              },
              {}),
      adapted("JoinOneTwice",
              [] {
                const SourcePtr source = rows(2);
                return rota::join({source, source});
              },
              {}),
      adapted(
          "SplitNull", [] { return first_part(nullptr, {1}); }, kInvalid, "null"),
      adapted(
          "SplitIntoNone",
          [] {
            rota::split(rows(2), {}, 0);
            return rows(1);
          },
          kInvalid, "sum to 0"),
      adapted("SplitIntoOne", [] { return first_part(rows(2), {1}); }, {}),
      adapted("SplitOfNothing",
              [] {
                return first_part(rows(0), {0.5, 0.5});
              },
              {}),
      adapted("SplitIntoMoreThanThereAre",
              [] {
                return first_part(rows(1), {0.25, 0.25, 0.5});
              },
              {}),
      adapted(
          "SplitNegative",
          [] {
            return first_part(rows(2), {1.5, -0.5});
          },
          kInvalid, "-0.5"),
      adapted(
          "SplitOfTooMuch",
          [] {
            return first_part(rows(2), {0.9, 0.2});
          },
          kInvalid, "sum to 1.1"),
      adapted(
          "SplitNaN", [] { return first_part(rows(2), {kNaN}); }, kInvalid, "fraction is nan"),
      adapted(
          "WindowsOfNull", [] { return rota::windows(nullptr, {.length = 1}); }, kInvalid, "null"),
      adapted(
          "WindowsOfNoLength", [] { return rota::windows(rows(2), {}); }, kInvalid, "length"),
      adapted(
          "WindowsOfNegativeLength", [] { return rota::windows(rows(2), {.length = -1}); }, kInvalid,
          "length"),
      adapted(
          "WindowsOfHugeLength", [] { return rota::windows(rows(2), {.length = kHuge}); }, kInvalid,
          "length"),
      adapted(
          "WindowsOfNoStride", [] { return rota::windows(rows(2), {.length = 1, .stride = 0}); }, kInvalid,
          "stride"),
      adapted("WindowsOfHugeStride", [] { return rota::windows(rows(2), {.length = 1, .stride = kHuge}); },
              {}),
      adapted("WindowsOfNothing", [] { return rota::windows(rows(0), {.length = 1}); }, {}),
      adapted(
          "WindowsLongerThanAll", [] { return rota::windows(rows(2), {.length = 3}); }, kInvalid,
          "length is 3"),
      adapted(
          "PackNull", [] { return rota::pack(nullptr, {}); }, kInvalid, "null"),
      adapted(
          "PackWhatIsNotRagged", [] { return rota::pack(rows(2), {}); }, kInvalid, "ragged"),
      adapted(
          "PackWithoutLength", [] { return rota::pack(rows(2), {.length = 0}); }, kInvalid, "length"),
      adapted(
          "PackOfHugeLength", [] { return rota::pack(rows(2), {.length = kHuge}); }, kInvalid, "length"),
      adapted(
          "PackWithNoThreads", [] { return rota::pack(rows(2), {.threads = 0}); }, kInvalid, "threads"),
      adapted(
          "PackAFieldThatIsNotThere", [] { return rota::pack(rows(2), {.field = "z"}); }, kMissing, "\"z\""),
  };
}

ROTA_EDGES(Catalog, catalogs);
ROTA_EDGES(Format, formats);
ROTA_EDGES(Adaptor, adaptors);

}  // namespace rota::test::dataset_edges_test
