#pragma once

// Many HTTP requests at once, each tried until it is answered.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/mutex.hpp"
#include "rota/object_storage.hpp"
#include "rota/world.hpp"

namespace rota::internal {

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers = {};  ///< "Name: value"
  std::string body = {};
  bool may_redirect = false;
  bool may_stall = false;      ///< three times as long as others
  bool is_direct = false;      ///< never by way of a proxy
  std::string signed_as = {};  ///< for whoever made it, when the answer comes; a secret
};

struct HttpAnswer {
  int status = 0;
  std::string body = {};                 ///< without what a Transfer took
  const HttpRequest* request = nullptr;  ///< that it answers
  void* easy = nullptr;                  ///< libcurl's handle, which has the headers

  /// Empty without.
  [[nodiscard]] std::string_view header(std::string_view name) const;
  [[nodiscard]] bool is_success() const noexcept { return status >= 200 && status < 300; }
};

/// Something that is to be fetched. All of it is called by the thread that runs it.
class Transfer {
 public:
  Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  virtual ~Transfer() = default;

  /// What messages say is done: "read s3://bucket/key".
  [[nodiscard]] virtual std::string what() const = 0;
  /// The request of another try.
  virtual HttpRequest request() = 0;
  /// Whether the body of this answer goes to `take`. Throws what trying again does not mend.
  virtual bool accepts(const HttpAnswer& /*head*/) { return false; }
  virtual void take(std::span<const std::byte> /*bytes*/) {}
  /// Whether all that is wanted has come, though the end of the answer has not.
  [[nodiscard]] virtual bool has_all() const { return false; }
  /// An answer has come. False: to be tried again. Throws as `accepts`.
  virtual bool finish(const HttpAnswer& answer) = 0;

  /// Of all its tries, where that is less than HttpOptions::deadline.
  std::chrono::milliseconds deadline = std::chrono::hours(24);
  std::exception_ptr error = {};  ///< why it failed for good
  std::string trouble = {};       ///< why it is tried again, where the status does not say
};

class HttpSession;

/// Servers that have answered, and when it was last reported that one does not. Any thread.
class KnownServers {
 public:
  void add(std::string_view url);
  [[nodiscard]] bool has(std::string_view url) const;
  /// True at most once a minute.
  [[nodiscard]] bool is_to_tell(std::chrono::steady_clock::time_point now) {
    auto next = next_tell_.load();
    return now >= next && next_tell_.compare_exchange_strong(next, now + std::chrono::minutes(1));
  }

 private:
  mutable Mutex mutex_;
  std::set<std::string, std::less<>> known_ ROTA_GUARDED_BY(mutex_);  // "https://host:port"
  std::atomic<std::chrono::steady_clock::time_point> next_tell_ = {};
};

/// Runs transfers, and tries again as HttpOptions says. Any thread; each runs its own transfers, by libcurl,
/// over connections that are kept for the next.
class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Returns when each of them is finished or has its error: Error{timeout} where the deadline is over,
  /// Error{io} where for 10 seconds nobody is there, or nobody is who he says. What ends a wait
  /// (Wait) is thrown.
  void run(std::span<Transfer* const> transfers) const;
  /// The same of one, whose error it throws.
  void run(Transfer& transfer) const;

 private:
  HttpOptions options_;
  mutable KnownServers known_;
  mutable Mutex mutex_;
  using Session = std::unique_ptr<HttpSession, DeleteWhereMade>;  // its connections are the maker's
  mutable std::vector<Session> free_ ROTA_GUARDED_BY(mutex_);
  mutable std::size_t kept_ ROTA_GUARDED_BY(mutex_) = 0;  // connections of those
};

/// Where systems have the certificates to trust. Python adds that of its package certifi, before the first
/// storage is made.
std::vector<std::string>& known_ca_files();
/// Empty where `own`, which libcurl was built with, can be read, or is null; else the first of `known` that
/// can be; empty without.
std::string find_ca_file(const char* own, const std::vector<std::string>& known);

/// "SlowDown", "KMS.DisabledException", of an answer as S3 gives them; empty without.
std::string_view code_in(std::string_view body);
/// The first line of what a server says, ready to be shown behind ": "; empty where it repeats what it was
/// sent, for there are secrets in that, and of a page.
std::string said_in(const HttpAnswer& answer, std::string_view text);
/// Whether the answer is a page for people.
bool is_page(const HttpAnswer& answer);
/// How much of what comes from outside a message shows (core/text.hpp).
inline constexpr std::size_t kMostShown = 200;

/// Without white space at both ends.
std::string_view trimmed(std::string_view text);
/// Every byte but letters, digits and "-._~", and but slashes where they `may_stay`, as %XX.
std::string percent_encoded(std::string_view text, bool slashes_may_stay);
/// The other way, and a plus as a space.
std::string percent_decoded(std::string_view text);

}  // namespace rota::internal
