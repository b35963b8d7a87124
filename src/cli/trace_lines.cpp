#include "cli/trace_lines.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <type_traits>
#include <utility>

#include "rota/error.hpp"

namespace rota::tracing {

static_assert(std::is_nothrow_move_constructible_v<TraceLineWriter>);
static_assert(std::is_nothrow_move_assignable_v<TraceLineWriter>);

TraceLineWriter::TraceLineWriter(std::filesystem::path path) : path_(std::move(path)) {
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) fail("create");
}

TraceLineWriter::~TraceLineWriter() {
  if (file_ >= 0) ::close(file_);
}

TraceLineWriter::TraceLineWriter(TraceLineWriter&& other) noexcept
    : file_(std::exchange(other.file_, -1)), path_(std::move(other.path_)) {}

TraceLineWriter& TraceLineWriter::operator=(TraceLineWriter&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  return *this;
}

void TraceLineWriter::append(std::string line) {
  line.push_back('\n');
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t wrote = ::write(file_, line.data() + done, line.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail("write");
    done += static_cast<std::size_t>(wrote);
  }
}

void TraceLineWriter::fail(std::string_view verb) const {
  throw Error(ErrorCode::io, fmt::format("{} trace file {}: {}", verb, path_.string(),
                                         std::generic_category().message(errno)));
}

TraceLineReader::TraceLineReader(const std::filesystem::path& path) : path_(path), stream_(path) {
  if (stream_) return;
  throw Error(ErrorCode::io, fmt::format("open trace file {}: it cannot be read", path.string()));
}

bool TraceLineReader::next() {
  if (!std::getline(stream_, line_) || stream_.eof()) return false;  // at eof: the line has no end
  ++number_;
  return true;
}

std::string TraceLineReader::damaged(std::string_view why) const {
  return fmt::format("{}:{}: {}", path_.filename().string(), number_, why);
}

}  // namespace rota::tracing
