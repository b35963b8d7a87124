#include "remote/credentials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "core/failure.hpp"
#include "core/text.hpp"
#include "remote/http.hpp"

namespace rota::internal {
namespace {

constexpr std::time_t kBeforeEnd = 300;
constexpr std::time_t kBetween = 10;  // two fetches, while there are some
constexpr std::time_t kAfterFailure = 2;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string either(const std::string& first, const std::string& second) {
  return first.empty() ? second : first;
}

// "2030-01-02T03:04:05Z"
std::optional<std::time_t> parse_time(const std::string& text) {
  std::tm parts{};
  const char* const end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr) return std::nullopt;
  return ::timegm(&parts);
}

/// The answer to one request.
class Fetch final : public Transfer {
 public:
  Fetch(std::string what, HttpRequest request) : what_(std::move(what)), request_(std::move(request)) {}
  [[nodiscard]] std::string what() const override { return what_; }
  HttpRequest request() override { return request_; }
  bool finish(const HttpAnswer& answer) override {
    body_ = answer.body;
    if (answer.is_success()) return true;
    throw failure(ErrorCode::io, "{}: status {}", what_, answer.status);
  }
  [[nodiscard]] std::string& body() noexcept { return body_; }

 private:
  std::string what_;
  HttpRequest request_;
  std::string body_;
};

// The body of a server's answer. Transfers that are under way wait meanwhile, so not for long.
std::string fetch_body(HttpOptions options, std::chrono::seconds deadline, std::string what,
                       HttpRequest request) {
  options.deadline = std::min<std::chrono::milliseconds>(options.deadline, deadline);
  options.stall = std::min(options.stall, (deadline + std::chrono::seconds(1)) / 2);
  Fetch fetch(std::move(what), std::move(request));
  HttpClient(std::move(options)).run(fetch);
  return std::move(fetch.body());
}
constexpr std::chrono::seconds kForKeys{10};
constexpr std::chrono::seconds kForMachine{3};  // nobody answers on those that are not Amazon's

S3Keys require_keys(S3Keys keys, const std::string& what) {
  if (!keys.access_key.empty() && !keys.secret_key.empty()) return keys;
  throw Error(ErrorCode::io, what + ": the answer has no credentials in it");
}

}  // namespace

std::string_view domain_of(std::string_view region) {
  return region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? std::string() : value;
}

namespace {

// "my name" of [profile "my name"].
std::string section_name(std::string_view text) {
  constexpr std::string_view kProfile = "profile";
  if (text.starts_with(kProfile) && text.substr(kProfile.size()).find_first_of(" \t") == 0)
    text = trimmed(text.substr(kProfile.size()));
  const bool is_quoted = text.size() > 1 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
  return std::string(is_quoted ? text.substr(1, text.size() - 2) : text);
}

}  // namespace

ProfileFile parse_profiles(std::string_view text) {
  ProfileFile file;
  std::map<std::string, std::string>* section = nullptr;
  std::string above;       // the name whose lines may follow, indented more
  std::size_t indent = 0;  // its own
  bool has_lines = false;
  std::int64_t number = 0;
  for (const std::string_view whole : lines_of(text)) {
    ++number;
    const std::string_view line = trimmed(whole);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    const std::size_t in = whole.find_first_not_of(" \t");
    const bool is_below = !above.empty() && in > indent;
    if (line[0] == '[' && !is_below) {
      section = &file[section_name(trimmed(line.substr(1, line.find(']') - 1)))];
      above.clear();
      continue;
    }
    if (is_below && !has_lines) continue;  // more of a value
    const auto end = line.find_first_of("=:");
    if (section == nullptr || end == std::string_view::npos) {
      file[""].emplace("trouble", fmt::format("line {} is neither a [section] nor name = value", number));
      continue;
    }
    std::string name(trimmed(line.substr(0, end)));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::string_view value = trimmed(line.substr(end + 1));
    if (is_below) {
      (*section)[fmt::format("{}.{}", above, name)] = value;
      continue;
    }
    above = name;
    indent = in;
    has_lines = value.empty();
    (*section)[name] = value;
  }
  return file;
}

