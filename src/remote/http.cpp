#include "remote/http.hpp"

#include <curl/curl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <deque>
#include <list>
#include <random>
#include <utility>

#include "values/interrupt.hpp"

namespace rota::internal {

using Clock = std::chrono::steady_clock;
using Long = long;  // NOLINT(google-runtime-int): what libcurl takes

namespace {

constexpr std::size_t kMostBody = std::size_t{64} << 20;  // that is kept of an answer
constexpr auto kLongestWait = std::chrono::seconds(15);
constexpr int kConnectTries = 3;  // where nobody has ever answered

void start_curl() {
  static const CURLcode started = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) throw Error(ErrorCode::io, "start libcurl: it does not");
}

bool may_pass(int status) noexcept {
  const bool is_never = status == 501 || status == 505;  // not implemented, not this version of HTTP
  return status == 408 || status == 429 || (status >= 500 && !is_never);
}

// What no other try mends.
bool is_final(CURLcode code) noexcept {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_OUT_OF_MEMORY:
      return true;
    default:
      return false;
  }
}

bool is_nobody_there(CURLcode code) noexcept {
  return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
         code == CURLE_COULDNT_CONNECT || code == CURLE_SSL_CONNECT_ERROR;
}

std::string lower(std::string_view text) {
  std::string made(text);
  for (char& c : made) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return made;
}

}  // namespace

/// A handle of curl, and its headers.
struct EndEasy {
  void operator()(CURL* easy) const noexcept { ::curl_easy_cleanup(easy); }
};
struct EndHeaders {
  void operator()(curl_slist* headers) const noexcept { ::curl_slist_free_all(headers); }
};

/// A transfer, and how often it was tried.
struct Job {
  Transfer* transfer = nullptr;
  Clock::time_point due;          // of the next try
  Clock::time_point latest = {};  // once it was tried
  int tries = 0;
  std::string failure = {};  // of the last
};

/// A try that is under way.
struct Try {
  Job job;
  std::unique_ptr<CURL, EndEasy> easy;
  std::unique_ptr<curl_slist, EndHeaders> headers = {};
  HttpRequest request = {};
  HttpAnswer answer = {};
  bool is_head_seen = false;
  bool is_taken = false;
  std::exception_ptr thrown = {};
  std::array<char, CURL_ERROR_SIZE> text{};

