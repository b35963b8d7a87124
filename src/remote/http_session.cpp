#include "remote/http_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "core/caught.hpp"
#include "core/message.hpp"
#include "core/text.hpp"
#include "core/wait.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

using Long = long;  // NOLINT(google-runtime-int): what libcurl takes

constexpr std::size_t kMostBody = std::size_t{64} << 20;  // that is kept of an answer
constexpr auto kLongestWait = std::chrono::seconds(15);
constexpr auto kConnectPatience = std::chrono::seconds(12);  // where that server has never answered
constexpr auto kLongestConnectWait = std::chrono::seconds(2);
constexpr auto kSilence = std::chrono::seconds(5);  // of what is tried again

void check(CURLMcode code) {
  if (code != CURLM_OK) throw std::bad_alloc();  // else it is ours to call as we do
}

bool may_pass(int status) noexcept {
  const bool is_never = status == 501 || status == 505;  // not implemented, not this version of HTTP
  return status == 408 || status == 429 || (status >= 500 && !is_never);
}

// What no other try mends.
bool is_final(CURLcode code) noexcept {
  constexpr std::array kFinal{
      CURLE_URL_MALFORMAT,    CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CACERT_BADFILE,
      CURLE_SSL_ISSUER_ERROR, CURLE_TOO_MANY_REDIRECTS,       CURLE_OUT_OF_MEMORY};
  return std::ranges::find(kFinal, code) != kFinal.end();
}

// Nor where a proxy says no.
bool is_refused_by_proxy(CURL* easy) noexcept {
  Long status = 0;
  ::curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &status);
  return status >= 400 && status < 500;
}

// Whether there was no connection.
bool is_nobody_there(CURL* easy, CURLcode code) noexcept {
  curl_off_t connected = 0;
  ::curl_easy_getinfo(easy, CURLINFO_CONNECT_TIME_T, &connected);
  return (code == CURLE_OPERATION_TIMEDOUT && connected == 0) || code == CURLE_COULDNT_RESOLVE_HOST ||
         code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_COULDNT_CONNECT ||
         code == CURLE_SSL_CONNECT_ERROR;
}

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

bool is_directory(const std::string& path) {
  std::error_code none;
  return std::filesystem::is_directory(path, none);
}

std::string failure_of(const std::string& trouble, const HttpAnswer& answer, const char* said,
                       CURLcode code) {
  const bool is_trust = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
  const auto* const advice = is_trust
                                 ? "; name a file of the certificates to trust: SSL_CERT_FILE, of S3 also "
                                   "AWS_CA_BUNDLE, or the option ca_file"
                                 : "";
  if (code != CURLE_OK)
    return shown(without_users(*said != '\0' ? said : ::curl_easy_strerror(code))) + advice;
  if (!trouble.empty()) return trouble;
  const auto name = code_in(answer.body);
  return fmt::format("status {}{}{}", answer.status, name.empty() ? "" : ": ", name);
}

}  // namespace

/// A transfer, and how often it was tried.
struct HttpSession::Job {
  Transfer* transfer = nullptr;
  Clock::time_point due;         // of the next try
  Clock::time_point begun = {};  // once it was tried
  Clock::time_point latest = {};
  Clock::time_point until = {};  // of these tries
  int tries = 0;
  std::string failure = {};  // of the last
};

/// A try that is under way.
struct HttpSession::Try {
  Job job;
  Easy easy = nullptr;
  std::unique_ptr<curl_slist, FreeBy<::curl_slist_free_all>> headers = nullptr;
  HttpRequest request = {};
  HttpAnswer answer = {};
  bool is_head_whole = false;  // up to the empty line behind it: libcurl takes what ends before for an answer
  bool is_head_seen = false;
  bool is_taken = false;
  std::exception_ptr thrown = {};
  std::array<char, CURL_ERROR_SIZE> text{};

