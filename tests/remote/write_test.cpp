// Objects that are written to an S3 that fails: whole, or not at all.

#include "remote/bytes.hpp"
#include "remote/server_process.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::write_test {

constexpr std::size_t kLarge = (20 << 20) + 12'345;  // in three parts

void write(const Storage& storage, const std::string& name, const std::string& bytes) {
  storage.write(name, bytes.size(), [&](std::uint64_t offset, std::span<std::byte> to) {
    std::memcpy(to.data(), bytes.data() + offset, to.size());
  });
}

// What the server has; empty without.
std::string content(const S3Server& server, const std::string& name) {
  std::ifstream file(server.directory() / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(S3Write, PutsFilesOfAnySize) {
  S3Server server;
  const auto storage = s3_storage(server.options());
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{16} << 20, kLarge}) {
    const std::string name = "b/d/ +%\xC3\xA4&=" + std::to_string(size);
    const std::string bytes = some_bytes(size);
    write(*storage, name, bytes);
    const auto found = storage->find(name);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->bytes, size);
    EXPECT_TRUE(content(server, name) == bytes);
  }
  EXPECT_EQ(server.count("put"), 3);
  EXPECT_EQ(server.count("part"), 3);
  write(*storage, "b/d/ +%\xC3\xA4&=1", "another");
  EXPECT_EQ(content(server, "b/d/ +%\xC3\xA4&=1"), "another");
}

/// A fault, and what suffers it.
class EachFault : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(EachFault, IsMended) {
  const auto& [fault, kind] = GetParam();
  S3Server server({"--fault", fault, "--kind", kind, "--times", "2"});
  const auto storage = s3_storage(server.options());
  const std::string bytes = some_bytes(std::string_view(kind) == "put" ? 1000 : kLarge);
  write(*storage, "b/x", bytes);
  EXPECT_TRUE(content(server, "b/x") == bytes);
  if (fault == std::string_view("lost")) return;  // one that ended the upload is not repeated
  const bool has_body = kind == std::string_view("begin") || kind == std::string_view("complete");
  const bool is_of_body = fault == std::string_view("cut") || fault == std::string_view("torn_reset");
  EXPECT_GE(server.count(kind), is_of_body && !has_body ? 1 : 3);
}
INSTANTIATE_TEST_SUITE_P(S3Write, EachFault,
                         testing::Combine(testing::Values("503", "429", "500", "error200", "reset", "lost",
                                                          "hang", "cut", "torn_reset"),
                                          testing::Values("put", "begin", "part", "complete")),
                         [](const auto& one) {
                           return std::string("of_") + std::get<0>(one.param) + "_to_" +
                                  std::get<1>(one.param);
                         });

TEST(S3Write, WhatFailsLeavesWhatWasThereAndNoParts) {
  S3Server server({"--fault", "503", "--kind", "complete", "--times", "1000"});
  server.put("b/x", "before");
  S3Options options = server.options();
  options.http.deadline = std::chrono::seconds(3);
  const auto storage = s3_storage(options);
  const std::string bytes = some_bytes(kLarge);
  EXPECT_THAT(error_of([&] { write(*storage, "b/x", bytes); }),
              is_error(ErrorCode::timeout, {"write s3://b/x", "503"}));
  EXPECT_EQ(content(server, "b/x"), "before");
  EXPECT_EQ(server.count("abort"), 1);
}

// Where the store does not know the upload any more, it may have ended it, or lost it.
TEST(S3Write, AnUploadThatIsGoneIsLookedFor) {
  S3Server server({"--fault", "404", "--kind", "complete", "--times", "1000"});
  const std::string bytes = some_bytes(kLarge);
  server.put("b/x", some_bytes(kLarge, 2));
  EXPECT_THAT(error_of([&] { write(*s3_storage(server.options()), "b/x", bytes); }),
              is_error(ErrorCode::io, {"write s3://b/x", "lost its parts"}));
}

// S3 says so of what is not there to those who may not list the bucket.
TEST(S3Write, WhoMayNotAskMayWrite) {
  S3Server server({"--fault", "403", "--kind", "head"});
  const std::string bytes = some_bytes(kLarge);
  write(*s3_storage(server.options()), "b/x", bytes);
  EXPECT_TRUE(content(server, "b/x") == bytes);
}

TEST(S3Write, DatasetsArePackedIntoABucket) {
  const TemporaryDirectory directory;
  for (int i = 0; i < 50; ++i) directory.write(fmt::format("{:02}.txt", i), fmt::format("{}", i));
  S3Server server;
  server.put("b/other", "");  // a bucket
  const Storages storages{{"s3", s3_storage(server.options())}};
  const auto files = open_files(directory.path());
  for (const ShardFormat format : {ShardFormat::tar, ShardFormat::mds}) {
    const std::string place = fmt::format("s3://b/{}", to_string(format));
    const ShardReport report =
        write_shards(files, place, {.format = format, .shard_bytes = 300, .storages = storages});
    EXPECT_TRUE(report.is_complete);
    EXPECT_GT(report.shards, 1);
    const auto packed = open(Catalog(place, {.storages = storages}));
    ASSERT_EQ(packed->size(), files->size());
    const Samples there(*packed, all_ids(*packed));
    const Samples here(*files, all_ids(*files));
    for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(there.sample(0, i), here.sample(0, i));
  }
}

TEST(S3Write, WhatFillThrowsEndsIt) {
  S3Server server;
  const auto storage = s3_storage(server.options());
  for (const std::uint64_t size : {std::uint64_t{10}, std::uint64_t{kLarge}}) {
    EXPECT_THROW(storage->write("b/x", size,
                                [](std::uint64_t offset, std::span<std::byte>) {
                                  if (offset == 0) throw std::runtime_error("the disk is gone");
                                }),
                 std::runtime_error);
    EXPECT_FALSE(storage->find("b/x"));
  }
  EXPECT_EQ(server.count("abort"), 1);
}

TEST(S3Write, NobodyElseMayWrite) {
  S3Server server;
  S3Options options = server.options();
  options.credentials.secret_key = "another-secret";
  const auto error = error_of([&] { write(*s3_storage(options), "b/x", "bytes"); });
  EXPECT_THAT(error, is_error(ErrorCode::io, {"write s3://b/x", "403", "credentials"}));
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), testing::Not(testing::HasSubstr("another-secret")));
  EXPECT_THAT(error_of([&] { write(*http_storage("http"), "127.0.0.1/x", "bytes"); }),
              is_error(ErrorCode::unsupported, {"127.0.0.1/x", "only read"}));
}

}  // namespace rota::test::write_test