  // Calls the transfer for curl, which must not see what it throws.
  template <typename Work>
  bool guarded(Work work) noexcept {
    try {
      work();
      return true;
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  }
  void see_head() {
    if (std::exchange(is_head_seen, true)) return;
    Long status = 0;
    ::curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
    answer.status = static_cast<int>(status);
    is_taken = !may_pass(answer.status) && job.transfer->accepts(answer);
  }
};

namespace {

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) noexcept {
  Try& one = *static_cast<Try*>(user);
  const std::string_view line = trimmed({data, size * count});
  const bool is_taken = one.guarded([&] {
    if (line.starts_with("HTTP/")) one.answer.headers.clear();  // of the answer before a redirect
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) return;
    one.answer.headers[lower(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
  });
  return is_taken ? size * count : 0;
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user) noexcept {
  Try& one = *static_cast<Try*>(user);
  const std::size_t bytes = size * count;
  const bool is_taken = one.guarded([&] {
    one.see_head();
    if (one.is_taken) return one.job.transfer->take(std::as_bytes(std::span(data, bytes)));
    if (one.answer.body.size() + bytes <= kMostBody) one.answer.body.append(data, bytes);
  });
  return is_taken ? bytes : 0;
}

// "SlowDown", of an answer as S3 gives them; empty without. Nothing else of a body is told, for there may be
// secrets in it.
std::string_view code_in(std::string_view body) {
  constexpr std::string_view kBegin = "<Code>";
  const auto begin = body.find(kBegin);
  if (begin == std::string_view::npos) return {};
  const auto code = body.substr(begin + kBegin.size(), body.find('<', begin + 1) - begin - kBegin.size());
  const bool is_word = std::ranges::all_of(code, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
  return is_word && code.size() <= 64 ? code : std::string_view();
}

std::string failure_of(const Try& one, CURLcode code) {
  if (code == CURLE_OK) {
    if (!one.job.transfer->trouble.empty()) return one.job.transfer->trouble;
    const auto said = code_in(one.answer.body);
    return fmt::format("status {}{}{}", one.answer.status, said.empty() ? "" : ": ", said);
  }
  return one.text[0] != '\0' ? one.text.data() : ::curl_easy_strerror(code);
}

}  // namespace

std::string_view HttpAnswer::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : found->second;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
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

/// One thread's connections.
class HttpClient::Session {
 public:
  Session(const HttpOptions& options, std::atomic<bool>& has_answered)
      : options_(options), has_answered_(has_answered), multi_(::curl_multi_init()) {
    if (multi_ == nullptr) throw std::bad_alloc();
    ::curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<Long>(options.connections));
  }
  ~Session() {
    if (!is_own()) return;  // the connections are the parent's
    ::curl_multi_cleanup(multi_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Whether it was made by this process, and not by the one that this was forked of.
  [[nodiscard]] bool is_own() const noexcept { return ::getpid() == process_; }

  void run(std::span<Transfer* const> transfers) {
    const auto now = Clock::now();
    for (Transfer* const transfer : transfers) {
      jobs_.push_back({.transfer = transfer, .due = now});
    }
    try {
      while (!jobs_.empty() || !tries_.empty()) step();
    } catch (...) {
      drop();
      throw;
    }
  }

 private:
  void step() {
    const auto now = Clock::now();
    auto next = now + std::chrono::seconds(1);
    // Those that wait are in no order.
    for (std::size_t left = jobs_.size(); left > 0 && std::ssize(tries_) < options_.connections; --left) {
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      if (job.due <= now) {
        begin(std::move(job));
      } else {
        next = std::min(next, job.due);
        jobs_.push_back(std::move(job));
      }
    }
    int running = 0;
    ::curl_multi_perform(multi_, &running);
    if (!collect()) {
      const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
      const auto most =
          InterruptScope::is_open() ? InterruptScope::kInterval : std::chrono::milliseconds(1000);
      ::curl_multi_poll(multi_, nullptr, 0,
                        static_cast<int>(std::clamp(wait, std::chrono::milliseconds(0), most).count()),
                        nullptr);
    }
    if (InterruptScope::is_due()) InterruptScope::ask();
  }

  void begin(Job job) {
    if (job.tries == 0) job.latest = Clock::now() + options_.deadline;
    Try& one = tries_.emplace_back();
    one.job = std::move(job);
    try {
      set_up(one);
    } catch (...) {
      one.job.transfer->error = std::current_exception();
      tries_.pop_back();
      return;
    }
    ::curl_multi_add_handle(multi_, one.easy.get());
  }

  void set_up(Try& one) {
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
    const auto set = [easy](CURLoption option, auto value) { ::curl_easy_setopt(easy, option, value); };
    if (!one.request.body.empty()) one.request.headers.emplace_back("Expect:");  // nothing: the body, at once
    for (const std::string& header : one.request.headers) {
      curl_slist* const longer = ::curl_slist_append(one.headers.get(), header.c_str());
      if (longer == nullptr) throw std::bad_alloc();
      (void)one.headers.release();
      one.headers.reset(longer);
    }
    set(CURLOPT_URL, one.request.url.c_str());
    set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_HTTPHEADER, one.headers.get());
    if (one.request.method == "HEAD") {
      set(CURLOPT_NOBODY, 1L);
    } else if (one.request.method != "GET") {
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(one.request.body.size()));
      set(CURLOPT_POSTFIELDS, one.request.body.c_str());
      set(CURLOPT_CUSTOMREQUEST, one.request.method.c_str());
    }
    set(CURLOPT_WRITEFUNCTION, &on_body);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&one));
    set(CURLOPT_HEADERFUNCTION, &on_header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(&one));
    set(CURLOPT_ERRORBUFFER, one.text.data());
    set(CURLOPT_PRIVATE, static_cast<void*>(&one));
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_QUICK_EXIT, 1L);  // else a name server that does not answer is waited for after the timeout
    set(CURLOPT_HTTP_VERSION, static_cast<Long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, one.request.may_redirect ? 1L : 0L);
    set(CURLOPT_REDIR_PROTOCOLS_STR, one.request.url.starts_with("https:") ? "https" : "http,https");
    set(CURLOPT_MAXREDIRS, 5L);
    set(CURLOPT_BUFFERSIZE, 256L << 10);
    set(CURLOPT_USERAGENT, "rota");
    // Whoever tells this machine its keys is not to be asked by way of others.
    if (one.request.url.starts_with("http://169.254.")) set(CURLOPT_NOPROXY, "*");
    if (!options_.ca_file.empty()) set(CURLOPT_CAINFO, options_.ca_file.c_str());
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(one.job.latest - Clock::now());
    set(CURLOPT_TIMEOUT_MS, static_cast<Long>(std::max<std::int64_t>(left.count(), 1)));
    set(CURLOPT_CONNECTTIMEOUT_MS,
        static_cast<Long>(std::min<std::int64_t>(1000 * options_.stall.count(), 10'000)));
    set(CURLOPT_LOW_SPEED_LIMIT, 1024L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<Long>(options_.stall.count() * (one.request.may_stall ? 3 : 1)));
  }

  // Whether any was over.
  bool collect() {
    bool is_any = false;
    int left = 0;
    while (CURLMsg* const message = ::curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      void* user = nullptr;
      ::curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &user);
      ::curl_multi_remove_handle(multi_, message->easy_handle);
      is_any = true;
      const auto found = std::ranges::find_if(tries_, [user](const Try& one) { return &one == user; });
      end(*found, code);
      unused_.push_back(std::move(found->easy));
      tries_.erase(found);
    }
    return is_any;
  }

  void end(Try& one, CURLcode code) {
    Job& job = one.job;
    bool is_done = false;
    if (code == CURLE_OK && one.guarded([&] {
          one.see_head();
          is_done = !may_pass(one.answer.status) && job.transfer->finish(one.answer);
        })) {
      has_answered_ = true;
    }
    if (code != CURLE_OK && one.thrown == nullptr && one.is_taken) is_done = job.transfer->has_all();
    if (is_done) return;
    ++job.tries;
    job.failure = failure_of(one, code);
    if (one.thrown != nullptr) {
      job.transfer->error = one.thrown;
    } else if (is_final(code) || (is_nobody_there(code) && !has_answered_ && job.tries >= kConnectTries)) {
      job.transfer->error = std::make_exception_ptr(
          Error(ErrorCode::io, fmt::format("{}: {}", job.transfer->what(), job.failure)));
    } else {
      again(std::move(job), one.answer);
    }
  }

  void again(Job job, const HttpAnswer& answer) {
    auto longest = std::min<std::chrono::milliseconds>(
        options_.retry_wait * (1 << std::min(job.tries - 1, 10)), kLongestWait);
    const std::string_view asked = answer.header("retry-after");
    if (int seconds = 0;
        std::from_chars(asked.data(), asked.data() + asked.size(), seconds).ec == std::errc()) {
      longest = std::clamp<std::chrono::milliseconds>(std::chrono::seconds(seconds), longest, kLongestWait);
    }
    const double part = std::uniform_real_distribution<double>(0.5, 1)(random_);
    job.due = Clock::now() + std::chrono::duration_cast<Clock::duration>(longest * part);
    if (job.due < job.latest) return jobs_.push_back(std::move(job));
    job.transfer->error = std::make_exception_ptr(Error(
        ErrorCode::timeout,
        fmt::format("{}: given up after {} tries in {} s; the last failed with: {}", job.transfer->what(),
                    job.tries, std::chrono::duration<double>(options_.deadline).count(), job.failure)));
  }

  void drop() noexcept {
    for (const Try& one : tries_) {
      if (one.easy != nullptr) ::curl_multi_remove_handle(multi_, one.easy.get());
    }
    tries_.clear();
    jobs_.clear();
  }

  const HttpOptions& options_;
  std::atomic<bool>& has_answered_;
  CURLM* multi_;
  pid_t process_ = ::getpid();
  std::deque<Job> jobs_;  // not under way
  std::list<Try> tries_;
  std::vector<std::unique_ptr<CURL, EndEasy>> unused_;
  std::minstd_rand random_{std::random_device()()};
};

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)) { start_curl(); }

HttpClient::~HttpClient() = default;

void HttpClient::run(std::span<Transfer* const> transfers) const {
  if (transfers.empty()) return;
  std::unique_ptr<Session> session;
  {
    const MutexLock lock(mutex_);
    while (!free_.empty() && session == nullptr) {
      session = std::move(free_.back());
      free_.pop_back();
      if (!session->is_own()) (void)session.release();
    }
  }
  if (session == nullptr) session = std::make_unique<Session>(options_, has_answered_);
  session->run(transfers);
  const MutexLock lock(mutex_);
  free_.push_back(std::move(session));
}

void HttpClient::run(Transfer& transfer) const {
  Transfer* const one = &transfer;
  run(std::span(&one, 1));
  if (transfer.error != nullptr) std::rethrow_exception(transfer.error);
}

}  // namespace rota::internal
