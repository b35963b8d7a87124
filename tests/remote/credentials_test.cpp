// Where the keys of S3 come from, and what becomes of reads while they change.

#include "remote/reading.hpp"
#include "remote/server_process.hpp"
#include "test.hpp"
#include "values/interrupt.hpp"

namespace rota::test::credentials_test {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Variables of the environment, as they were again behind it.
class S3Credentials : public ::testing::Test {
 protected:
  S3Credentials() { set("AWS_EC2_METADATA_DISABLED", "true"); }
  ~S3Credentials() override {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }
  void set(const std::string& name, const std::string& value) {
    names_.push_back(name);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  // Files of profiles, of that text.
  void set_profiles(const S3Server& server, const std::string& credentials, const std::string& config) {
    for (const auto& [variable, text] :
         {std::pair{"AWS_SHARED_CREDENTIALS_FILE", credentials}, {"AWS_CONFIG_FILE", config}}) {
      const auto file = server.directory() / variable;
      std::ofstream(file) << text;
      set(variable, file);
    }
  }
  // Without any of their own; the server tells some.
  S3Options options_by_container(S3Server& server) {
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", fmt::format("http://127.0.0.1:{}/keys", server.port()));
    return options_by_environment(server);
  }
  static S3Options options_by_environment(S3Server& server) {
    S3Options options = server.options();
    options.credentials = {};
    return options;
  }

 private:
  std::vector<std::string> names_;
};

TEST_F(S3Credentials, ChangeWhileManyRead) {
  S3Server server({"--rotate", "0.4"});
  server.put("b/x", "content");
  const auto storage = s3_storage(options_by_container(server));
  const auto file = storage->find("b/x");
  ASSERT_TRUE(file);
  std::atomic<int> reads = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (const auto start = Clock::now(); seconds_since(start) < 2.5; ++reads) {
          Wanted wanted;
          for (int i = 0; i < 8; ++i) wanted.add(*file, 0, 7);
          wanted.read(*storage);
          wanted.expect("content");
        }
      });
    }
  }
  EXPECT_GT(reads, 20);
  EXPECT_GE(server.count("keys"), 3);
  EXPECT_LT(server.count("keys"), reads / 2);
}

TEST_F(S3Credentials, AServerOfKeysThatHangsIsAskedOnceForAll) {
  S3Server server({"--rotate", "100", "--fault", "hang", "--kind", "keys", "--times", "1000"});
  server.put("b/x", "content");
  S3Options options = options_by_container(server);
  options.http.deadline = std::chrono::seconds(2);
  options.http.connections = 2;
  std::vector<StoredFile> files;
  for (int i = 0; i < 200; ++i) files.push_back({.name = fmt::format("b/{}", i), .bytes = 7});
  Wanted wanted;
  for (const StoredFile& file : files) wanted.add(file, 0, 1);
  const auto start = Clock::now();
  wanted.read(*s3_storage(options));
  EXPECT_LT(seconds_since(start), 10);
  for (const StoredBytes& one : wanted.ranges) ASSERT_NE(one.error, nullptr);
  EXPECT_THAT(failure_of([&] { std::rethrow_exception(wanted.ranges[0].error); }).text,
              HasSubstr("ask the container for credentials"));
}

// Whoever waits for keys may be called away, as whoever waits for data.
TEST_F(S3Credentials, AWaitForThemCanBeEnded) {
  S3Server server({"--rotate", "100", "--fault", "hang", "--kind", "keys", "--times", "1000"});
  const auto storage = s3_storage(options_by_container(server));
  struct CalledAway {};
  const auto start = Clock::now();
  const internal::InterruptScope scope([&] {
    if (seconds_since(start) > 0.2) throw CalledAway();
  });
  const StoredFile file{.name = "b/x", .bytes = 7};
  Wanted wanted;
  wanted.add(file, 0, 7);
  EXPECT_THROW(wanted.read(*storage), CalledAway);
  EXPECT_LT(seconds_since(start), 1);
}

TEST_F(S3Credentials, AreNotAskedForByWayOfAProxy) {
  S3Server proxy({"--rotate", "100"});
  set("http_proxy", fmt::format("http://127.0.0.1:{}", proxy.port()));
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/keys");
  set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret");
  const Failure failure = failure_of([&] { (void)s3_storage(options_by_environment(proxy))->find("b/x"); });
  EXPECT_THAT(failure.text, testing::AllOf(HasSubstr("ask the container"), Not(HasSubstr("secret"))));
  EXPECT_EQ(proxy.count("keys"), 0);
}

TEST_F(S3Credentials, NobodyIsSomebodyElseByAMistakeInAProfile) {
  S3Server server;
  server.put("b/x", "x");
  set_profiles(server, "",
               "[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = test-secret\n"
               "[profile role]\nrole_arn = arn\n");
  const S3Options options = options_by_environment(server);
  EXPECT_TRUE(s3_storage(options)->find("b/x"));
  const auto refusal_of = [&](const char* profile) {
    set("AWS_PROFILE", profile);
    return failure_of([&] { (void)s3_storage(options)->find("b/x"); }).text;
  };
  EXPECT_THAT(refusal_of("defualt"), HasSubstr("no profile \"defualt\""));
  EXPECT_THAT(refusal_of("role"), HasSubstr("role_arn"));
}

TEST_F(S3Credentials, HalfOfAKeyIsAMistake) {
  S3Server server;
  set("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
  EXPECT_THAT(failure_of([&] { (void)s3_storage(options_by_environment(server))->find("b/x"); }).text,
              HasSubstr("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not"));
}

TEST_F(S3Credentials, ADefaultProfileOfARoleIsRefused) {
  S3Server server;
  set_profiles(server, "", "[default]\nrole_arn = arn\n");
  EXPECT_THAT(failure_of([&] { (void)s3_storage(options_by_environment(server))->find("b/x"); }).text,
              HasSubstr("role_arn"));
}

TEST_F(S3Credentials, AreOfOneProfileFile) {
  S3Server server;
  server.put("b/x", "x");
  // A token of other keys would make the server refuse these.
  set_profiles(server, "[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = test-secret\n",
               "[default]\naws_access_key_id = A\naws_secret_access_key = B\naws_session_token = old\n");
  server.stop();
  S3Server strict({"--expired", "old"});
  strict.put("b/x", "x");
  EXPECT_TRUE(s3_storage(options_by_environment(strict))->find("b/x"));
}

}  // namespace rota::test::credentials_test