namespace {

std::string named_profile() { return either(environment("AWS_PROFILE"), environment("AWS_DEFAULT_PROFILE")); }

// The sections of the profile that the environment names, of both files. What is wrong with one is told, if
// that is wanted.
std::vector<std::map<std::string, std::string>> profile_sections(bool are_needed = false) {
  const std::string profile = either(named_profile(), "default");
  std::vector<std::map<std::string, std::string>> sections;
  for (const auto& [variable, file] :
       {std::pair{"AWS_SHARED_CREDENTIALS_FILE", "credentials"}, {"AWS_CONFIG_FILE", "config"}}) {
    const std::string path = either(environment(variable), environment("HOME") + "/.aws/" + file);
    ProfileFile profiles = parse_profiles(read_file(path));
    if (are_needed && profiles.contains("")) {
      throw failure(ErrorCode::invalid_argument, "find credentials for S3: read {}: {}", path,
                    profiles[""]["trouble"]);
    }
    const auto section = profiles.find(profile);
    if (section == profiles.end()) continue;
    sections.push_back(section->second);
    if (sections.back().contains("services")) {
      sections.back().merge(profiles["services " + sections.back()["services"]]);
    }
  }
  return sections;
}

// A misspelt AWS_PROFILE must not fall back to other credentials.
void require_profile() {
  const auto sections = profile_sections(true);
  if (sections.empty() && !named_profile().empty()) {
    throw failure(ErrorCode::invalid_argument,
                  "find credentials for S3: there is no profile \"{}\" (AWS_PROFILE) in ~/.aws/credentials "
                  "or ~/.aws/config",
                  named_profile());
  }
  for (const auto& section : sections) {
    for (const char* const how : {"role_arn", "sso_session", "sso_start_url"}) {
      if (!section.contains(how) || section.contains("aws_access_key_id")) continue;
      throw failure(ErrorCode::unsupported,
                    "find credentials for S3: the profile gets them by {}, which rota does not; run eval "
                    "\"$(aws configure export-credentials --profile {} --format env)\" first",
                    how, either(named_profile(), "default"));
    }
  }
}

}  // namespace

std::string profile_value(const std::string& name) {
  for (const auto& section : profile_sections()) {
    const auto value = section.find(name);
    if (value != section.end()) return value->second;
  }
  return {};
}

S3Keys parse_credentials(std::string_view json, const std::string& what) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  const auto value = [&](const char* name) {
    const auto found = parsed.is_object() ? parsed.find(name) : parsed.end();
    return found != parsed.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  return require_keys({value("AccessKeyId"), value("SecretAccessKey"),
                       either(value("Token"), value("SessionToken")), parse_time(value("Expiration"))},
                      what);
}

S3Keys parse_identity(std::string_view xml, const std::string& what) {
  pugi::xml_document document;
  document.load_buffer(xml.data(), xml.size());
  const auto node = document.child("AssumeRoleWithWebIdentityResponse")
                        .child("AssumeRoleWithWebIdentityResult")
                        .child("Credentials");
  return require_keys({node.child_value("AccessKeyId"), node.child_value("SecretAccessKey"),
                       node.child_value("SessionToken"), parse_time(node.child_value("Expiration"))},
                      what);
}

