#include "remote/s3_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <pugixml.hpp>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

// "eu-west-1", of "https://bucket.s3.eu-west-1.amazonaws.com/key"; empty for another server.
std::string_view region_in(std::string_view location) {
  const auto end = location.find(".amazonaws.com");
  if (end == std::string_view::npos) return {};
  std::string_view label = location.substr(0, end);
  label.remove_prefix(label.find_last_of("./") + 1);
  if (label == "s3") return "us-east-1";
  if (label.starts_with("s3-")) label.remove_prefix(3);
  return label;
}

void require_bucket(const ObjectName& at) {
  constexpr std::string_view kExpress = "--x-s3";
  if (at.bucket.starts_with("arn:") || at.bucket.ends_with(kExpress)) {
    throw failure(ErrorCode::unsupported, "read s3://{}/{}: it is {}", at.bucket, at.key,
                  at.bucket.ends_with(kExpress)
                      ? "a directory bucket (S3 Express), which wants other signatures; copy it to a bucket"
                      : "an access point; give its alias (NAME-s3alias), or the bucket");
  }
  const bool is_one = std::ranges::all_of(at.bucket, [](unsigned char c) {
    return (std::isalnum(c) != 0 && c < 0x80) || c == '.' || c == '-' || c == '_';
  });
  if (is_one && !at.bucket.empty() && at.bucket != "." && at.bucket != "..") return;
  throw failure(
      ErrorCode::invalid_argument,
      "read s3://{}/{}: name a bucket, in letters, digits, \".\", \"-\" and \"_\": s3://bucket/prefix",
      at.bucket, at.key);
}

// What to do about a refusal.
std::string_view advice_on(std::string_view code, int status, bool may_be_over) {
  if (code == "RequestTimeTooSkewed") return "; set this machine's clock";
  if (code == "InvalidObjectState") return "; it is archived: restore it first";
  if (code.starts_with("KMS.")) return "; the key that it is encrypted with cannot be used";
  if (code == "SecondLevelDomainForbidden" || code == "PathStyleDomainForbidden" ||
      code == "VirtualHostDomainRequired") {
    return "; this store wants the bucket in the host's name: set the option addressing to \"virtual\", or "
           "the "
           "profile's addressing_style";
  }
  if (code == "PermanentRedirect" || code == "AuthorizationHeaderMalformed")
    return "; the bucket is in another region, perhaps: set AWS_REGION";
  if (may_be_over) return "; check the credentials: the session token is over, or is none";
  if (code == "InvalidAccessKeyId") return "; check the credentials: there is no such access key";
  if (code == "SignatureDoesNotMatch")
    return "; check the credentials: the secret key is not that of the access key";
  const bool is_of_keys =
      code.empty() || code == "AccessDenied" || code == "Forbidden" || code == "AllAccessDisabled";
  if ((status != 401 && status != 403) || !is_of_keys) return "";
  return "; check the credentials, and that they are for this bucket (S3 says the same of what is not there "
         "to who may not list it)";
}

bool is_yes(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text == "yes" || text == "true" || text == "1";
}

// What the options leave open, from the environment.
S3Options completed(S3Options options) {
  using Names = std::initializer_list<const char*>;
  const auto complete = [](std::string& option, Names variables, Names values) {
    for (const char* const name : variables)
      if (option.empty()) option = environment(name);
    for (const char* const name : values)
      if (option.empty()) option = profile_value(name);
  };
  complete(options.region, {"AWS_REGION", "AWS_DEFAULT_REGION"}, {"region"});
  if (options.region.empty()) options.region = "us-east-1";
  complete(options.endpoint, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"},
           {"s3.endpoint_url", "endpoint_url"});
  options.requester_pays = options.requester_pays || environment("AWS_REQUEST_PAYER") == "requester";
  complete(options.http.ca_file, {"AWS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"}, {});
  complete(options.addressing, {}, {"s3.addressing_style"});
  if (options.addressing == "auto") options.addressing.clear();
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  if (options.access_key.empty() && is_yes(environment("AWS_NO_SIGN_REQUEST"))) {
    options.is_anonymous = true;
  }
  return options;
}

}  // namespace

std::string service_name() {
  const auto wants = [](const char* variable, const char* value) {
    return is_yes(environment(variable)) || is_yes(profile_value(value));
  };
  return fmt::format("s3{}{}", wants("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint") ? "-fips" : "",
                     wants("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint") ? ".dualstack" : "");
}

std::string S3Server::path(std::string_view name) const { return fmt::format("s3://{}", name); }

HttpRequest S3Server::request(std::string_view method, std::string_view name, std::string_view range) const {
  SignedRequest made{.method = std::string(method)};
  if (!range.empty()) made.headers.emplace_back("range", range);
  return sign(name, std::move(made));
}

std::optional<StoredFile> S3Server::find(std::string_view name) const {
  return ObjectName(name).key.empty() ? std::nullopt : Server::find(name);
}

