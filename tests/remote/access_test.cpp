// Who may read from S3, and by which name, region and keys: what is refused is refused at once, and says why.

#include "remote/reading.hpp"

namespace rota::test::access_test {

// The answers of requests that were under way when another one learned it.
TEST_F(S3, ManyMayLearnTheRegionAtOnce) {
  server.become({"--region", "eu-west-9", "--delay", "0.2"});
  const std::string bytes = some_bytes(10'000);
  std::vector<StoredFile> files;
  for (int i = 0; i < 16; ++i) files.push_back({.name = fmt::format("b/{:02}", i), .bytes = bytes.size()});
  Wanted wanted;
  for (const StoredFile& file : files) {
    server.put(file.name, bytes);
    wanted.add(file, 0, bytes.size());
  }
  wanted.read(*storage());
  wanted.expect(bytes);
}

// What is tried again until a deadline ends as a timeout.
TEST_F(S3, RefusalsAreToldAtOnceAndWithoutSecrets) {
  server.become({"--expired", "old-token"});
  server.put("b/x", "x");
  const auto expect = [&](const S3Options& options, const std::string& name, ErrorCode code,
                          const std::string& text) {
    const auto error = error_of([&] { (void)list(*s3_storage(options), name); });
    ASSERT_THAT(error, is_error(code, {text}));
    EXPECT_THAT(error->what(), AllOf(Not(HasSubstr("test-secret")), Not(HasSubstr("old-token"))));
  };
  const S3Options right = server.options();
  expect(right, "none/", not_found, "NoSuchBucket");
  expect(right, "none/", not_found, "AWS_ENDPOINT_URL");
  expect(right, "", invalid_argument, "name a bucket");
  S3Options options = right;
  options.credentials.secret_key = "wrong";
  expect(options, "b/", io, "check the credentials");
  options = right;
  options.credentials.session_token = "old-token";
  expect(options, "b/", io, "ExpiredToken");
  options = right;
  options.credentials = {};
  options.is_anonymous = true;
  expect(options, "b/", io, "AccessDenied");
  options = right;
  options.endpoint.replace(0, 4, "https");
  expect(options, "b/", io, "list s3://b/");
  options.endpoint = "http://127.0.0.1:1";
  expect(options, "b/", io, "list s3://b/");
  options.endpoint = "http://nobody.invalid";
  expect(options, "b/", io, "nobody.invalid");
}

TEST_F(S3, FindsTheRegionOfABucket) {
  server.put("b/x", "x");
  for (const std::string answers : {"--open", "--redirect"}) {
    server.become({"--region", "eu-west-9", answers});
    EXPECT_THAT(list(*storage(), "b/"), SizeIs(1));
    EXPECT_TRUE(storage()->find("b/x"));
  }
}

TEST_F(S3, SignsTheHostThatItAsks) {
  server.put("b/x", "x");
  S3Options options = server.options();
  options.endpoint += "/gateway";
  // The server takes the gateway for a bucket: what matters is that it finds the signature right.
  EXPECT_THAT(error_of([&] { list(*s3_storage(options), "b/"); })->what(), Not(HasSubstr("Signature")));
}

TEST_F(S3, IsAskedByWayOfAProxy) {
  server.put("b/x", "x");
  S3Options options = server.options();
  ::setenv("http_proxy", options.endpoint.c_str(), 1);
  options.endpoint = "http://store.invalid";
  EXPECT_TRUE(s3_storage(options)->find("b/x"));
  ::unsetenv("http_proxy");
}

TEST(Remote, OptionsAndNamesAreChecked) {
  EXPECT_ERROR(s3_storage({.endpoint = "store.local"}), invalid_argument, {"endpoint is store.local"});
  EXPECT_ERROR(s3_storage({.credentials = {.access_key = "a"}}), invalid_argument, {"both"});
  EXPECT_ERROR(s3_storage({.http = {.connections = 0}}), invalid_argument, {"connections is 0"});
  EXPECT_ERROR(http_storage("ftp"), invalid_argument);
  // A web server is never told of a fragment.
  EXPECT_ERROR(http_storage("http")->find("127.0.0.1/x#1"), invalid_argument);
  const auto storage = s3_storage({.credentials = {.access_key = "a", .secret_key = "b"}});
  for (const char* const name : {"b?x=1/k", "../k", "a b/k", "%62/k", "b#/k", "/k"}) {
    EXPECT_ERROR(storage->find(name), invalid_argument) << name;
  }
}

}  // namespace rota::test::access_test
