#pragma once

// One thread's HTTP connections, by libcurl.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <random>
#include <span>
#include <vector>

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

  /// Whether it was made by this process, and not by the one that this was forked of.
  [[nodiscard]] bool is_own() const noexcept;
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
  void begin(Job job);
  void set_up(Try& one);
  void collect();
  void end(Try& one, int code);
  void again(Job job, const HttpAnswer& answer, bool is_alone);
  void tell_trouble(Clock::time_point now);
  void forget(std::list<Try>::iterator one);
  void drop() noexcept;

  const HttpOptions& options_;
  KnownServers& known_;
  void* multi_;  // curl's
  pid_t process_;
  std::list<Job> jobs_;  // not under way
  std::list<Try> tries_;
  std::size_t most_tries_ = 0;
  Clock::time_point next_look_ = {};
  std::vector<Handle> unused_;
  std::minstd_rand random_{std::random_device()()};
};

}  // namespace rota::internal
