// Who may read from S3, and by which name, region and keys: what is refused is refused at once, and says why.

#include "remote/bytes.hpp"
#include "remote/reading.hpp"
#include "remote/server_process.hpp"
#include "test.hpp"

namespace rota::test::access_test {

TEST(S3, BucketsHaveNamesOfBuckets) {
  S3Server server;
  const auto storage = s3_storage(server.options());
  for (const char* const name : {"b?x=1/k", "../k", "a b/k", "%62/k", "b#/k", "/k"}) {
    EXPECT_EQ(failure_of([&] { (void)storage->find(name); }).code, ErrorCode::invalid_argument) << name;
  }
}

// The answers of requests that were under way when another one learned it.
TEST(S3, ManyMayLearnTheRegionAtOnce) {
  S3Server server({"--region", "eu-west-9", "--delay", "0.2"});
  const std::string bytes = some_bytes(100'000);
  const auto storage = s3_storage(server.options());
  std::vector<StoredFile> files;
  for (int i = 0; i < 16; ++i) {
    server.put(fmt::format("b/{:02}", i), bytes);
    files.push_back({.name = fmt::format("b/{:02}", i), .bytes = bytes.size()});
  }
  Wanted wanted;
  for (const StoredFile& file : files) wanted.add(file, 0, bytes.size());
  wanted.read(*storage);
  wanted.expect(bytes);
}

TEST(S3, RefusalsAreToldAtOnceAndWithoutSecrets) {
  S3Server server({"--expired", "old-token"});
  server.put("b/x", "x");
  const auto expect = [&](S3Options options, const std::string& name, ErrorCode code,
                          const std::string& text) {
    const auto storage = s3_storage(std::move(options));
    const Failure failure = failure_of([&] { (void)list(*storage, name); });
    EXPECT_EQ(failure.code, code) << failure.text;
    EXPECT_THAT(failure.text,
                AllOf(HasSubstr(text), Not(HasSubstr("test-secret")), Not(HasSubstr("old-token"))));
    EXPECT_LT(failure.seconds, 8);
  };
  expect(server.options(), "none/", ErrorCode::not_found, "NoSuchBucket");
  expect(server.options(), "none/", ErrorCode::not_found, "AWS_ENDPOINT_URL");
  S3Options options = server.options();
  options.credentials.secret_key = "wrong";
  expect(options, "b/", ErrorCode::io, "check the credentials");
  options = server.options();
  options.credentials.session_token = "old-token";
  expect(options, "b/", ErrorCode::io, "ExpiredToken");
  options = server.options();
  options.credentials = {};
  options.is_anonymous = true;
  expect(options, "b/", ErrorCode::io, "AccessDenied");
  options = server.options();
  options.endpoint = "http://127.0.0.1:1";
  expect(options, "b/", ErrorCode::io, "list s3://b/");
  options.endpoint = "http://nobody.invalid";
  expect(options, "b/", ErrorCode::io, "nobody.invalid");
  options = server.options();
  options.endpoint.replace(0, 4, "https");
  expect(options, "b/", ErrorCode::io, "list s3://b/");
  expect(server.options(), "", ErrorCode::invalid_argument, "name a bucket");
}

TEST(S3, FindsTheRegionOfABucket) {
  for (const bool redirects : {false, true}) {
    std::vector<std::string> arguments{"--region", "eu-west-9"};
    if (redirects) arguments.emplace_back("--redirect");
    S3Server server(arguments);
    server.put("b/x", "x");
    const auto storage = s3_storage(server.options());
    EXPECT_THAT(list(*storage, "b/"), SizeIs(1));
    EXPECT_TRUE(s3_storage(server.options())->find("b/x"));
  }
}

TEST(S3, SignsTheHostThatItAsks) {
  S3Server server;
  server.put("b/x", "x");
  S3Options options = server.options();
  options.endpoint = fmt::format("http://127.0.0.1:{}/gateway", server.port());
  // The server takes the gateway for a bucket: what matters is that it finds the signature right.
  EXPECT_THAT(failure_of([&] { list(*s3_storage(options), "b/"); }).text, Not(HasSubstr("Signature")));
}

TEST(S3, IsAskedByWayOfAProxy) {
  S3Server server;
  server.put("b/x", "x");
  S3Options options = server.options();
  options.endpoint = "http://store.invalid";
  ::setenv("http_proxy", fmt::format("http://127.0.0.1:{}", server.port()).c_str(), 1);
  EXPECT_TRUE(s3_storage(options)->find("b/x"));
  ::unsetenv("http_proxy");
}

TEST(S3, AWebServerIsNeverToldOfAFragment) {
  EXPECT_EQ(failure_of([] { (void)http_storage("http")->find("127.0.0.1/x#1"); }).code,
            ErrorCode::invalid_argument);
}

TEST(S3, OptionsAreChecked) {
  const auto message = [](const S3Options& options) {
    return failure_of([&] { (void)s3_storage(options); }).text;
  };
  EXPECT_THAT(message({.endpoint = "store.local"}), HasSubstr("endpoint is store.local"));
  EXPECT_THAT(message({.credentials = {.access_key = "a"}}), HasSubstr("both"));
  S3Options options;
  options.http.connections = 0;
  EXPECT_THAT(message(options), HasSubstr("connections is 0"));
  EXPECT_EQ(failure_of([] { (void)http_storage("ftp"); }).code, ErrorCode::invalid_argument);
}

}  // namespace rota::test::access_test