  void set(CURLoption option, auto value) const { ::curl_easy_setopt(easy.get(), option, value); }
  // Calls the transfer for curl, which must not see what it throws.
  template <typename Work>
  bool guarded(Work work) noexcept {
    const auto now = thrown_by(work);
    if (now != nullptr) thrown = now;
    return now == nullptr;
  }
  void see_head() {
    if (std::exchange(is_head_seen, true)) return;
    Long status = 0;
    ::curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
    answer.status = static_cast<int>(status);
    if (may_pass(answer.status)) return;
    is_taken = job.transfer->accepts(answer);
  }

  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) noexcept {
    const std::string_view line(data, size * count);
    bool& is_whole = static_cast<Try*>(user)->is_head_whole;
    if (line.starts_with("HTTP/")) is_whole = false;  // after a redirect
    if (trimmed(line).empty()) is_whole = true;
    return size * count;
  }
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user) noexcept {
    Try& one = *static_cast<Try*>(user);
    const std::size_t bytes = size * count;
    if (one.is_taken && one.job.transfer->has_all()) return 0;  // the rest is not wanted: `end` knows
    const bool is_kept = one.guarded([&] {
      one.see_head();
      if (one.is_taken) return one.job.transfer->take(std::as_bytes(std::span(data, bytes)));
      if (one.answer.body.size() + bytes <= kMostBody) one.answer.body.append(data, bytes);
    });
    return is_kept ? bytes : 0;
  }
};

HttpSession::HttpSession(const HttpOptions& options, KnownServers& known)
    : options_(options),
      has_ca_directory_(is_directory(options.ca_file.substr(0, options.ca_file.find(':')))),
      known_(known),
      multi_(::curl_multi_init()) {
  if (multi_ == nullptr) throw std::bad_alloc();
  ::curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, static_cast<Long>(options.connections));
}

HttpSession::~HttpSession() = default;

void HttpSession::run(std::span<Transfer* const> transfers) {
  const auto now = Clock::now();
  for (Transfer* const transfer : transfers) jobs_.push_back({.transfer = transfer, .due = now});
  try {
    while (!jobs_.empty() || !tries_.empty()) step();
  } catch (...) {
    drop();
    throw;
  }
}

void HttpSession::step() {
  const auto now = Clock::now();
  const auto most = std::min<Clock::duration>(Wait::here().next_check() - now, std::chrono::seconds(1));
  const auto next = begin_due(now);
  if (jobs_.empty() && tries_.empty()) return;  // none could begin
  const auto wait = std::min<Clock::duration>(next - now, most);
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  check(::curl_multi_poll(multi_.get(), nullptr, 0, static_cast<int>(std::max<std::int64_t>(milliseconds, 0)),
                          nullptr));
  int running = 0;
  check(::curl_multi_perform(multi_.get(), &running));
  collect();
  tell_trouble(Clock::now());
  Wait::here().check();
}

// Returns when the next is due. Those that wait are in no order.
HttpSession::Clock::time_point HttpSession::begin_due(Clock::time_point now) {
  auto next = Clock::time_point::max();
  for (auto job = jobs_.begin(); job != jobs_.end() && std::ssize(tries_) < options_.connections;) {
    if (job->due > now) {
      next = std::min(next, job->due);
      ++job;
      continue;
    }
    Transfer& transfer = *job->transfer;
    if (job->tries == 0) {
      job->begun = now;
      job->until = job->latest = now + std::min(options_.deadline, transfer.deadline);
    }
    transfer.error = thrown_by([&] { begin(std::move(*job)); });
    if (is_stopped(transfer.error)) std::rethrow_exception(transfer.error);
    job = jobs_.erase(job);
  }
  return next;
}

void HttpSession::begin(Job job) {
  Try& one = tries_.emplace_back();
  most_tries_ = std::max(most_tries_, tries_.size());
  one.job = std::move(job);
  try {
    set_up(one);
    check(::curl_multi_add_handle(multi_.get(), one.easy.get()));
  } catch (...) {
    tries_.pop_back();
    throw;
  }
}