namespace {

std::optional<S3Keys> keys_of_environment() {
  S3Keys keys{environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
              either(environment("AWS_SESSION_TOKEN"), environment("AWS_SECURITY_TOKEN"))};
  if (keys.access_key.empty() && keys.secret_key.empty()) return std::nullopt;
  if (!keys.access_key.empty() && !keys.secret_key.empty()) return keys;
  throw failure(ErrorCode::invalid_argument,
                "find credentials for S3: {} is set, and {} is not; set both, or neither",
                keys.access_key.empty() ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID",
                keys.access_key.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY");
}

std::optional<S3Keys> keys_of_profile() {
  require_profile();
  for (auto& section : profile_sections()) {  // a key of the one with a token of the other would be neither
    if (!section.contains("aws_access_key_id") || !section.contains("aws_secret_access_key")) continue;
    return S3Keys{section["aws_access_key_id"], section["aws_secret_access_key"],
                  either(section["aws_session_token"], section["aws_security_token"])};
  }
  return std::nullopt;
}

std::optional<S3Keys> keys_of_process(const HttpOptions& http) {
  const std::string command = profile_value("credential_process");
  if (command.empty()) return std::nullopt;
  const std::string what = "run the profile's credential_process";
  const double limit = std::min(static_cast<double>(http.deadline.count()) / 1000, 60.0);
  std::FILE* const out = ::popen(fmt::format("exec timeout -k 1 {} {}", limit, command).c_str(), "re");
  if (out == nullptr) throw Error(ErrorCode::io, what + ": there can be no process");
  std::string said(1 << 16, '\0');
  said.resize(std::fread(said.data(), 1, said.size(), out));
  // A launcher may have the system wait for children: the output then shows how the process ended.
  if (const int ended = ::pclose(out); ended == 0 || (ended == -1 && errno == ECHILD))
    return parse_credentials(said, what);
  throw failure(ErrorCode::io, "{}: it failed, or took more than {} s", what, limit);
}

std::optional<S3Keys> keys_of_web_identity(const HttpOptions& http) {
  const std::string path = environment("AWS_WEB_IDENTITY_TOKEN_FILE");
  const std::string role = environment("AWS_ROLE_ARN");
  if (path.empty() || role.empty()) return std::nullopt;
  const std::string region = either(environment("AWS_REGION"), environment("AWS_DEFAULT_REGION"));
  const std::string endpoint =
      either(environment("AWS_ENDPOINT_URL_STS"),
             region.empty() ? "https://sts.amazonaws.com"
                            : fmt::format("https://sts.{}.{}", region, domain_of(region)));
  const std::string what = "fetch credentials from STS";
  HttpRequest request{.method = "POST",
                      .url = endpoint + "/",
                      .headers = {"Content-Type: application/x-www-form-urlencoded"}};
  request.body = query_text({{"Action", "AssumeRoleWithWebIdentity"},
                             {"Version", "2011-06-15"},
                             {"RoleArn", role},
                             {"RoleSessionName", either(environment("AWS_ROLE_SESSION_NAME"), "rota")},
                             {"WebIdentityToken", std::string(trimmed(read_file(path)))}});
  return parse_identity(fetch_body(http, kForKeys, what, std::move(request)), what);
}

std::optional<S3Keys> keys_of_container(const HttpOptions& http) {
  const std::string relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const std::string url = relative.empty() ? environment("AWS_CONTAINER_CREDENTIALS_FULL_URI")
                                           : "http://169.254.170.2" + relative;
  if (url.empty()) return std::nullopt;
  HttpRequest request{.url = url, .is_direct = true};
  const std::string file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  const std::string token =
      file.empty() ? environment("AWS_CONTAINER_AUTHORIZATION_TOKEN") : std::string(trimmed(read_file(file)));
  if (!token.empty()) request.headers = {"Authorization: " + token};
  const std::string what = "fetch credentials from the container";
  return parse_credentials(fetch_body(http, kForKeys, what, std::move(request)), what);
}

// Of EC2.
std::optional<S3Keys> keys_of_machine(const HttpOptions& http) {
  if (environment("AWS_EC2_METADATA_DISABLED") == "true") return std::nullopt;
  const std::string endpoint =
      either(environment("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "http://169.254.169.254");
  const std::string what = "fetch credentials from this machine";
  const auto fetch = [&](const char* method, const std::string& path, const std::string& header) {
    return fetch_body(
        http, kForMachine, what,
        {.method = method, .url = endpoint + "/latest/" + path, .headers = {header}, .is_direct = true});
  };
  std::string token = "X-aws-ec2-metadata-token: ";
  try {
    token += fetch("PUT", "api/token", "X-aws-ec2-metadata-token-ttl-seconds: 21600");
  } catch (const Error&) {
    return std::nullopt;
  }
  const std::string roles = "meta-data/iam/security-credentials/";
  const std::string role = fetch("GET", roles, token);
  return parse_credentials(fetch("GET", roles + role.substr(0, role.find('\n')), token), what);
}

S3Keys find_keys(const S3Options& options) {
  if (!options.access_key.empty()) return {options.access_key, options.secret_key, options.session_token};
  if (auto keys = keys_of_environment()) return *std::move(keys);
  if (auto keys = keys_of_profile()) return *std::move(keys);
  for (const auto find : {keys_of_process, keys_of_web_identity, keys_of_container, keys_of_machine}) {
    if (auto keys = find(options.http)) return *std::move(keys);
  }
  throw Error(ErrorCode::invalid_argument,
              "find credentials for S3: there are none in S3Options, in AWS_ACCESS_KEY_ID, in a profile, nor "
              "does this machine have any; give some, or set the option is_anonymous "
              "(AWS_NO_SIGN_REQUEST=yes) for public data");
}

}  // namespace

S3Keys Credentials::now() const {
  if (options_.is_anonymous) return {};
  const std::time_t time = std::time(nullptr);
  std::optional<S3Keys> kept;
  {
    const MutexLock lock(mutex_);
    kept = kept_;
    if (kept && (!kept->end || time + kBeforeEnd <= *kept->end || time < fetched_ + kBetween)) return *kept;
    if (!kept && failure_ != nullptr && time < failed_ + kAfterFailure) std::rethrow_exception(failure_);
    fetched_ = time;
  }
  try {
    return fetch();
  } catch (const Error&) {
    if (kept && time < *kept->end) return *kept;
    const MutexLock lock(mutex_);
    failure_ = std::current_exception();
    failed_ = std::time(nullptr);
    throw;
  }
}

bool Credentials::renew(std::string_view signer) const {
  if (options_.is_anonymous) return false;
  {
    const MutexLock lock(mutex_);
    if (!kept_) return false;
    if (kept_->signer() != signer) return true;
  }
  return fetch().signer() != signer;
}

// Unlocked: a child that is forked meanwhile can fetch keys, too.
S3Keys Credentials::fetch() const {
  S3Keys found = find_keys(options_);
  const MutexLock lock(mutex_);
  kept_ = std::move(found);
  return *kept_;
}

}  // namespace rota::internal
