// Signatures against those that Amazon has published:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html

#include "remote/credentials.hpp"
#include "remote/http.hpp"
#include "remote/server.hpp"
#include "test.hpp"

namespace rota::test::signature_test {

const S3Keys kExample{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};

std::string signature(SignedRequest request) {
  request.headers.emplace_back("host", "examplebucket.s3.amazonaws.com");
  request.headers.emplace_back("x-amz-content-sha256", request.body_hash);
  request.headers.emplace_back("x-amz-date", "20130524T000000Z");
  const std::string value = authorization(request, kExample, "us-east-1", "s3");
  return value.substr(value.find("Signature=") + 10);
}

TEST(Signature, IsThatOfThePublishedExamples) {
  EXPECT_EQ(
      signature({.path = "/test.txt", .headers = {{"range", "bytes=0-9"}}, .body_hash = sha256_text("")}),
      "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(signature({.query = {{"lifecycle", ""}}, .body_hash = sha256_text("")}),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(signature({.query = {{"prefix", "J"}, {"max-keys", "2"}}, .body_hash = sha256_text("")}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
  EXPECT_EQ(signature({.method = "PUT",
                       .path = "/test%24file.text",
                       .headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                   {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                       .body_hash = sha256_text("Welcome to Amazon S3.")}),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(Signature, OfAMomentIsOfUniversalTime) { EXPECT_EQ(amazon_time(1369353600), "20130524T000000Z"); }

TEST(PercentEncoding, KeepsWhatIsPlain) {
  EXPECT_EQ(percent_encoded("a/b c+\xC3\xA4~", true), "a/b%20c%2B%C3%A4~");
  EXPECT_EQ(percent_encoded("a/b", false), "a%2Fb");
  EXPECT_EQ(percent_decoded("a%2Fb+c%2B%C3%A4%"), "a/b c+\xC3\xA4%");
  EXPECT_EQ(percent_decoded("%4"), "%4");
}

TEST(Version, IsOfTheETagWithoutQuotes) {
  EXPECT_EQ(version_of("\"abc\""), version_of("abc"));
  EXPECT_EQ(version_of("W/\"abc\""), version_of("abc"));
  EXPECT_NE(version_of("abc"), version_of("abd"));
  EXPECT_EQ(version_of(""), 0U);
  EXPECT_EQ(version_of("\"\""), 0U);
}

TEST(Profiles, AreReadAsOtherProgramsReadThem) {
  const ProfileFile file = parse_profiles(
      "# comment\n[default]\naws_access_key_id = a=b \n\n[profile other]\nregion=eu-west-1\ns3 =\n"
      "  nested = x\nregion2 = y\nno sense\n[open");
  EXPECT_EQ(file.at("default").at("aws_access_key_id"), "a=b");
  EXPECT_EQ(file.at("other").at("region"), "eu-west-1");
  EXPECT_EQ(file.at("other").count("nested"), 0U);
  EXPECT_EQ(file.at("other").at("region2"), "y");
  EXPECT_EQ(file.at("").at("trouble"), "line 10 is neither a [section] nor name = value");
  EXPECT_TRUE(parse_profiles("").empty());
  EXPECT_EQ(parse_profiles("a = b").at("").at("trouble"), "line 1 is neither a [section] nor name = value");
}

TEST(Profiles, AreReadAsBotocoreReadsThem) {
  const ProfileFile file = parse_profiles(
      "[profile \"my own\"]\n  AWS_Access_Key_Id : k=1\n  region = here\n    and more of it\n  s3 =\n"
      "    addressing_style = virtual\n    use_accelerate_endpoint: no\n  aws_security_token = "
      "t\n[profile\tb]\nx:y\n"
      "['c']\nregion=c\n");
  const auto& own = file.at("my own");
  EXPECT_EQ(own.at("aws_access_key_id"), "k=1");
  EXPECT_EQ(own.at("region"), "here");
  EXPECT_EQ(own.at("s3.addressing_style"), "virtual");
  EXPECT_EQ(own.at("s3.use_accelerate_endpoint"), "no");
  EXPECT_EQ(own.at("aws_security_token"), "t");
  EXPECT_EQ(file.at("b").at("x"), "y");
  EXPECT_EQ(file.at("c").at("region"), "c");
  EXPECT_FALSE(file.contains(""));
}

TEST(CredentialAnswers, AreReadOrRefused) {
  const auto read = parse_credentials(
      R"({"AccessKeyId": "k", "SecretAccessKey": "s", "Token": "t", "Expiration": "2030-01-02T03:04:05Z"})",
      "ask");
  EXPECT_EQ(read.access_key, "k");
  EXPECT_EQ(read.session_token, "t");
  EXPECT_EQ(read.end, 1893553445);
  for (const char* const bad : {"", "{", "[]", "null", R"({"AccessKeyId": 1})", R"({"AccessKeyId": "k"})"}) {
    EXPECT_THROW((void)parse_credentials(bad, "ask"), Error) << bad;
    EXPECT_THROW((void)parse_identity(bad, "ask"), Error) << bad;
  }
  EXPECT_EQ(parse_identity("<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
                           "<AccessKeyId>k</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
                           "<SessionToken>t</SessionToken></Credentials></AssumeRoleWithWebIdentityResult>"
                           "</AssumeRoleWithWebIdentityResponse>",
                           "ask")
                .session_token,
            "t");
}

}  // namespace rota::test::signature_test
