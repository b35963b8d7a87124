// What servers answer, and files of credentials.

#include "remote/credentials.hpp"
#include "remote/s3_page.hpp"
#include "remote/server.hpp"
#include "rota/error.hpp"
#include "target.hpp"

namespace {

const char* const kPage =
    "l<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
    "<NextContinuationToken>t</NextContinuationToken><Contents><Key>a%20b</Key><Size>3</Size>"
    "<ETag>&quot;x-1&quot;</ETag></Contents></ListBucketResult>";
const char* const kKeys =
    "j{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"b\", \"Token\": \"c\", "
    "\"Expiration\": \"2030-01-02T03:04:05Z\"}";
const char* const kIdentity =
    "x<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>a"
    "</AccessKeyId><SecretAccessKey>b</SecretAccessKey></Credentials></AssumeRoleWithWebIdentityResult>"
    "</AssumeRoleWithWebIdentityResponse>";

}  // namespace

std::vector<std::string> rota::test::seeds() {
  return {kPage,
          kKeys,
          kIdentity,
          "l<Error><Code>SlowDown</Code></Error>",
          "hbytes 0-9/100",
          "hbytes 0-9/*",
          "p[default]\naws_access_key_id = a\n[profile b]\n# no\nregion=c\n s3 =\n  x = y\n"};
}

namespace {

void look_at_credentials(bool is_json, std::string_view text) {
  try {
    const auto found = is_json ? rota::internal::parse_credentials(text, "ask")
                               : rota::internal::parse_identity(text, "ask");
    ROTA_FUZZ_EXPECT(!found.keys.access_key.empty() && !found.keys.secret_key.empty());
  } catch (const rota::Error& error) {
    ROTA_FUZZ_EXPECT(error.code() == rota::ErrorCode::io);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'l': {
      std::string trouble;
      const auto page = rota::internal::parse_page(text, "bucket", "token", trouble);
      for (const auto& file : page.files) ROTA_FUZZ_EXPECT(file.name.starts_with("bucket/"));
      ROTA_FUZZ_EXPECT(page.next != "token" && (trouble.empty() || page.files.empty()));
      break;
    }
    case 'h':
      if (const auto range = rota::internal::parse_content_range(text))
        ROTA_FUZZ_EXPECT(range->begin < range->end);
      break;
    case 'p':
      for (const auto& [name, section] : rota::internal::parse_profiles(text))
        ROTA_FUZZ_EXPECT(name.find('\n') == name.npos);
      break;
    default:
      look_at_credentials(data[0] == 'j', text);
  }
  return 0;
}
