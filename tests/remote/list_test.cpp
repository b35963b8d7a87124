// Lists of what is in S3: whole, in order, and in as few requests as they need.

#include "remote/reading.hpp"
#include "remote/server_process.hpp"
#include "test.hpp"

namespace rota::test::list_test {

TEST(S3, ListsPagesInOrderWithWhatHeadSays) {
  S3Server server({"--page", "7"});
  std::vector<std::string> names;
  for (int i = 0; i < 25; ++i) names.push_back(fmt::format("b/d/{:02} +%\xC3\xA4&=.bin", i));
  for (const std::string& name : names) server.put(name, name);
  server.put("b/e/other", "x");
  const auto storage = s3_storage(server.options());
  const auto files = list(*storage, "b/d/");
  ASSERT_THAT(files, SizeIs(25));
  EXPECT_EQ(server.count("list"), 4);
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(files[i].name, names[i]);
    EXPECT_EQ(files[i].bytes, names[i].size());
    const auto found = storage->find(names[i]);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->version, files[i].version);
    EXPECT_NE(found->version, 0U);
    EXPECT_EQ(found->bytes, names[i].size());
  }
  EXPECT_FALSE(storage->find("b/d/none"));
  EXPECT_FALSE(storage->find("b/"));
  EXPECT_THAT(list(*storage, "b/none"), SizeIs(0));
}

TEST(S3, NamesOutOfOrderAreRefused) {
  S3Server server({"--fault", "disorder", "--kind", "list"});
  for (const char* const name : {"b/x", "b/y", "b/z"}) server.put(name, name);
  const Failure failure = failure_of([&] { (void)list(*s3_storage(server.options()), "b/"); });
  EXPECT_EQ(failure.code, ErrorCode::corrupt);
  EXPECT_THAT(failure.text, ::testing::HasSubstr("\"b/y\" after \"b/z\""));
}

TEST(S3, DirectoriesOfManyNamesAreListedBesideEachOther) {
  std::minstd_rand random(5);
  for (int run = 0; run < 10; ++run) {
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    S3Server server({"--page", fmt::format("{}", 50 + below(100))});
    std::set<std::string> names;
    for (unsigned directory = below(8) + 1; directory > 0; --directory) {
      std::string path = "b/d";
      for (unsigned depth = below(4); depth > 0; --depth) path += fmt::format("/{}", "a!0"[below(3)]);
      for (unsigned file = below(300); file > 0; --file)
        names.insert(fmt::format("{}/x{}.bin", path, below(1000)));
    }
    names.insert("b/d/" + std::string(run % 2 == 0 ? "!!" : "zz"));
    for (const std::string& name : names) server.put(name, name);
    server.put("b/e", "x");
    S3Options options = server.options();
    options.http.connections = static_cast<int>(1 + below(5));
    std::vector<std::string> listed;
    for (const StoredFile& file : list(*s3_storage(options), run % 3 == 0 ? "b/d/" : "b/d"))
      listed.push_back(file.name);
    EXPECT_THAT(listed, ::testing::ElementsAreArray(names)) << run;
  }
}

TEST(S3, DirectoriesDoNotWaitForEachOther) {
  S3Server server({"--page", "50", "--delay", "0.1"});
  for (int i = 0; i < 3200; ++i) server.put(fmt::format("b/{}/{}", i / 400, i), "x");
  const auto storage = s3_storage(server.options());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(list(*storage, "b/"), SizeIs(3200));
  const auto taken = std::chrono::steady_clock::now() - start;
  EXPECT_GE(server.count("list"), 64);
  EXPECT_LT(taken, std::chrono::milliseconds(3200)) << "half of what they wait, one after the other";
}

TEST(S3, APatternAsksForNamesThatBeginAsItDoes) {
  S3Server server({"--page", "3"});
  for (int i = 0; i < 30; ++i) server.put(fmt::format("b/{}/{}", i < 6 ? "wanted" : "other", i), "x");
  CatalogOptions options;
  options.storages["s3"] = s3_storage(server.options());
  EXPECT_EQ(Catalog("s3://b/want*/*", options).size(), 6);
  EXPECT_EQ(server.count("list"), 2);
}

}  // namespace rota::test::list_test