bool S3Server::judge(const HttpAnswer& answer, std::string_view name, const std::string& what) const {
  const std::string bucket(ObjectName(name).bucket);
  pugi::xml_document document;
  document.load_buffer(answer.body.data(), answer.body.size());
  const pugi::xml_node error = document.child("Error");
  std::string_view region = answer.header("x-amz-bucket-region");
  if (region.empty()) region = region_in(answer.header("location"));
  if (region.empty()) region = error.child_value("Region");
  // What it was signed as, for another request may have learned better meanwhile.
  const std::string_view signed_as = answer.request->signed_as;
  const auto end_of_region = signed_as.find('\n');
  if (!region.empty() && answer.status != 403 && region != signed_as.substr(0, end_of_region)) {
    const MutexLock lock(mutex_);
    regions_[bucket] = region;
    return true;
  }
  const std::string_view code = error.child_value("Code");
  const bool may_be_over = (answer.status == 400 && code.empty()) || code == "ExpiredToken" ||
                           code == "TokenRefreshRequired" || code == "InvalidToken";
  if (may_be_over && credentials_.renew(signed_as.substr(end_of_region + 1))) return true;
  if (code == "RequestTimeout" || code == "OperationAborted") return true;
  const std::string_view word = code_in(answer.body);
  const std::string said = fmt::format("status {}{}{}{}", answer.status, word.empty() ? "" : ", ", word,
                                       said_in(answer, error.child_value("Message")));
  if (answer.status == 404) {
    throw failure(ErrorCode::not_found, "{}: {}{}", what, said,
                  code == "NoSuchBucket" ? "; check its name, and the endpoint (AWS_ENDPOINT_URL)" : "");
  }
  throw failure(ErrorCode::io, "{}: {}{}", what, said, advice_on(word, answer.status, may_be_over));
}

void S3Server::require_own(const HttpAnswer& answer, const std::string& what) const {
  if (!is_page(answer) || !answer.header("x-amz-request-id").empty()) return;
  throw failure(
      ErrorCode::io,
      "{}: a page for people comes, and not what S3 says: a console's port, or a login page? Check the "
      "endpoint (AWS_ENDPOINT_URL)",
      what);
}

std::string S3Server::region_of(const std::string& bucket) const {
  const MutexLock lock(mutex_);
  const auto found = regions_.find(bucket);
  return found == regions_.end() ? options_.region : found->second;
}

HttpRequest S3Server::sign(std::string_view name, SignedRequest made, std::string body) const {
  const ObjectName at(name);
  require_bucket(at);
  const std::string bucket(at.bucket);
  const std::string region = region_of(bucket);
  std::string server = options_.endpoint;
  made.path = "/" + percent_encoded(at.key, true);
  const bool is_host = options_.addressing.empty() ? server.empty() && bucket.find('.') == std::string::npos
                                                   : options_.addressing == "virtual";
  if (server.empty()) server = fmt::format("https://{}.{}.{}", service_, region, domain_of(region));
  if (is_host) server.insert(server.find("://") + 3, bucket + '.');
  if (!is_host) made.path = "/" + percent_encoded(bucket, false) + made.path;
  const std::size_t authority = server.find("://") + 3;
  const std::size_t below = std::min(server.find('/', authority), server.size());  // of a gateway
  made.path = server.substr(below) + made.path;
  server.resize(below);
  const std::string host = server.substr(authority);
  const std::string query = query_text(made.query);
  HttpRequest request{.method = made.method,
                      .url = fmt::format("{}{}{}{}", server, made.path, query.empty() ? "" : "?", query)};
  if (!body.empty()) request.headers.emplace_back("Content-Type: application/octet-stream");
  const S3Keys keys = credentials_.now();
  request.signed_as = region + '\n' + keys.signer();
  made.body_hash = sha256_text(body);
  made.headers.emplace_back("x-amz-content-sha256", made.body_hash);
  made.headers.emplace_back("x-amz-date", amazon_time(std::time(nullptr)));
  if (options_.requester_pays) made.headers.emplace_back("x-amz-request-payer", "requester");
  if (!keys.session_token.empty()) made.headers.emplace_back("x-amz-security-token", keys.session_token);
  request.body = std::move(body);
  for (const auto& [header, value] : made.headers)
    request.headers.push_back(fmt::format("{}: {}", header, value));
  if (keys.access_key.empty()) return request;
  request.headers.push_back("Host: " + host);  // libcurl would leave out a port that is the scheme's own
  made.headers.emplace_back("host", host);
  request.headers.push_back("Authorization: " + authorization(made, keys, region, "s3"));
  return request;
}

}  // namespace rota::internal

namespace rota {

std::shared_ptr<const Storage> s3_storage(S3Options options) {
  options = internal::completed(std::move(options));
  options.validate();
  return std::make_shared<const internal::S3Server>(std::move(options));
}

}  // namespace rota
