// Files from S3 and from web servers, from one that fails: what comes is right, or is an error that says why.

#include <zlib.h>

#include "remote/reading.hpp"
#include "run_command.hpp"

namespace rota::test::remote_test {

TEST_F(S3, ReadsAnyRangesInFewRequests) {
  const std::string bytes = some_bytes(40 << 20);
  server.put("b/x", bytes);
  const auto storage = this->storage();
  const auto file = storage->find("b/x");
  std::minstd_rand random(3);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::pair<std::size_t, std::size_t>> ranges;
    for (int i = 0; i < 30; ++i) {
      const std::size_t begin = random() % bytes.size();
      ranges.emplace_back(begin, std::min<std::size_t>(random() % 100'000, bytes.size() - begin));
    }
    std::ranges::sort(ranges);
    Wanted wanted;
    for (const auto& [begin, count] : ranges) wanted.add(*file, begin, count);
    wanted.read(*storage);
    wanted.expect(bytes);
  }
  const auto before = server.count("range");
  EXPECT_TRUE(read(*storage, *file, 0, bytes.size()) == bytes);
  EXPECT_EQ(server.count("range") - before, 5) << "parts of 8 MiB";
  Wanted near;
  for (std::size_t i = 0; i < 10; ++i) near.add(*file, i << 20, 1000);
  near.read(*storage);
  near.expect(bytes);
  EXPECT_EQ(server.count("range") - before, 6) << "gaps of less than 1 MiB";
  Wanted nothing;
  nothing.read(*storage);
  nothing.add(*file, 5, 0);
  nothing.read(*storage);
  nothing.expect(bytes);
}

/// What requests suffer, and which kinds of them may.
struct Fault {
  std::string name;
  std::vector<std::string> kinds;
};
const std::vector<Fault> kFaults = {{"503", {"list", "head", "range"}},
                                    {"429", {"head", "range", "list"}},
                                    {"reset", {"range", "list", "head"}},
                                    {"torn_head", {"list", "head", "range"}},
                                    {"garbage", {"head", "range", "list"}},
                                    {"hang", {"range", "list", "head"}},
                                    {"error200", {"list", "range"}},
                                    {"cut", {"range", "list"}},
                                    {"torn_reset", {"list", "range"}},
                                    {"trickle", {"range", "list"}},
                                    {"unended", {"list", "range"}},
                                    {"trailer", {"range", "list"}},
                                    {"torn", {"list"}},
                                    {"no_token", {"list"}},
                                    {"no_size", {"list"}},
                                    {"stray", {"list"}},
                                    {"no_truncated", {"list"}},
                                    {"500", {"head"}},
                                    {"408", {"range"}},
                                    {"no_etag", {"range"}},
                                    {"wrong_range", {"range"}}};

class S3Faults : public S3 {
 protected:
  S3Faults() {
    for (int i = 0; i < 5; ++i) server.put(fmt::format("b/d/{}", i), bytes_);
  }
  void expect_right_in_spite_of(const std::string& fault, const std::string& kind, const std::string& times) {
    SCOPED_TRACE(fault + " of " + kind);
    server.become({"--fault", fault, "--kind", kind, "--times", times, "--page", "3"});
    const auto storage = storage_in_spite_of(fault);
    const auto files = list(*storage, "b/d/");
    ASSERT_THAT(files, SizeIs(5));
    Wanted wanted;
    for (const StoredFile& file : files) {
      const auto found = storage->find(file.name);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->bytes, bytes_.size());
      EXPECT_EQ(found->version, file.version);
      wanted.add(file, 7, 1000);
      wanted.add(file, 1'100'000, 90'000);
    }
    wanted.read(*storage);
    wanted.expect(bytes_);
    const auto asked = server.count("list") + server.count("head") + server.count("range");
    const bool has_all = fault == "trailer" || (fault == "unended" && kind == "range");  // which is odd
    EXPECT_EQ(asked > 2 + 5 + 10, !has_all) << asked;
  }

 private:
  const std::string bytes_ = some_bytes(1'200'000);
};

TEST_F(S3Faults, ThatPassDeliverWhatIsThere) {
  for (const Fault& fault : kFaults) expect_right_in_spite_of(fault.name, fault.kinds[0], "1");
}

using S3FaultsCampaign = S3Faults;
TEST_F(S3FaultsCampaign, ThatPassDeliverWhatIsThere) {
  for (const Fault& fault : kFaults) {
    for (const std::string& kind : fault.kinds) expect_right_in_spite_of(fault.name, kind, "2");
  }
}

TEST_F(S3, WhatHasChangedIsRefusedByName) {
  server.put("b/x", "before");
  const auto storage = this->storage();
  const auto file = storage->find("b/x");
  for (const std::string bytes : {"behind", "longer than before", "b"}) {
    server.put("b/x", bytes);
    EXPECT_ERROR(read(*storage, *file, 2, 4), corrupt, {"s3://b/x", "changed"});
  }
  fs::remove(server.directory() / "b/x");
  EXPECT_ERROR(read(*storage, *file, 0, 6), not_found);
}

TEST_F(S3, WhatAServerSaysIsShownInPartAndDoesNothingToATerminal) {
  server.put("b/x", "content");
  const auto storage = this->storage();
  const auto file = storage->find("b/x");
  server.become({"--fault", "odd_etag", "--kind", "range", "--times", "1"});
  const auto error = error_of([&] { read(*storage, *file, 0, 7); });
  ASSERT_THAT(error, is_error(corrupt, {"its ETag is \"\\x1b[31mee", "ee now"}));
  EXPECT_LT(std::string_view(error->what()).size(), 400U);
}

// Nobody can tell then whether two answers belong together.
TEST_F(S3, WithoutETagsEachAnswerIsWhole) {
  server.become({"--no-etags", "--fault", "cut", "--kind", "range", "--times", "2"});
  const std::string bytes = some_bytes(300'000);
  server.put("b/x", bytes);
  const auto storage = this->storage();
  const auto files = list(*storage, "b/");
  ASSERT_THAT(files, SizeIs(1));
  EXPECT_EQ(files[0].version, 0U);
  EXPECT_TRUE(read(*storage, files[0], 0, bytes.size()) == bytes);
  EXPECT_THAT(server.requests("range"), AllOf(SizeIs(3), Each(HasSubstr("bytes=0-299999"))));
}

// One that failed comes before those that have not begun, which have all their time.
TEST_F(S3, WhatIsTriedAgainDoesNotWaitForAllOthers) {
  server.become({"--delay", "0.02", "--fault", "503", "--kind", "range", "--name", "b/000"});
  std::vector<StoredFile> files;
  for (int i = 0; i < 75; ++i) {
    files.push_back({.name = fmt::format("b/{:03}", i), .bytes = 1});
    server.put(files.back().name, "x");
  }
  S3Options options = server.options();
  options.http.connections = 1;
  options.http.deadline = 1s;
  Wanted wanted;
  for (const StoredFile& file : files) wanted.add(file, 0, 1);
  wanted.read(*s3_storage(options));
  wanted.expect("x");
  const auto requests = server.requests("range");
  const auto is_first = [](const std::string& line) { return line.find("b/000") != line.npos; };
  EXPECT_EQ(std::ranges::count_if(requests | std::views::take(25), is_first), 2);
}

TEST_F(S3, OneRangeThatFailsLeavesTheOthers) {
  server.put("b/x", "xxxx");
  server.put("b/y", "yyyy");
  const auto storage = this->storage();
  const auto x = storage->find("b/x");
  const auto y = storage->find("b/y");
  fs::remove(server.directory() / "b/x");
  Wanted wanted;
  wanted.add(*x, 0, 4);
  wanted.add(*y, 0, 4);
  wanted.read(*storage);
  EXPECT_NE(wanted.ranges[0].error, nullptr);
  EXPECT_EQ(wanted.ranges[1].error, nullptr);
  EXPECT_EQ(*wanted.files[1], "yyyy");
}

TEST_F(S3, EndsByItsDeadline) {
  server.put("b/x", some_bytes(100'000));
  S3Options options = server.options();
  options.http.deadline = 500ms;
  const auto start = std::chrono::steady_clock::now();
  for (const std::string fault : {"503", "reset", "hang", "cut"}) {
    server.become({"--fault", fault, "--times", "1000000", "--kind", "range"});
    const auto storage = s3_storage(options);
    const auto file = storage->find("b/x");
    ASSERT_TRUE(file);
    EXPECT_ERROR(read(*storage, *file, 0, 100'000), timeout, {"s3://b/x", "tries"}) << fault;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST_F(S3, OfWhatIsCutOnlyTheRestIsAskedForAgain) {
  server.become({"--fault", "cut", "--times", "5", "--kind", "range"});
  const std::string bytes = some_bytes(96'000);
  server.put("b/x", bytes);
  const auto storage = this->storage();
  EXPECT_TRUE(read(*storage, *storage->find("b/x"), 0, bytes.size()) == bytes);
  EXPECT_THAT(server.requests("range"),
              ElementsAre(HasSubstr("=0-"), HasSubstr("=48000-"), HasSubstr("=72000-"), HasSubstr("=84000-"),
                          HasSubstr("=90000-"), HasSubstr("=93000-")));
}

TEST_F(S3, IsReadByAForkedProcessToo) {
  server.put("b/x", "content");
  const auto storage = this->storage();
  const auto reads = [&] { return read(*storage, *storage->find("b/x"), 0, 7) == "content"; };
  EXPECT_TRUE(reads());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(reads() ? 0 : 1);
  EXPECT_TRUE(reads());
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(reads());
}

TEST(Web, FilesAreReadByRangesOrWhole) {
  const TemporaryDirectory keys;
  const std::string pem = keys / "server.pem";
  ASSERT_EQ(
      run_command("timeout 60 openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext "
                  "subjectAltName=IP:127.0.0.1 -keyout " +
                  pem + " -out " + pem + ".crt && cat " + pem + ".crt >> " + pem)
          .code,
      0);
  S3Server server({"--open", "--certificate", pem});
  const std::string content = "one\ntwo\nthree\n";
  server.put("data/x.txt", content);
  const std::string directory = fmt::format("127.0.0.1:{}/data/", server.port());
  const std::string name = directory + "x.txt";
  EXPECT_ERROR(http_storage("https")->find(name), io, {"certificate", "SSL_CERT_FILE"});
  EXPECT_ERROR(http_storage("https", {.ca_file = "/none"})->find(name), io, {"/none", "SSL_CERT_FILE"});
  const auto storage = http_storage("https", {.ca_file = pem + ".crt"});
  const auto file = storage->find(name);
  ASSERT_TRUE(file);
  EXPECT_EQ(read(*storage, *file, 0, 14), content);
  EXPECT_EQ(read(*storage, *file, 4, 3), "two");
  const CatalogOptions options{.storages = {{"https", storage}}};
  EXPECT_EQ(open(Catalog("https://" + name, options), "lines")->size(), 3);
  for (const std::string number : {"008", "009", "010", "011"})
    server.put("data/y-" + number + ".txt", "line\n");
  EXPECT_EQ(open(Catalog("https://" + directory + "y-{008..011}.txt", options), "lines")->size(), 4);
  EXPECT_ERROR(list(*storage, name), not_found, {"a web server cannot list others"});
  EXPECT_FALSE(storage->find(name + ".none"));

  server.become({"--open", "--no-ranges"});
  EXPECT_EQ(read(*storage, *storage->find(name), 0, 14), content);
  EXPECT_EQ(read(*storage, *file, 4, 3), "two") << "of what comes as a whole";
  server.put("data/large", std::string(3 << 20, 'x') + "end");
  const auto large = storage->find(directory + "large");
  EXPECT_EQ(read(*storage, *large, 1 << 10, 3), "xxx");
  EXPECT_ERROR(read(*storage, *large, 3 << 20, 3), unsupported, {"one that knows ranges"});
  EXPECT_EQ(read(*storage, *large, 0, (3 << 20) + 3).substr(3 << 20), "end");
}

// As those of presigned URLs, which may have slashes and dots in them.
TEST(Web, TheFormatIsThatOfThePathBeforeTheQuery) {
  S3Server server({"--open"});
  server.put("data/y.jsonl.gz", "no gzip\n");
  server.put("data/z.zip", "PK");
  const gzFile packed = ::gzopen((server.directory() / "data/x.jsonl.gz").c_str(), "wb");
  EXPECT_EQ(::gzputs(packed, "{\"a\": 1}\n\n{\"a\": 2}\n"), 19);
  EXPECT_EQ(::gzclose(packed), Z_OK);
  const auto at = [&](const std::string& name) {
    return Catalog(fmt::format("http://127.0.0.1:{}/data/{}?sig=a/b.tar", server.port(), name));
  };
  EXPECT_EQ(find_format(at("x.jsonl.gz")), "lines");
  EXPECT_EQ(open(at("x.jsonl.gz"))->size(), 2) << "a blank line is none";
  EXPECT_ERROR(open(at("y.jsonl.gz"), "lines"), corrupt, {"named as compressed"});
  EXPECT_ERROR(open(at("z.zip")), unsupported, {"z.zip"});
}

TEST_F(S3, AFileWithBracketsInItsNameIsThatFile) {
  for (const char* const name : {"b/x[1].txt", "b/x1.txt", "b/x2.txt"}) server.put(name, "line\n");
  const auto path_of = [this](const std::string& path) { return Catalog(path, catalogs()).path(0); };
  EXPECT_EQ(path_of("s3://b/x[1].txt"), "s3://b/x[1].txt");
  EXPECT_EQ(path_of("s3://b/x[2].txt"), "s3://b/x2.txt");
}

}  // namespace rota::test::remote_test
