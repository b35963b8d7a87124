#pragma once

// Writes the trace of this process (see trace.hpp), where ROTA_FAULTS_TRACE names a directory for it.

#include <cstdint>
#include <span>
#include <string_view>

#include "trace.hpp"

namespace rota::test {

/// What there is to say of a call.
struct Event {
  Call call = Call::mark;
  int fd = -1;
  std::int64_t offset = 0;
  int flags = 0;
  std::string_view path = {};
  std::string_view other = {};
  std::string_view data = {};
};

/// Whether a trace is wanted.
[[nodiscard]] bool is_recording();

/// One call: made before it, and told of it once it has succeeded. *Any thread.*
class Recording {
 public:
  Recording();
  void succeeded(const Event& event) const;

 private:
  std::int64_t begin_ = 0;
};

}  // namespace rota::test
