#include "catalog/walk.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "catalog/descriptor.hpp"

namespace rota {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// A directory that was entered, and the one it was entered from.
struct Entered {
  dev_t device;
  ino_t inode;
  std::size_t parent;
};

struct Pending {
  std::string name;  // relative to the root, empty for the root itself
  std::size_t parent;
};

class Walk {
 public:
  Walk(int root, const std::string& shown, NameFilter wanted) : root_(root), shown_(shown), wanted_(wanted) {}

  NameList run() {
    pending_.push_back({"", kNone});
    while (!pending_.empty()) {
      const Pending next = std::move(pending_.back());
      pending_.pop_back();
      visit(next);
    }
    return std::move(names_);
  }

 private:
  [[nodiscard]] std::string path(const std::string& directory, std::string_view name) const {
    return fmt::format("{}{}{}{}", shown_, directory, directory.empty() || name.empty() ? "" : "/", name);
  }

  // Notes that `directory` is entered; refuses one that lies inside itself.
  std::size_t enter(int fd, const Pending& directory) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) throw unreadable(path(directory.name, ""), errno);
    for (std::size_t i = directory.parent; i != kNone; i = entered_[i].parent) {
      if (entered_[i].device == status.st_dev && entered_[i].inode == status.st_ino) {
        throw cycle(path(directory.name, ""));
      }
    }
    entered_.push_back({status.st_dev, status.st_ino, directory.parent});
    return entered_.size() - 1;
  }

  void visit(const Pending& next) {
    Descriptor fd = open_for_reading(root_, next.name.empty() ? "." : next.name.c_str());
    if (!fd.is_open()) throw unreadable(path(next.name, ""), errno);
    const std::size_t self = enter(fd.get(), next);
    const Directory directory(::fdopendir(fd.get()));
    if (directory == nullptr) throw unreadable(path(next.name, ""), errno);
    const int at = fd.release();
    for (;;) {
      errno = 0;
      // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this thread's own
      const dirent* entry = ::readdir(directory.get());
      if (entry == nullptr) break;
      sort_out(at, next.name, self, *entry);
    }
    if (errno != 0) throw unreadable(path(next.name, ""), errno);
  }

  void sort_out(int at, const std::string& directory, std::size_t self, const dirent& entry) {
    const std::string_view name(&entry.d_name[0]);
    if (name == "." || name == "..") return;
    bool is_directory = entry.d_type == DT_DIR;
    bool is_file = entry.d_type == DT_REG;
    if (entry.d_type == DT_LNK || entry.d_type == DT_UNKNOWN) {
      const mode_t mode = mode_of(at, directory, name);
      is_directory = S_ISDIR(mode);
      is_file = S_ISREG(mode);
    }
    if (is_file && (wanted_ == nullptr || wanted_(name))) names_.add(directory, name);
    if (is_directory) {
      pending_.push_back({fmt::format("{}{}{}", directory, directory.empty() ? "" : "/", name), self});
    }
  }

  // What an entry is, or what it links to.
  [[nodiscard]] mode_t mode_of(int at, const std::string& directory, std::string_view name) const {
    struct stat status {};
    if (::fstatat(at, name.data(), &status, 0) == 0) return status.st_mode;
    const int error = errno;
    if (error == ELOOP) throw cycle(path(directory, name));
    if (error == ENOENT && ::fstatat(at, name.data(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
      throw Error(ErrorCode::io, fmt::format("list {}: the symbolic link leads to nothing; mend or remove it",
                                             path(directory, name)));
    }
    throw unreadable(path(directory, name), error);
  }

  [[nodiscard]] static Error cycle(const std::string& path) {
    return {ErrorCode::unsupported,
            fmt::format("list {}: symbolic links make a cycle here; remove the link", path)};
  }

  // An entry that was listed and cannot be read: even where it is gone by now, the dataset is there.
  [[nodiscard]] static Error unreadable(const std::string& path, int error) {
    return {ErrorCode::io, system_error("list", path, error).what()};
  }

  int root_;
  const std::string& shown_;
  NameFilter wanted_;
  std::vector<Pending> pending_;
  std::vector<Entered> entered_;
  NameList names_;
};

}  // namespace

NameList walk_directory(int root, const std::string& shown, NameFilter wanted) {
  return Walk(root, shown, wanted).run();
}

}  // namespace rota
