// Where the keys of S3 come from, and what becomes of reads while they change.

#include "remote/credentials.hpp"
#include "core/wait.hpp"
#include "remote/reading.hpp"

namespace rota::test::credentials_test {

using Clock = std::chrono::steady_clock;

const std::vector<std::string> kHangs{"--rotate", "100",  "--fault", "hang",
                                      "--kind",   "keys", "--times", "1000"};
constexpr const char* kRightKeys =
    "[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = test-secret\n";

/// Variables of the environment, as they were again behind it.
class S3Credentials : public S3 {
 protected:
  S3Credentials() {
    set("AWS_EC2_METADATA_DISABLED", "true");
    server.put("b/x", "content");
  }
  ~S3Credentials() override {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }
  void set(const std::string& name, const std::string& value) {
    names_.push_back(name);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  // Files of profiles, of that text.
  void set_profiles(const std::string& credentials, const std::string& config) {
    for (const auto& [variable, text] :
         {std::pair{"AWS_SHARED_CREDENTIALS_FILE", credentials}, {"AWS_CONFIG_FILE", config}}) {
      set(variable, files_.write(variable, text));
    }
  }
  // Without any of their own.
  S3Options options_by_environment() {
    S3Options options = server.options();
    options.access_key = options.secret_key = {};
    options.http.deadline = deadline_;
    return options;
  }
  // Such as the server tells.
  S3Options options_by_container() {
    set("AWS_CONTAINER_CREDENTIALS_FULL_URI", fmt::format("http://127.0.0.1:{}/keys", server.port()));
    return options_by_environment();
  }
  bool is_found() { return s3_storage(options_by_environment())->find("b/x").has_value(); }
  std::chrono::milliseconds deadline_ = 10s;
  void expect_refusal(const std::string& word) {
    EXPECT_THAT(error_of([&] { is_found(); }), Optional(Property(&Error::what, HasSubstr(word))));
  }

 private:
  std::vector<std::string> names_;
  TemporaryDirectory files_;
};

TEST_F(S3Credentials, ChangeWhileManyRead) {
  server.become({"--rotate", "0.4"});
  const auto storage = s3_storage(options_by_container());
  const auto file = storage->find("b/x");
  ASSERT_TRUE(file);
  std::atomic<int> reads = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (; reads < 100 || server.count("keys") < 3; ++reads) {
          Wanted wanted;
          for (int i = 0; i < 8; ++i) wanted.add(*file, 0, 7);
          wanted.read(*storage);
          wanted.expect("content");
        }
      });
    }
  }
  EXPECT_LT(server.count("keys"), reads / 2);
}

TEST_F(S3Credentials, AServerOfKeysThatHangsIsAskedOnceForAll) {
  server.become(kHangs);
  S3Options options = options_by_container();
  options.http.deadline = 500ms;
  options.http.connections = 2;
  std::vector<StoredFile> files;
  for (int i = 0; i < 200; ++i) files.push_back({.name = fmt::format("b/{}", i), .bytes = 7});
  Wanted wanted;
  for (const StoredFile& file : files) wanted.add(file, 0, 1);
  wanted.read(*s3_storage(options));
  EXPECT_EQ(server.count("keys"), 1);
  for (const StoredBytes& one : wanted.ranges) {
    EXPECT_THAT(error_of([&] { std::rethrow_exception(one.error); }),
                Optional(Property(&Error::what, HasSubstr("fetch credentials from the container"))));
  }
}

// Whoever waits for keys may be called away, as whoever waits for data.
TEST_F(S3Credentials, AWaitForThemCanBeEnded) {
  server.become(kHangs);
  const auto storage = s3_storage(options_by_container());
  struct CalledAway : Stopped {};
  const auto start = Clock::now();
  const WaitScope scope{Wait([&] {
    if (server.count("keys") > 0) throw CalledAway();
  })};
  EXPECT_THROW(read(*storage, {.name = "b/x", .bytes = 7}, 0, 7), CalledAway);
  EXPECT_LT(Clock::now() - start, 8s);
}

