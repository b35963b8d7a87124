// Who may read from S3, and by which name, region and keys: what is refused is refused at once, and says why.

#include "remote/http.hpp"
#include "remote/reading.hpp"
#include "run_command.hpp"

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

TEST(Certificates, AreLibcurlsOwnOrTheFirstFileThatIsThere) {
  const TemporaryDirectory directory;
  const auto made = [&](const char* name) {
    std::ofstream(directory / name) << name;
    return std::string(directory / name);
  };
  const std::vector<std::string> known{directory / "none", made("a"), made("b")};
  EXPECT_EQ(internal::find_ca_file(made("own").c_str(), known), "");
  EXPECT_EQ(internal::find_ca_file(nullptr, known), "");
  EXPECT_EQ(internal::find_ca_file("/none", known), known[1]);
  EXPECT_EQ(internal::find_ca_file("/none", {"/none", "/none/either"}), "");
  EXPECT_THAT(internal::known_ca_files(), Each(StartsWith("/etc/")));
}

// Of a directory they are found by the hash of their subject.
TEST(Certificates, MayBeADirectory) {
  const TemporaryDirectory keys;
  const std::string pem = keys / "server.pem";
  const std::string command =
      "cd {} && timeout 60 openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext "
      "subjectAltName=IP:127.0.0.1 -keyout server.pem -out a.crt && cat a.crt >> server.pem && "
      "cp a.crt $(openssl x509 -noout -subject_hash -in a.crt).0";
  ASSERT_EQ(run_command(fmt::format(fmt::runtime(command), keys.path().string())).code, 0);
  S3Server server({"--open", "--certificate", pem});
  server.put("b/x", "x");
  const std::string name = fmt::format("127.0.0.1:{}/b/x", server.port());
  EXPECT_TRUE(http_storage("https", {.ca_file = keys.path()})->find(name));
  ::unsetenv("SSL_CERT_FILE");
  ::setenv("SSL_CERT_DIR", keys.path().c_str(), 1);
  const auto storage = http_storage("https");
  ::unsetenv("SSL_CERT_DIR");
  EXPECT_TRUE(storage->find(name));
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
  options.secret_key = "wrong";
  expect(options, "b/", io, "check the credentials");
  options = right;
  options.session_token = "old-token";
  expect(options, "b/", io, "ExpiredToken");
  options = right;
  options.access_key = options.secret_key = {};
  options.is_anonymous = true;
  expect(options, "b/", io, "AccessDenied");
  options = right;
  options.http.deadline = 1s;  // whoever is not there is waited for
  options.endpoint.replace(0, 4, "https");
  expect(options, "b/", io, "list s3://b/");
  options.endpoint = "http://127.0.0.1:1";
  expect(options, "b/", io, "list s3://b/");
  options.endpoint = "http://nobody.invalid";
  expect(options, "b/", io, "nobody.invalid");
}

// Whoever repeats what it was asked, as proxies do.
TEST_F(S3, NothingThatWasSentIsToldOfAnAnswer) {
  server.put("b/x", "x");
  S3Options options = server.options();
  options.session_token = "a-token";
  for (const std::string kind : {"list", "head", "range", "put"}) {
    server.become({"--fault", "echo", "--kind", kind, "--times", "9"});
    const auto storage = s3_storage(options);
    const StoredFile file{.name = "b/x", .bytes = 1, .version = 1};
    char byte = 0;
    StoredBytes wanted{.file = &file, .offset = 0, .to = std::as_writable_bytes(std::span(&byte, 1))};
    const auto error = error_of([&] {
      if (kind == "list") (void)list(*storage, "b/");
      if (kind == "head") (void)storage->find("b/x");
      if (kind == "range") storage->read(std::span(&wanted, 1));
      if (kind == "put") storage->write("b/y", 1, [](std::uint64_t, std::span<std::byte>) {});
      if (wanted.error) std::rethrow_exception(wanted.error);
    });
    if (kind == "head") continue;  // has no body, and the file is found by its first byte
    ASSERT_THAT(error, is_error(io, {"status 403", "check the credentials"})) << kind;
    EXPECT_THAT(error->what(),
                AllOf(Not(HasSubstr("a-token")), Not(HasSubstr("AKID")), Not(HasSubstr("Signature"))));
  }
}

TEST_F(S3, PasswordsInUrlsAreNeverTold) {
  const auto tells = [](const std::function<void()>& work) {
    const auto error = error_of(work);
    ASSERT_THAT(error, is_error(invalid_argument, {}));
    EXPECT_THAT(error->what(), Not(HasSubstr("pw")));
  };
  for (const std::string endpoint :
       {"http://user:pw@host", "HTTP://user:pw@host", "ftp://user:pw@host", "user:pw@host"}) {
    tells([&] { (void)s3_storage({.endpoint = endpoint}); });
  }
  for (const std::string path : {"HTTP://user:pw@host/x", "ftp://user:pw@host/x", "s3://user:pw@bucket/x"}) {
    tells([&] { (void)stored_path(path); });
  }
}

// "ask for", by a HEAD; of a URL that is signed for GET alone, or where applications leave out the length.
TEST_F(S3, AFileIsNeverEmptyByAHeadAlone) {
  server.put("b/x", "bytes");
  server.put("b/empty", "");
  for (const std::string fault : {"403", "501", "no_length"}) {
    server.become({"--fault", fault, "--kind", "head", "--times", "9"});
    ASSERT_TRUE(storage()->find("b/x")) << fault;
    EXPECT_EQ(storage()->find("b/x")->bytes, 5U) << fault;
    EXPECT_EQ(storage()->find("b/empty")->bytes, 0U) << fault;
    EXPECT_FALSE(storage()->find("b/none")) << fault;
  }
  server.become({});
  EXPECT_EQ(storage()->find("b/empty")->bytes, 0U);
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
  EXPECT_ERROR(s3_storage({.access_key = "a"}), invalid_argument, {"both"});
  EXPECT_ERROR(s3_storage({.http = {.connections = 0}}), invalid_argument, {"connections is 0"});
  EXPECT_ERROR(http_storage("ftp"), invalid_argument);
  // A web server is never told of a fragment.
  EXPECT_ERROR(http_storage("http")->find("127.0.0.1/x#1"), invalid_argument);
  const auto storage = s3_storage({.access_key = "a", .secret_key = "b"});
  for (const char* const name : {"b?x=1/k", "../k", "a b/k", "%62/k", "b#/k", "/k"}) {
    EXPECT_ERROR(storage->find(name), invalid_argument) << name;
  }
}

}  // namespace rota::test::access_test
