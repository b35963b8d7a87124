// Lists of what is in S3: whole, in order, and in as few requests as they need.

#include "remote/reading.hpp"

namespace rota::test::list_test {

TEST_F(S3, ListsPagesInOrderWithWhatHeadSays) {
  server.become({"--page", "7"});
  std::vector<std::string> names;
  for (int i = 0; i < 25; ++i) names.push_back(fmt::format("b/d/{:02} +%\xC3\xA4&=.bin", i));
  for (const std::string& name : names) server.put(name, name);
  server.put("b/e/other", "x");
  const auto storage = this->storage();
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
  EXPECT_THAT(list(*storage, "b/none"), IsEmpty());
}

TEST_F(S3, NamesOutOfOrderAreRefused) {
  server.become({"--fault", "disorder", "--kind", "list"});
  for (const char* const name : {"b/x", "b/y", "b/z"}) server.put(name, name);
  EXPECT_ERROR(list(*storage(), "b/"), corrupt, {"\"b/y\" after \"b/z\""});
}

TEST_F(S3, AListWithoutEndIsAnError) {
  server.put("b/x", "x");
  server.become({"--fault", "round", "--kind", "list", "--times", "1000000"});
  EXPECT_ERROR(list(*storage(), "b/"), io, {"after 3 pages", "gone on before"});
  server.become({"--fault", "nothing", "--kind", "list", "--times", "1000000"});
  S3Options options = server.options();
  options.http.deadline = std::chrono::milliseconds(300);
  EXPECT_ERROR(list(*s3_storage(options), "b/"), io, {"pages", "no new name"});
}

TEST_F(S3, DirectoriesOfManyNamesAreListedBesideEachOther) {
  std::minstd_rand random(5);
  for (int run = 0; run < 10; ++run) {
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    server.become({"--page", fmt::format("{}", 50 + below(50))});
    const std::string top = fmt::format("b{}/d", run);
    std::set<std::string> names;
    for (unsigned directory = below(8) + 1; directory > 0; --directory) {
      std::string path = top;
      for (unsigned depth = below(4); depth > 0; --depth) path += fmt::format("/{}", "a!0"[below(3)]);
      for (unsigned file = below(150); file > 0; --file)
        names.insert(fmt::format("{}/x{}.bin", path, below(1000)));
    }
    names.insert(top + (run % 2 == 0 ? "/!!" : "/zz"));
    for (const std::string& name : names) server.put(name, name);
    server.put(fmt::format("b{}/e", run), "x");
    S3Options options = server.options();
    options.http.connections = static_cast<int>(1 + below(5));
    std::vector<std::string> listed;
    for (const StoredFile& file : list(*s3_storage(options), run % 3 == 0 ? top + "/" : top))
      listed.push_back(file.name);
    EXPECT_THAT(listed, ElementsAreArray(names)) << run;
  }
}

TEST_F(S3, DirectoriesDoNotWaitForEachOther) {
  server.become({"--page", "50", "--delay", "0.1"});
  for (int i = 0; i < 1600; ++i) server.put(fmt::format("b/{}/{}", i / 200, i), "x");
  EXPECT_THAT(list(*storage(), "b/"), SizeIs(1600));
  EXPECT_GE(server.count("list"), 32);
  EXPECT_GE(server.most_at_once("list"), 4) << "of the 8 that there are";
}

TEST_F(S3, APatternAsksForNamesThatBeginAsItDoes) {
  server.become({"--page", "3"});
  for (int i = 0; i < 30; ++i) server.put(fmt::format("b/{}/{}", i < 6 ? "wanted" : "other", i), "x");
  EXPECT_EQ(Catalog("s3://b/want*/*", catalogs()).size(), 6);
  EXPECT_EQ(server.count("list"), 2);
}

}  // namespace rota::test::list_test
