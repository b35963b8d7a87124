#pragma once

// One thread's HTTP connections, by libcurl.

#include <curl/curl.h>

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "core/owned.hpp"
#include "remote/http.hpp"
#include "rota/object_storage.hpp"

namespace rota::internal {

/// Runs transfers, for one thread at a time.
class HttpSession {
 public:
  /// Both must outlive it.
  HttpSession(const HttpOptions& options, KnownServers& known);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  /// How many connections it has had at a time, and may have kept.
  [[nodiscard]] std::size_t connections() const noexcept { return most_tries_; }
  /// As HttpClient::run.
  void run(std::span<Transfer* const> transfers);

 private:
  using Clock = std::chrono::steady_clock;
  using Easy = std::unique_ptr<CURL, FreeBy<::curl_easy_cleanup>>;
  struct Job;
  struct Try;

  void step();
  Clock::time_point begin_due(Clock::time_point now);
  void begin(Job job);
  void set_up(Try& one);
  static void set_request(Try& one);
  void set_limits(const Try& one);
  void collect();
  void end(Try& one, CURLcode code);
  void again(Job job, const HttpAnswer& answer, bool is_alone);
  void tell_trouble(Clock::time_point now);
  void drop() noexcept;

  const HttpOptions& options_;
  bool has_ca_directory_;
  KnownServers& known_;
  std::unique_ptr<CURLM, FreeBy<::curl_multi_cleanup>> multi_;
  std::list<Job> jobs_;  // not under way
  std::list<Try> tries_;
  std::size_t most_tries_ = 0;
  Clock::time_point next_look_ = {};
  std::vector<Easy> unused_;
  std::minstd_rand random_{std::random_device()()};
};

}  // namespace rota::internal
