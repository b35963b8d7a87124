#pragma once

// A file system as each rank sees it where ranks are on nodes of their own, and the directory is on NFS.

#include "files/file.hpp"
#include "test.hpp"

namespace rota::test {

/// The NFS client of this process. It keeps the pages of what is written: a write changes them in memory, and
/// fsync and close write all of each page of which a part was changed. So they undo what another client has
/// written there meanwhile. *Any thread.*
class NfsClient : public internal::FileSystem {
 public:
  /// From now on nobody is told what it does.
  void hide() { is_told_ = false; }
  /// Counts writes anew, and fails the `at`-th (from 0), if any.
  void fail_write(std::int64_t at = -1) {
    const std::scoped_lock lock(mutex_);
    fails_at_ = at;
    writes_ = 0;
  }
  std::int64_t writes() const {
    const std::scoped_lock lock(mutex_);
    return writes_;
  }

  bool writes_whole_pages(const char* /*directory*/, bool /*are_several*/) const override { return is_told_; }
  int fallocate(int fd, off_t bytes) const override {
    const int error = FileSystem::fallocate(fd, bytes);
    const std::scoped_lock lock(mutex_);
    if (error == 0) files_[fd].allotted = static_cast<std::size_t>(bytes);
    return error;
  }
  /// No further than to the end of a page.
  ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t at) const override {
    const std::scoped_lock lock(mutex_);
    if (writes_++ == fails_at_) {
      errno = EIO;
      return -1;
    }
    const auto begin = static_cast<std::size_t>(at) % kPage;
    const std::size_t count = std::min(bytes, kPage - begin);
    Page& page = page_of(fd, static_cast<std::size_t>(at) - begin);
    page.bytes.resize(std::max(page.bytes.size(), begin + count));
    std::memcpy(page.bytes.data() + begin, data, count);
    page.is_dirty = true;
    return static_cast<ssize_t>(count);
  }
  ssize_t pread(int fd, void* out, std::size_t bytes, off_t at) const override {
    const std::scoped_lock lock(mutex_);
    if (!files_.contains(fd)) return FileSystem::pread(fd, out, bytes, at);
    const auto begin = static_cast<std::size_t>(at) % kPage;
    const Page& page = page_of(fd, static_cast<std::size_t>(at) - begin);
    if (begin >= page.bytes.size()) return 0;
    const std::size_t count = std::min(bytes, page.bytes.size() - begin);
    std::memcpy(out, page.bytes.data() + begin, count);
    return static_cast<ssize_t>(count);
  }
  int fsync(int fd) const override { return write_back(fd) ? FileSystem::fsync(fd) : -1; }
  int close(int fd) const override {
    const bool is_whole = write_back(fd);
    {
      const std::scoped_lock lock(mutex_);
      files_.erase(fd);
    }
    return FileSystem::close(fd) == 0 && is_whole ? 0 : -1;
  }

 private:
  static constexpr std::size_t kPage = 4096;
  struct Page {
    std::vector<std::byte> bytes;  // as far as the file reaches
    bool is_dirty = false;
  };
  struct OpenFile {
    std::size_t allotted = 0;  // by this client, which knows that there are zeros
    std::map<std::size_t, Page> pages;
  };

  // The page that begins at `first`, as the file had it when this client first came to it.
  Page& page_of(int fd, std::size_t first) const {
    OpenFile& file = files_[fd];
    const auto [found, is_new] = file.pages.try_emplace(first);
    auto& bytes = found->second.bytes;
    if (!is_new) return found->second;
    bytes.resize(kPage);
    ssize_t count = 0;
    if (first < file.allotted) {
      count = static_cast<ssize_t>(std::min(kPage, file.allotted - first));
    } else {
      count = FileSystem::pread(fd, bytes.data(), kPage, static_cast<off_t>(first));
    }
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return found->second;
  }

  bool write_back(int fd) const {
    const std::scoped_lock lock(mutex_);
    const auto file = files_.find(fd);
    if (file == files_.end()) return true;
    for (auto& [first, page] : file->second.pages) {
      if (!std::exchange(page.is_dirty, false)) continue;
      const ssize_t count =
          FileSystem::pwrite(fd, page.bytes.data(), page.bytes.size(), static_cast<off_t>(first));
      if (count != std::ssize(page.bytes)) return false;
    }
    return true;
  }

  bool is_told_ = true;
  mutable std::mutex mutex_;
  std::int64_t fails_at_ = -1;
  mutable std::int64_t writes_ = 0;
  mutable std::map<int, OpenFile> files_;  // that were written to, by descriptor
};

}  // namespace rota::test