void HttpSession::set_up(Try& one) {
  one.job.transfer->trouble.clear();
  one.request = one.job.transfer->request();
  one.answer.request = &one.request;
  if (unused_.empty()) {
    one.easy.reset(::curl_easy_init());
  } else {
    one.easy = std::move(unused_.back());
    unused_.pop_back();
    ::curl_easy_reset(one.easy.get());
  }
  CURL* const easy = one.easy.get();
  if (easy == nullptr) throw std::bad_alloc();
  if (!one.request.body.empty()) one.request.headers.emplace_back("Expect:");  // nothing: the body, at once
  for (const std::string& header : one.request.headers) {
    curl_slist* const longer = ::curl_slist_append(one.headers.get(), header.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    (void)one.headers.release();
    one.headers.reset(longer);
  }
  one.answer.easy = easy;
  set_request(one);
  set_limits(one);
}

void HttpSession::set_request(Try& one) {
  one.set(CURLOPT_URL, one.request.url.c_str());
  one.set(CURLOPT_PATH_AS_IS, 1L);
  one.set(CURLOPT_HTTPHEADER, one.headers.get());
  if (one.request.method == "HEAD") {
    one.set(CURLOPT_NOBODY, 1L);
  } else if (one.request.method != "GET") {
    one.set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(one.request.body.size()));
    one.set(CURLOPT_POSTFIELDS, one.request.body.c_str());
    one.set(CURLOPT_CUSTOMREQUEST, one.request.method.c_str());
  }
  one.set(CURLOPT_WRITEFUNCTION, &Try::on_body);
  one.set(CURLOPT_WRITEDATA, static_cast<void*>(&one));
  one.set(CURLOPT_HEADERFUNCTION, &Try::on_header);
  one.set(CURLOPT_HEADERDATA, static_cast<void*>(&one));
  one.set(CURLOPT_ERRORBUFFER, one.text.data());
  one.set(CURLOPT_PRIVATE, static_cast<void*>(&one));
}

