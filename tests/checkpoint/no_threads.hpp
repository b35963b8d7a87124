#pragma once

#include <pthread.h>

#include "test.hpp"

namespace rota::test {

/// As long as it lives no thread can be started: each would get a stack larger than there are addresses.
class NoThreads {
 public:
  NoThreads() {
    constexpr std::size_t kStackBytes = std::size_t{1} << 50;
    pthread_getattr_default_np(&before_);
    pthread_attr_t none = before_;
    pthread_attr_setstacksize(&none, kStackBytes);
    pthread_setattr_default_np(&none);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

}  // namespace rota::test
