// Objects that are written to an S3 that fails: whole, or not at all.

#include "remote/reading.hpp"

namespace rota::test::write_test {

constexpr std::size_t kLarge = (20 << 20) + 12'345;  // in three parts

void write(const Storage& storage, const std::string& name, const std::string& bytes) {
  storage.write(name, bytes.size(), [&](std::uint64_t offset, std::span<std::byte> to) {
    std::memcpy(to.data(), bytes.data() + offset, to.size());
  });
}

using S3Write = S3;

TEST_F(S3Write, PutsFilesOfAnySize) {
  const auto storage = this->storage();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{16} << 20, kLarge}) {
    const std::string name = "b/d/ +%\xC3\xA4&=" + std::to_string(size);
    const std::string bytes = some_bytes(size);
    write(*storage, name, bytes);
    const auto found = storage->find(name);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->bytes, size);
    EXPECT_TRUE(server.content(name) == bytes);
  }
  EXPECT_EQ(server.count("put"), 3);
  EXPECT_EQ(server.count("part"), 3);
  write(*storage, "b/d/ +%\xC3\xA4&=1", "another");
  EXPECT_EQ(server.content("b/d/ +%\xC3\xA4&=1"), "another");
}

class WriteFaults : public S3 {
 protected:
  void expect_mended(const std::string& fault, const std::string& kind, int times) {
    SCOPED_TRACE(fault + " of " + kind);
    server.become({"--fault", fault, "--kind", kind, "--times", std::to_string(times)});
    const std::string bytes = some_bytes(kind == "put" ? 1000 : kLarge, ++seed_);
    write(*storage_in_spite_of(fault), "b/x", bytes);
    EXPECT_TRUE(server.content("b/x") == bytes);
    if (fault == "lost") return;  // one that ended the upload is not repeated
    const bool has_body = kind == "begin" || kind == "complete";
    const bool is_of_body = fault == "cut" || fault == "torn_reset";
    EXPECT_GE(server.count(kind), is_of_body && !has_body ? 1 : 1 + times);
  }

 private:
  unsigned seed_ = 0;
};

TEST_F(WriteFaults, AreMended) {
  for (const auto& [fault, kind] :
       std::initializer_list<std::pair<const char*, const char*>>{{"503", "put"},
                                                                  {"429", "begin"},
                                                                  {"500", "part"},
                                                                  {"error200", "complete"},
                                                                  {"lost", "complete"},
                                                                  {"lost", "part"},
                                                                  {"cut", "begin"},
                                                                  {"reset", "part"},
                                                                  {"torn_reset", "complete"},
                                                                  {"hang", "put"}}) {
    expect_mended(fault, kind, 1);
  }
}

using WriteFaultsCampaign = WriteFaults;
TEST_F(WriteFaultsCampaign, AreMended) {
  for (const auto* fault : {"503", "429", "500", "error200", "reset", "lost", "hang", "cut", "torn_reset"}) {
    for (const auto* kind : {"put", "begin", "part", "complete"}) expect_mended(fault, kind, 2);
  }
}

TEST_F(S3Write, WhatFailsLeavesWhatWasThereAndNoParts) {
  server.become({"--fault", "503", "--kind", "complete", "--times", "1000"});
  server.put("b/x", "before");
  S3Options options = server.options();
  options.http.deadline = 2s;
  const auto storage = s3_storage(options);
  const std::string bytes = some_bytes(kLarge);
  EXPECT_ERROR(write(*storage, "b/x", bytes), timeout, {"write s3://b/x", "503"});
  EXPECT_EQ(server.content("b/x"), "before");
  EXPECT_EQ(server.count("abort"), 1);
}

// Where the store does not know the upload any more, it may have ended it, or lost it.
TEST_F(S3Write, AnUploadThatIsGoneIsLookedFor) {
  server.become({"--fault", "404", "--kind", "complete", "--times", "1000"});
  const std::string bytes = some_bytes(kLarge);
  server.put("b/x", some_bytes(kLarge, 2));
  EXPECT_ERROR(write(*storage(), "b/x", bytes), io, {"write s3://b/x", "lost its parts"});
}

// S3 says so of what is not there to those who may not list the bucket.
TEST_F(S3Write, WhoMayNotAskMayWrite) {
  server.become({"--fault", "403", "--kind", "head"});
  const std::string bytes = some_bytes(kLarge);
  write(*storage(), "b/x", bytes);
  EXPECT_TRUE(server.content("b/x") == bytes);
}

TEST_F(S3Write, WhatFillThrowsEndsIt) {
  const auto storage = this->storage();
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

TEST_F(S3Write, NobodyElseMayWrite) {
  S3Options options = server.options();
  options.secret_key = "another-secret";
  const auto error = error_of([&] { write(*s3_storage(options), "b/x", "bytes"); });
  EXPECT_THAT(error, is_error(io, {"write s3://b/x", "403", "credentials"}));
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), Not(HasSubstr("another-secret")));
  EXPECT_ERROR(write(*http_storage("http"), "127.0.0.1/x", "bytes"), unsupported,
               {"127.0.0.1/x", "only read"});
}

}  // namespace rota::test::write_test