TEST_F(S3Credentials, AreNotAskedForByWayOfAProxy) {
  server.become({"--rotate", "100"});
  set("http_proxy", fmt::format("http://127.0.0.1:{}", server.port()));
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/keys");
  deadline_ = 1s;
  set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret");
  const auto error = error_of([&] { is_found(); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("from the container"), Not(HasSubstr("secret"))));
  EXPECT_EQ(server.count("keys"), 0);
}

TEST_F(S3Credentials, NobodyIsSomebodyElseByAMistake) {
  set_profiles("", kRightKeys + std::string("[profile role]\nrole_arn = arn\n"));
  EXPECT_TRUE(is_found());
  set("AWS_PROFILE", "defualt");
  expect_refusal("no profile \"defualt\"");
  set("AWS_PROFILE", "role");
  expect_refusal("role_arn");
  expect_refusal("eval \"$(aws configure export-credentials --profile role --format env)\"");
  set("AWS_PROFILE", "");
  set_profiles("", "[default]\nrole_arn = arn\n");
  expect_refusal("role_arn");
  set("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
  expect_refusal("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not");
}

TEST_F(S3Credentials, MayComeFromAProcess) {
  const auto set_process = [this](const std::string& command) {
    set_profiles("", "[default]\ncredential_process = " + command + "\n");
  };
  const TemporaryDirectory here;
  set_process("sh " + here.write("keys.sh", R"(echo '{"Version": 1, "AccessKeyId": "AKIDEXAMPLE",
    "SecretAccessKey": "test-secret", "SessionToken": "t", "Expiration": "2099-01-02T03:04:05Z"}')")
                          .native());
  EXPECT_TRUE(is_found());
  server.become({"--expired", "t"});
  expect_refusal("ExpiredToken");
  set_process("echo {}");
  expect_refusal("credential_process: the answer has no credentials in it");
  set_process("false");
  expect_refusal("credential_process: it failed");
  const auto start = Clock::now();
  deadline_ = 1s;
  set_process("sleep 60");
  expect_refusal("took more than 1 s");
  EXPECT_LT(Clock::now() - start, 8s);
}

TEST(S3CredentialsText, OfAProcessEnd) {
  const auto found = parse_credentials(
      R"({"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "SessionToken": "t",
          "Expiration": "1970-01-02T00:00:01Z"})",
      "ask");
  EXPECT_EQ(found.session_token, "t");
  EXPECT_EQ(found.end, 86'401);
}

// The store that a profile names, itself or by the services that it names.
TEST_F(S3Credentials, AProfileSaysWhereTheStoreIs) {
  const std::string url = fmt::format("http://127.0.0.1:{}", server.port());
  const auto expect_found = [&](const std::string& profile) {
    set_profiles(kRightKeys, "[default]\nregion = eu-west-9\n" + profile);
    S3Options options = options_by_environment();
    options.endpoint = options.region = "";
    EXPECT_TRUE(s3_storage(options)->find("b/x")) << profile;
  };
  server.become({"--region", "eu-west-9"});
  expect_found("endpoint_url = " + url + "/\n");
  expect_found(
      "endpoint_url = http://127.0.0.1:1\nservices = mine\n[services mine]\nec2 =\n  endpoint_url = "
      "http://x\n"
      "s3 =\n  endpoint_url = " +
      url + "\n");
  set("AWS_ENDPOINT_URL_S3", url);
  expect_found("endpoint_url = http://127.0.0.1:1\n");
}

TEST_F(S3Credentials, WhoeverAsksMayPay) {
  server.become({"--requester-pays"});
  set_profiles(kRightKeys, "");
  expect_refusal("403");
  set("AWS_REQUEST_PAYER", "requester");
  EXPECT_TRUE(is_found());
}

// A token of other keys would make the server refuse these.
TEST_F(S3Credentials, AreOfOneProfileFile) {
  set_profiles(kRightKeys,
               "[default]\naws_access_key_id = A\naws_secret_access_key = B\naws_session_token = old\n");
  server.become({"--expired", "old"});
  EXPECT_TRUE(is_found());
}

}  // namespace rota::test::credentials_test
