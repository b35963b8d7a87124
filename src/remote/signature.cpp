#include "remote/credentials.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>

#include "remote/http.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string sha256(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  if (::EVP_Digest(bytes.data(), bytes.size(), hash.data(), &size, ::EVP_sha256(), nullptr) != 1) {
    throw Error(ErrorCode::io, "sign a request: libcrypto has no SHA-256");
  }
  return {reinterpret_cast<const char*>(hash.data()), size};
}

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  if (::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data(),
             &size) == nullptr) {
    throw Error(ErrorCode::io, "sign a request: libcrypto has no HMAC");
  }
  return {reinterpret_cast<const char*>(hash.data()), size};
}

}  // namespace

std::string query_text(std::vector<std::pair<std::string, std::string>> query) {
  for (auto& [name, value] : query) {
    name = percent_encoded(name, false);
    value = percent_encoded(value, false);
  }
  std::ranges::sort(query);
  std::string text;
  for (const auto& [name, value] : query)
    text += fmt::format("{}{}={}", text.empty() ? "" : "&", name, value);
  return text;
}

std::string sha256_text(std::string_view bytes) { return hexadecimal(sha256(bytes)); }

std::string amazon_time(std::time_t time) { return fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(time)); }

std::string authorization(const SignedRequest& request, const S3Keys& keys, std::string_view region,
                          std::string_view service) {
  auto headers = request.headers;
  std::ranges::sort(headers);
  std::string lines;
  std::string names;
  std::string time;
  for (const auto& [name, value] : headers) {
    lines += fmt::format("{}:{}\n", name, value);
    names += fmt::format("{}{}", names.empty() ? "" : ";", name);
    if (name == "x-amz-date") time = value;
  }
  const std::string canonical = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.path,
                                            query_text(request.query), lines, names, request.body_hash);
  const std::string day = time.substr(0, 8);
  const std::string scope = fmt::format("{}/{}/{}/aws4_request", day, region, service);
  std::string key = "AWS4" + keys.secret_key;
  for (const std::string_view part :
       {std::string_view(day), region, service, std::string_view("aws4_request")}) {
    key = hmac(key, part);
  }
  const std::string signature =
      hexadecimal(hmac(key, fmt::format("{}\n{}\n{}\n{}", kAlgorithm, time, scope, sha256_text(canonical))));
  return fmt::format("{} Credential={}/{},SignedHeaders={},Signature={}", kAlgorithm, keys.access_key, scope,
                     names, signature);
}

}  // namespace rota::internal