void HttpSession::set_limits(const Try& one) {
  one.set(CURLOPT_NOSIGNAL, 1L);
  one.set(CURLOPT_QUICK_EXIT, 1L);  // else a name server that does not answer is waited for after the timeout
  one.set(CURLOPT_HTTP_VERSION, static_cast<Long>(CURL_HTTP_VERSION_1_1));
  one.set(CURLOPT_PROTOCOLS_STR, "http,https");
  one.set(CURLOPT_FOLLOWLOCATION, one.request.may_redirect ? 1L : 0L);
  one.set(CURLOPT_REDIR_PROTOCOLS_STR, one.request.url.starts_with("https:") ? "https" : "http,https");
  one.set(CURLOPT_MAXREDIRS, 5L);
  one.set(CURLOPT_BUFFERSIZE, 256L << 10);
  one.set(CURLOPT_USERAGENT, "rota");
  if (one.request.is_direct) one.set(CURLOPT_NOPROXY, "*");
  if (has_ca_directory_) {
    one.set(CURLOPT_CAINFO, nullptr);
    one.set(CURLOPT_CAPATH, options_.ca_file.c_str());
  } else if (!options_.ca_file.empty()) {
    one.set(CURLOPT_CAINFO, options_.ca_file.c_str());
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(one.job.latest - Clock::now());
  one.set(CURLOPT_TIMEOUT_MS, static_cast<Long>(std::max<std::int64_t>(left.count(), 1)));
  one.set(CURLOPT_CONNECTTIMEOUT_MS,
          static_cast<Long>(std::min<std::int64_t>(1000 * options_.stall.count(), 5'000)));
  one.set(CURLOPT_LOW_SPEED_LIMIT, 1024L);
  one.set(CURLOPT_LOW_SPEED_TIME,
          static_cast<Long>(options_.stall.count() * (one.request.may_stall ? 3 : 1)));
}

void HttpSession::collect() {
  int left = 0;
  while (const CURLMsg* const message = ::curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    void* user = nullptr;
    ::curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &user);
    const auto found = std::ranges::find_if(tries_, [user](const Try& one) { return &one == user; });
    end(*found, code);
    ::curl_multi_remove_handle(multi_.get(), found->easy.get());
    unused_.push_back(std::move(found->easy));
    tries_.erase(found);
  }
}

void HttpSession::end(Try& one, CURLcode code) {
  const CURLcode result = code == CURLE_OK && !one.is_head_whole ? CURLE_GOT_NOTHING : code;
  if (result == CURLE_OK) one.guarded([&] { one.see_head(); });
  Job& job = one.job;
  bool is_done = false;
  if (result == CURLE_OK && one.thrown == nullptr &&
      one.guarded([&] { is_done = !may_pass(one.answer.status) && job.transfer->finish(one.answer); })) {
    known_.add(one.request.url);
  }
  if (result != CURLE_OK && one.thrown == nullptr && one.is_taken) is_done = job.transfer->has_all();
  if (is_done) return;
  ++job.tries;
  const auto now = Clock::now();
  const bool is_cut = result == CURLE_OPERATION_TIMEDOUT && now + std::chrono::milliseconds(10) >= job.latest;
  if (!is_cut || job.failure.empty()) {
    job.failure = failure_of(job.transfer->trouble, one.answer, one.text.data(), result);
  }
  const bool is_alone = is_nobody_there(one.easy.get(), result) && !known_.has(one.request.url);
  if (one.thrown != nullptr) {
    job.transfer->error = one.thrown;
    if (is_stopped(one.thrown)) std::rethrow_exception(one.thrown);
  } else if (is_final(result) || is_refused_by_proxy(one.easy.get())) {
    job.transfer->error = std::make_exception_ptr(
        Error(ErrorCode::io, fmt::format("{}: {}", job.transfer->what(), job.failure)));
  } else {
    again(std::move(job), one.answer, is_alone);
  }
}

// `is_alone`: nobody was there, nor ever has been.
void HttpSession::again(Job job, const HttpAnswer& answer, bool is_alone) {
  auto longest = std::min<std::chrono::milliseconds>(options_.retry_wait * (1 << std::min(job.tries - 1, 10)),
                                                     is_alone ? kLongestConnectWait : kLongestWait);
  const std::string_view asked = answer.header("retry-after");
  if (int seconds = 0;
      std::from_chars(asked.data(), asked.data() + asked.size(), seconds).ec == std::errc()) {
    longest = std::clamp<std::chrono::milliseconds>(std::chrono::seconds(seconds), longest, kLongestWait);
  }
  const double part = std::uniform_real_distribution<double>(0.5, 1)(random_);
  const auto now = Clock::now();
  job.due = now + std::chrono::duration_cast<Clock::duration>(longest * part);
  job.until = is_alone ? std::min(job.latest, job.begun + kConnectPatience) : job.latest;
  // Before those that have all their time.
  if (job.due < job.until) return jobs_.push_front(std::move(job));
  job.transfer->error = std::make_exception_ptr(
      Error(is_alone ? ErrorCode::io : ErrorCode::timeout,
            fmt::format("{}: given up after {} tries in {:.1f} s; the last failed with: {}",
                        job.transfer->what(), job.tries, seconds(now - job.begun), job.failure)));
}

void HttpSession::tell_trouble(Clock::time_point now) {
  if (now < next_look_) return;
  next_look_ = now + std::chrono::seconds(1);
  const auto look = [&](const Job& job, std::string_view failure) {
    if (failure.empty() || now < job.begun + kSilence || !known_.is_to_tell(now)) return;
    tell(fmt::format("{}: not done after {:.0f} s ({}); tried again for {:.0f} s at most",
                     job.transfer->what(), seconds(now - job.begun), failure, seconds(job.until - now)));
  };
  for (const Job& job : jobs_) look(job, job.failure);
  for (const Try& one : tries_) {
    const bool has_none = one.request.body.empty() && !one.is_head_whole;
    look(one.job, one.job.failure.empty() && has_none ? "no answer yet" : one.job.failure);
  }
}

void HttpSession::drop() noexcept {
  for (const Try& one : tries_) {
    if (one.easy != nullptr) ::curl_multi_remove_handle(multi_.get(), one.easy.get());
  }
  tries_.clear();
  jobs_.clear();
}

}  // namespace rota::internal
