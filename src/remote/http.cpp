#include "remote/http.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/text.hpp"
#include "remote/http_session.hpp"

namespace rota::internal {
namespace {

void start_curl() {
  static const CURLcode started = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) throw Error(ErrorCode::io, "start libcurl: it does not");
}

// "https://host:port"
std::string_view server_of(std::string_view url) {
  const auto authority = url.find("://");
  return authority == std::string_view::npos ? url : url.substr(0, url.find_first_of("/?#", authority + 3));
}

}  // namespace

std::string_view HttpAnswer::header(std::string_view name) const {
  curl_header* found = nullptr;
  const auto code = ::curl_easy_header(easy, std::string(name).c_str(), 0, CURLH_HEADER, -1, &found);
  return code == CURLHE_OK ? found->value : std::string_view();
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string_view code_in(std::string_view body) {
  constexpr std::string_view kBegin = "<Code>";
  const auto begin = body.find(kBegin);
  if (begin == std::string_view::npos) return {};
  const auto code = body.substr(begin + kBegin.size(), body.find('<', begin + 1) - begin - kBegin.size());
  const bool is_word = std::ranges::all_of(code, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
  });
  return is_word && code.size() <= 64 ? code : std::string_view();
}

bool is_page(const HttpAnswer& answer) { return answer.header("content-type").starts_with("text/html"); }

std::string said_in(const HttpAnswer& answer, std::string_view text) {
  text = trimmed(text);
  text = trimmed(text.substr(0, text.find('\n')));
  if (text.empty() || text[0] == '<') return {};
  const auto repeats = [&](std::string_view sent) {
    constexpr std::size_t kLeast = 16;  // of what a secret may be
    for (std::size_t end = 0; !sent.empty(); sent.remove_prefix(std::min(end + 1, sent.size()))) {
      end = std::min(sent.find_first_of(" ,;=&/"), sent.size());
      if (end >= kLeast && text.find(sent.substr(0, end)) != std::string_view::npos) return true;
    }
    return false;
  };
  const std::string_view url = answer.request->url;
  if (repeats(url.substr(std::min(url.find('?'), url.size())))) return {};
  if (std::ranges::any_of(answer.request->headers, repeats)) return {};
  return ": " + shown(without_users(text.substr(0, kMostShown)));
}

std::string percent_encoded(std::string_view text, bool slashes_may_stay) {
  std::string made;
  for (const char c : text) {
    const bool is_plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                          c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && slashes_may_stay);
    if (is_plain) {
      made += c;
    } else {
      made += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return made;
}

std::string percent_decoded(std::string_view text) {
  std::string made;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr == text.data() + i + 3) {
      made += static_cast<char>(value);
      i += 2;
    } else {
      made += text[i] == '+' ? ' ' : text[i];
    }
  }
  return made;
}

void KnownServers::add(std::string_view url) {
  const MutexLock lock(mutex_);
  if (!known_.contains(server_of(url))) known_.emplace(server_of(url));
}

bool KnownServers::has(std::string_view url) const {
  const MutexLock lock(mutex_);
  return known_.contains(server_of(url));
}

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)) {
  start_curl();
  const curl_version_info_data& curl = *::curl_version_info(CURLVERSION_NOW);
  if (options_.ca_file.empty())
    options_.ca_file = find_ca_file(curl.cainfo != nullptr ? curl.cainfo : curl.capath, known_ca_files());
}

HttpClient::~HttpClient() = default;

void HttpClient::run(std::span<Transfer* const> transfers) const {
  if (transfers.empty()) return;
  Session session;
  {
    const MutexLock lock(mutex_);
    while (!free_.empty() && session == nullptr) {
      session = std::move(free_.back());
      free_.pop_back();
      kept_ -= session->connections();
      if (!session.get_deleter().is_here()) session.reset();
    }
  }
  if (session == nullptr) session.reset(new HttpSession(options_, known_));
  session->run(transfers);
  constexpr std::size_t kMostKept = 256;
  const MutexLock lock(mutex_);
  if (kept_ + session->connections() > kMostKept) return;  // descriptors are scarcer than new connections
  kept_ += session->connections();
  free_.push_back(std::move(session));
}

void HttpClient::run(Transfer& transfer) const {
  Transfer* const one = &transfer;
  run(std::span(&one, 1));
  if (transfer.error != nullptr) std::rethrow_exception(transfer.error);
}

}  // namespace rota::internal
