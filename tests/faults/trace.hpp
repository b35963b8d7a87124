#pragma once

// The trace of what a program did to files, as the interposed library records it and the simulator of power
// losses reads it: in a directory, one file `<process id>.trace` per process, records one after the other,
// and the file `sequence`, the counter that numbers the begin and the end of each call over all processes.

#include <cstdint>
#include <string_view>

namespace rota::test {

enum class Call : std::int32_t { open, write, resize, allocate, sync, rename, unlink, make_directory, mark };

/// A call that succeeded. Paths and bytes follow it, in the order of their sizes here.
struct RecordHeader {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  Call call = Call::mark;
  std::int32_t fd = -1;
  std::int64_t offset = 0;  ///< of a write; the size for resize and allocate; the value of a mark
  std::int32_t flags = 0;   ///< of open
  std::uint32_t path_bytes = 0;
  std::uint32_t other_bytes = 0;  ///< of the new name, for rename
  std::uint32_t data_bytes = 0;
};

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

/// One call of this process, where ROTA_FAULTS_TRACE names a directory for traces: made before it, and told
/// of it once it has succeeded. *Any thread.*
class Recording {
 public:
  Recording();
  void succeeded(const Event& event) const;

 private:
  std::int64_t begin_ = 0;
};

}  // namespace rota::test
