#pragma once

// libcurl's transfers of one thread, woken by events.

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "storage/descriptor.hpp"

namespace rota::internal {

/// Many of libcurl's handles at once. What an event costs does not depend on how many there are:
/// curl_multi_poll and curl_multi_perform look at each. *One thread* at a time.
class CurlMulti {
 public:
  using Clock = std::chrono::steady_clock;

  /// So many `connections` are kept. Throws std::bad_alloc, Error{io} where there is no descriptor.
  explicit CurlMulti(int connections);
  ~CurlMulti();
  CurlMulti(const CurlMulti&) = delete;
  CurlMulti& operator=(const CurlMulti&) = delete;

  /// Whether it was made by this process, and not by the one that this was forked of.
  [[nodiscard]] bool is_own() const noexcept;

  /// `easy` is a CURL*. Throws std::bad_alloc.
  void add(void* easy);
  void remove(void* easy) noexcept;

  /// Lets transfers go on. Waits for something to happen, but not past `until`.
  void run(Clock::time_point until);

  /// A transfer that has ended, and its CURLcode.
  struct Ended {
    void* easy;
    int code;
  };
  std::optional<Ended> take_ended() noexcept;

 private:
  int on_socket(int socket, int wanted, bool is_known) noexcept;

  Descriptor events_;  // epoll's
  void* multi_ = nullptr;
  pid_t process_;
  Clock::time_point due_ = Clock::time_point::max();  // when libcurl wants to be called without an event
};

}  // namespace rota::internal
