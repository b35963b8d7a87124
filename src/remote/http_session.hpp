#pragma once

// One thread's HTTP connections, by libcurl.

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "remote/curl_multi.hpp"
#include "remote/http.hpp"
#include "rota/object_storage.hpp"

namespace rota::internal {

/// Runs transfers, for one thread at a time. Of a request that is made once more (HttpOptions::hedge_after),
/// the first to be answered counts ("hedged requests": Dean, Barroso: The Tail at Scale, CACM 56 (2), 2013).
class HttpSession {
 public:
  /// Both must outlive it.
  HttpSession(const HttpOptions& options, KnownServers& known);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  /// Whether it was made by this process, and not by the one that this was forked of.
  [[nodiscard]] bool is_own() const noexcept { return multi_.is_own(); }
  /// How many connections it has had at a time, and may have kept.
  [[nodiscard]] std::size_t connections() const noexcept { return most_tries_; }
  /// As HttpClient::run.
  void run(std::span<Transfer* const> transfers);

 private:
  using Clock = std::chrono::steady_clock;
  struct Handle;
  struct Job;
  struct Try;

  void step();
  Clock::time_point begin_due(Clock::time_point now);
  Clock::time_point hedge(Clock::time_point now);
  Try& begin(Job job);
  void set_up(Try& one);
  void collect();
  void end(Try& one, int code);
  void learn(const Try& one);
  void again(Job job, const HttpAnswer& answer);
  void forget(std::list<Try>::iterator one);
  void drop() noexcept;

  const HttpOptions& options_;
  KnownServers& known_;
  CurlMulti multi_;
  std::list<Job> jobs_;  // not under way
  std::list<Try> tries_;
  std::size_t most_tries_ = 0;
  std::vector<Handle> unused_;
  std::minstd_rand random_{std::random_device()()};
  std::int64_t answers_ = 0;    // to requests that only read
  std::int64_t hedges_ = 0;     // of those
  Clock::duration usual_ = {};  // until an answer begins
};

}  // namespace rota::internal
