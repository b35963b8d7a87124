#include "trace/lines.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "rota/error.hpp"

namespace rota::trace {

LineWriter::LineWriter(std::filesystem::path path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (!file_.is_open()) throw internal::write_error("create trace file", path_.native(), errno);
}

void LineWriter::append(std::string line) {
  line.push_back('\n');
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t wrote = ::pwrite(file_.get(), line.data() + done, line.size() - done,
                                   static_cast<off_t>(bytes_) + static_cast<off_t>(done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) throw internal::write_error("write trace file", path_.native(), errno);
    done += static_cast<std::size_t>(wrote);
  }
  bytes_ += std::ssize(line);
}

void LineWriter::close() {
  if (::close(file_.release()) != 0) throw internal::write_error("close trace file", path_.native(), errno);
}

LineReader::LineReader(const std::filesystem::path& path) : path_(path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw internal::system_error("open trace file", path.native(), errno);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::io, fmt::format("open trace file {}: it is no regular file", path.string()));
  }
  errno = 0;
  stream_.open(path);
  if (!stream_) throw internal::system_error("open trace file", path.native(), errno == 0 ? EIO : errno);
}

bool LineReader::next() {
  if (!std::getline(stream_, line_) || stream_.eof()) {  // at eof: the line has no end
    if (stream_.bad()) throw internal::system_error("read trace file", path_.native(), EIO);
    return false;
  }
  ++number_;
  return true;
}

std::string LineReader::damaged(std::string_view why) const {
  return fmt::format("{}:{}: {}", path_.filename().string(), number_, why);
}

}  // namespace rota::trace
