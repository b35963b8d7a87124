// Files from S3 and from web servers, from one that fails: what comes is right, or is an error that says why.

#include "remote/bytes.hpp"
#include "remote/reading.hpp"
#include "remote/server_process.hpp"
#include "run_command.hpp"
#include "test.hpp"

namespace rota::test::remote_test {

TEST(S3, ReadsAnyRangesInFewRequests) {
  S3Server server;
  const std::string bytes = some_bytes(40 << 20);
  server.put("b/x", bytes);
  const auto storage = s3_storage(server.options());
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
  Wanted whole;
  whole.add(*file, 0, bytes.size());
  whole.read(*storage);
  whole.expect(bytes);
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

struct Fault {
  const char* name;
  const char* kind;
};
class S3Faults : public testing::TestWithParam<Fault> {};

TEST_P(S3Faults, ThatPassDeliverWhatIsThere) {
  const auto [fault, kind] = GetParam();
  S3Server server({"--fault", fault, "--kind", kind, "--times", "2", "--page", "3"});
  const std::string bytes = some_bytes(3'000'000);
  for (int i = 0; i < 5; ++i) server.put(fmt::format("b/d/{}", i), bytes);
  const auto storage = s3_storage(server.options());
  const auto files = list(*storage, "b/d/");
  ASSERT_THAT(files, SizeIs(5));
  Wanted wanted;
  for (const StoredFile& file : files) {
    const auto found = storage->find(file.name);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->bytes, bytes.size());
    EXPECT_EQ(found->version, file.version);
    wanted.add(file, 7, 1000);
    wanted.add(file, 2'000'000, 900'000);
  }
  wanted.read(*storage);
  wanted.expect(bytes);
  EXPECT_GT(server.requests().size(), 7U + 5);
  const auto asked = server.count("list") + server.count("head") + server.count("range");
  EXPECT_TRUE(std::string_view(fault) != "trailer" || asked == 2 + 5 + 10)
      << asked;  // it is odd, and no fault
}

INSTANTIATE_TEST_SUITE_P(
    All, S3Faults,
    testing::Values(Fault{"503", "list"}, Fault{"429", "list"}, Fault{"error200", "list"},
                    Fault{"reset", "list"}, Fault{"cut", "list"}, Fault{"torn_reset", "list"},
                    Fault{"trickle", "list"}, Fault{"torn", "list"}, Fault{"no_token", "list"},
                    Fault{"no_size", "list"}, Fault{"stray", "list"}, Fault{"no_truncated", "list"},
                    Fault{"hang", "list"}, Fault{"torn_head", "head"}, Fault{"torn_head", "range"},
                    Fault{"torn_head", "list"}, Fault{"garbage", "list"}, Fault{"garbage", "head"},
                    Fault{"garbage", "range"}, Fault{"503", "head"}, Fault{"429", "head"},
                    Fault{"500", "head"}, Fault{"reset", "head"}, Fault{"hang", "head"},
                    Fault{"503", "range"}, Fault{"429", "range"}, Fault{"408", "range"},
                    Fault{"error200", "range"}, Fault{"reset", "range"}, Fault{"cut", "range"},
                    Fault{"torn_reset", "range"}, Fault{"trickle", "range"}, Fault{"no_etag", "range"},
                    Fault{"wrong_range", "range"}, Fault{"hang", "range"}, Fault{"trailer", "list"},
                    Fault{"trailer", "range"}, Fault{"unended", "list"}, Fault{"unended", "range"}),
    [](const auto& of) { return fmt::format("{}_{}", of.param.kind, of.param.name); });

// One in twenty that only read may be asked for once more.
TEST(S3, RequestsWhoseAnswersAreLateAreMadeOnceMore) {
  S3Server server({"--fault", "hang", "--name", "b/late"});
  const std::string bytes = some_bytes(1000);
  for (int i = 0; i < 60; ++i) server.put(fmt::format("b/d/{:02}", i), bytes);
  S3Options options = server.options();
  options.http.stall = std::chrono::seconds(15);
  options.http.hedge_after = std::chrono::milliseconds(300);
  const auto storage = s3_storage(options);
  for (const StoredFile& file : list(*storage, "b/d/")) {
    Wanted wanted;
    wanted.add(file, 0, bytes.size());
    wanted.read(*storage);
    wanted.expect(bytes);
  }
  server.put("b/late", bytes);
  const auto start = std::chrono::steady_clock::now();
  const auto late = storage->find("b/late");
  ASSERT_TRUE(late);
  Wanted wanted;
  wanted.add(*late, 0, bytes.size());
  wanted.read(*storage);
  wanted.expect(bytes);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(std::ranges::count_if(server.requests(),
                                  [](const auto& line) { return line.find("b/late") != line.npos; }),
            4);
}

TEST(S3, WhatIsWrittenIsSentOnceHoweverLateTheAnswer) {
  S3Server server({"--delay", "0.6"});
  S3Options options = server.options();
  options.http.hedge_after = std::chrono::milliseconds(1);
  const auto storage = s3_storage(options);
  server.put("b/x", "x");
  for (int i = 0; i < 24; ++i) ASSERT_TRUE(storage->find("b/x"));
  storage->write("b/new", 3, [](std::uint64_t /*offset*/, std::span<std::byte> to) {
    std::ranges::fill(to, std::byte{'y'});
  });
  EXPECT_EQ(server.count("put"), 1);
}

TEST(S3, WhatHasChangedIsRefusedByName) {
  S3Server server;
  server.put("b/x", "before");
  const auto storage = s3_storage(server.options());
  const auto file = storage->find("b/x");
  for (const std::string bytes : {"behind", "longer than before", "b"}) {
    server.put("b/x", bytes);
    Wanted wanted;
    wanted.add(*file, 2, 4);
    wanted.read(*storage);
    ASSERT_NE(wanted.ranges[0].error, nullptr) << bytes;
    const Failure failure = failure_of([&] { std::rethrow_exception(wanted.ranges[0].error); });
    EXPECT_EQ(failure.code, ErrorCode::corrupt) << failure.text;
    EXPECT_THAT(failure.text, AllOf(HasSubstr("s3://b/x"), HasSubstr("changed")));
  }
  std::filesystem::remove(server.directory() / "b/x");
  Wanted wanted;
  wanted.add(*file, 0, 6);
  wanted.read(*storage);
  EXPECT_EQ(failure_of([&] { std::rethrow_exception(wanted.ranges[0].error); }).code, ErrorCode::not_found);
}

// Nobody can tell then whether two answers belong together.
TEST(S3, WithoutETagsEachAnswerIsWhole) {
  S3Server server({"--no-etags", "--fault", "cut", "--kind", "range", "--times", "2"});
  const std::string bytes = some_bytes(300'000);
  server.put("b/x", bytes);
  const auto storage = s3_storage(server.options());
  const auto files = list(*storage, "b/");
  ASSERT_THAT(files, SizeIs(1));
  EXPECT_EQ(files[0].version, 0U);
  Wanted wanted;
  wanted.add(files[0], 0, bytes.size());
  wanted.read(*storage);
  wanted.expect(bytes);
  for (const std::string& line : server.requests()) {
    EXPECT_TRUE(!line.starts_with("range") || line.find("bytes=0-299999") != std::string::npos) << line;
  }
}

// One that failed comes before those that have not begun, which have all their time.
TEST(S3, WhatIsTriedAgainDoesNotWaitForAllOthers) {
  S3Server server({"--delay", "0.02", "--fault", "503", "--kind", "range", "--name", "b/000"});
  std::vector<StoredFile> files;
  for (int i = 0; i < 150; ++i) {
    files.push_back({.name = fmt::format("b/{:03}", i), .bytes = 1});
    server.put(files.back().name, "x");
  }
  S3Options options = server.options();
  options.http.connections = 1;
  options.http.deadline = std::chrono::seconds(1);
  Wanted wanted;
  for (const StoredFile& file : files) wanted.add(file, 0, 1);
  wanted.read(*s3_storage(options));
  wanted.expect("x");
}

TEST(S3, ChangesInTheMidstOfARead) {
  S3Server server({"--fault", "etag", "--kind", "range"});
  server.put("b/x", "bytes");
  const auto storage = s3_storage(server.options());
  const auto file = storage->find("b/x");
  Wanted wanted;
  wanted.add(*file, 0, 5);
  wanted.read(*storage);
  ASSERT_NE(wanted.ranges[0].error, nullptr);
  EXPECT_EQ(failure_of([&] { std::rethrow_exception(wanted.ranges[0].error); }).code, ErrorCode::corrupt);
}

TEST(S3, OneRangeThatFailsLeavesTheOthers) {
  S3Server server;
  server.put("b/x", "xxxx");
  server.put("b/y", "yyyy");
  const auto storage = s3_storage(server.options());
  const auto x = storage->find("b/x");
  const auto y = storage->find("b/y");
  std::filesystem::remove(server.directory() / "b/x");
  Wanted wanted;
  wanted.add(*x, 0, 4);
  wanted.add(*y, 0, 4);
  wanted.read(*storage);
  EXPECT_NE(wanted.ranges[0].error, nullptr);
  EXPECT_EQ(wanted.ranges[1].error, nullptr);
  EXPECT_EQ(*wanted.files[1], "yyyy");
}

TEST(S3, EndsByItsDeadline) {
  for (const char* const fault : {"503", "reset", "hang", "cut"}) {
    S3Server server({"--fault", fault, "--times", "1000000", "--kind", "range"});
    server.put("b/x", some_bytes(100'000));
    S3Options options = server.options();
    options.http.deadline = std::chrono::seconds(2);
    const auto storage = s3_storage(options);
    const auto file = storage->find("b/x");
    Wanted wanted;
    wanted.add(*file, 0, 100'000);
    const Failure failure = failure_of([&] {
      wanted.read(*storage);
      std::rethrow_exception(wanted.ranges[0].error);
    });
    if (std::string(fault) == "cut" && failure.text.empty()) continue;  // half of the rest comes each time
    EXPECT_EQ(failure.code, ErrorCode::timeout) << fault << failure.text;
    EXPECT_THAT(failure.text, AllOf(HasSubstr("s3://b/x"), HasSubstr("tries")));
    EXPECT_LT(failure.seconds, 10) << fault;
  }
}

TEST(S3, IsReadByAForkedProcessToo) {
  S3Server server;
  server.put("b/x", "content");
  const auto storage = s3_storage(server.options());
  const auto read = [&] {
    Wanted wanted;
    const auto file = storage->find("b/x");
    wanted.add(*file, 0, 7);
    wanted.read(*storage);
    return *wanted.files[0] == "content";
  };
  EXPECT_TRUE(read());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(read() ? 0 : 1);
  EXPECT_TRUE(read());
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(read());
}

TEST(Web, FilesAreReadByRangesOrWhole) {
  const TemporaryDirectory keys;
  const std::string pem = keys.path() / "server.pem";
  ASSERT_EQ(
      run_command("timeout 60 openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext "
                  "subjectAltName=IP:127.0.0.1 -keyout " +
                  pem + " -out " + pem + ".crt && cat " + pem + ".crt >> " + pem)
          .code,
      0);
  for (const bool has_ranges : {true, false}) {
    std::vector<std::string> arguments{"--open", "--certificate", pem};
    if (!has_ranges) arguments.emplace_back("--no-ranges");
    S3Server server(arguments);
    server.put("data/x.txt", "one\ntwo\nthree\n");
    const std::string name = "127.0.0.1:" + std::to_string(server.port()) + "/data/x.txt";
    const auto refused = http_storage("https");
    const Failure failure = failure_of([&] { (void)refused->find(name); });
    EXPECT_EQ(failure.code, ErrorCode::io);
    EXPECT_THAT(failure.text, HasSubstr("certificate"));
    HttpOptions trusting;
    trusting.ca_file = pem + ".crt";
    const auto storage = http_storage("https", trusting);
    const auto file = storage->find(name);
    ASSERT_TRUE(file);
    Wanted whole;
    whole.add(*file, 0, 14);
    whole.read(*storage);
    whole.expect("one\ntwo\nthree\n");
    Wanted part;
    part.add(*file, 4, 3);
    part.read(*storage);
    if (has_ranges) {
      part.expect("one\ntwo\nthree\n");
      CatalogOptions options;
      options.storages["https"] = storage;
      EXPECT_EQ(open_lines(Catalog("https://" + name, options))->size(), 3);
      for (const std::string number : {"008", "009", "010", "011"})
        server.put("data/y-" + number + ".txt", "line\n");
      const std::string many = name.substr(0, name.rfind('/')) + "/y-{008..011}.txt";
      EXPECT_EQ(open_lines(Catalog("https://" + many, options))->size(), 4);
    } else {
      ASSERT_NE(part.ranges[0].error, nullptr);
      EXPECT_EQ(failure_of([&] { std::rethrow_exception(part.ranges[0].error); }).code,
                ErrorCode::unsupported);
    }
    EXPECT_EQ(failure_of([&] { (void)list(*storage, name); }).code, ErrorCode::unsupported);
    EXPECT_FALSE(storage->find(name + ".none"));
  }
}

}  // namespace rota::test::remote_test
