#include "catalog/list_files.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "catalog/file_names.hpp"
#include "core/caught.hpp"
#include "core/failure.hpp"
#include "core/mutex.hpp"
#include "core/owned.hpp"
#include "core/scarce.hpp"
#include "files/descriptor.hpp"

namespace rota::internal {
namespace {

constexpr std::size_t kBufferBytes = 1 << 18;

// What an entry is, or what it links to.
mode_t mode_of(const dirent64& entry, int fd, std::string_view shown) {
  const bool is_told = entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN;
  return is_told ? static_cast<mode_t>(DTTOIF(entry.d_type))
                 : stat_entry(fd, &entry.d_name[0], shown).st_mode;
}

/// The regular files of a directory, and its directories; symbolic links are what they lead to. They are
/// sorted by their bytes, a directory as if its name ended in a slash: so the files below it come where their
/// paths do. *Immutable.*
class DirectoryListing {
 public:
  struct Entry {
    std::string_view name;
    bool is_directory;
  };

  DirectoryListing() = default;
  /// Reads the directory that is open as `fd`; `shown` is its path, with a slash, for messages. Leaves out
  /// what is_leftover, unless it takes `all_names`. Queries an entry only where the file system does not list
  /// its type. Throws Error{io} naming an entry that cannot be read or links to nothing, Error{unsupported}
  /// naming a cycle of symbolic links.
  DirectoryListing(int fd, std::string_view shown, bool all_names);

  [[nodiscard]] std::size_t size() const noexcept { return names_.size(); }
  [[nodiscard]] Entry operator[](std::size_t i) const noexcept {
    std::string_view name = sorted_name(names_[i]);
    const bool is_directory = name.ends_with('/');
    if (is_directory) name.remove_suffix(1);
    return {.name = name, .is_directory = is_directory};
  }
  [[nodiscard]] std::int64_t left_out() const noexcept { return left_out_; }
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return text_.capacity() + names_.capacity() * sizeof(names_[0]);
  }

 private:
  // Offset and, in 16 bits, length of a name in text_, with the slash of a directory. Names have at most 255
  // bytes.
  using NameAt = std::uint64_t;
  [[nodiscard]] std::string_view sorted_name(NameAt name) const noexcept {
    return std::string_view(text_).substr(name >> 16U, name & 0xFFFFU);
  }

  std::string text_;
  std::vector<NameAt> names_;
  std::int64_t left_out_ = 0;
};

DirectoryListing::DirectoryListing(int fd, std::string_view shown, bool all_names) {
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
  for (;;) {
    const ssize_t bytes = ::getdents64(fd, buffer.get(), kBufferBytes);
    if (bytes < 0) throw Error(ErrorCode::io, system_error("list", shown, errno).what());
    if (bytes == 0) break;
    for (ssize_t at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer.get() + at);
      at += entry->d_reclen;
      const std::string_view name(&entry->d_name[0]);
      if (name == "." || name == "..") continue;
      if (!all_names && is_leftover(name)) {
        ++left_out_;
        continue;
      }
      const mode_t mode = mode_of(*entry, fd, shown);
      const bool is_directory = S_ISDIR(mode);
      if (!is_directory && !S_ISREG(mode)) continue;
      names_.push_back(text_.size() << 16U | (name.size() + (is_directory ? 1U : 0U)));
      text_.append(name);
      if (is_directory) text_.push_back('/');
    }
  }
  std::ranges::sort(names_, {}, [this](NameAt name) { return sorted_name(name); });
}

// Of listings that were read and not visited, before threads wait with the next.
constexpr std::size_t kMostBytesAhead = std::size_t{256} << 20;

/// A directory of the tree. It lives until it was visited, and longer than those in it.
struct Node {
  std::string path;  // relative to the root; empty, or ends in a slash
  const Node* parent = nullptr;
  std::once_flag is_read = {};
  dev_t device = 0;
  ino_t inode = 0;
  DirectoryListing listing = {};
  std::vector<std::shared_ptr<Node>> children = {};  // in the order of the listing
  std::exception_ptr error = {};
};

/// Visits directories in order, while threads read those that come next. Whoever needs one first reads it.
class Walk {
 public:
  Walk(int root, const WalkOptions& options, const NameVisitor& visit)
      : root_(root), options_(options), visit_(visit) {}

  std::int64_t run() {
    Node root;
    read(root);
    std::vector<std::jthread> threads;
    for (int t = 0; t < options_.threads && !root.children.empty(); ++t) {
      threads.push_back(
          start_thread("list directories", [this](const std::stop_token& stop) { read_ahead(stop); }));
    }
    visit(root);
    return left_out_;
  }

 private:
  void read_ahead(const std::stop_token& stop) {
    for (;;) {
      std::shared_ptr<Node> next;
      {
        const MutexLock lock(mutex_);
        const auto is_due = [&]() ROTA_REQUIRES(mutex_) {
          return !waiting_.empty() && bytes_ahead_ < kMostBytesAhead;
        };
        if (!changed_.wait(mutex_, stop, is_due)) return;
        next = std::move(waiting_.back());
        waiting_.pop_back();
      }
      read(*next);
    }
  }

  // Unless it was read. Waits for another thread that reads it.
  void read(Node& node) {
    std::call_once(node.is_read, [&] {
      node.error = thrown_by([&] { read_listing(node); });
      if (node.error) node.children.clear();
      const MutexLock lock(mutex_);
      bytes_ahead_ += node.listing.memory_bytes();
      // The last of waiting_ is read first, as it is visited first.
      waiting_.insert(waiting_.end(), node.children.rbegin(), node.children.rend());
      changed_.notify_all();
    });
  }

  void read_listing(Node& node) {
    const Descriptor fd = open_for_reading(root_, node.path.empty() ? "." : node.path.c_str());
    const int error = errno;
    const std::string shown = options_.shown + node.path;
    // Even where it is gone by now, the dataset is there.
    if (!fd.is_open()) throw Error(ErrorCode::io, system_error("list", shown, error).what());
    refuse_cycle(fd.get(), node, shown);
    node.listing = DirectoryListing(fd.get(), shown, options_.all_names);
    for (std::size_t i = 0; i < node.listing.size(); ++i) {
      const auto entry = node.listing[i];
      if (!entry.is_directory) continue;
      Node& child = *node.children.emplace_back(std::make_shared<Node>());
      child.path = fmt::format("{}{}/", node.path, entry.name);
      child.parent = &node;
    }
  }

  // Refuses a directory that lies inside itself.
  static void refuse_cycle(int fd, Node& node, const std::string& shown) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) throw Error(ErrorCode::io, system_error("list", shown, errno).what());
    node.device = status.st_dev;
    node.inode = status.st_ino;
    for (const Node* above = node.parent; above != nullptr; above = above->parent) {
      if (above->device != node.device || above->inode != node.inode) continue;
      throw failure(ErrorCode::unsupported, "list {}: symbolic links make a cycle here; remove the link",
                    shown);
    }
  }

  void visit(Node& node) {
    read(node);
    if (node.error) std::rethrow_exception(node.error);
    left_out_ += node.listing.left_out();
    auto child = node.children.begin();
    for (std::size_t i = 0; i < node.listing.size(); ++i) {
      const auto entry = node.listing[i];
      if (entry.is_directory) {
        visit(**child);
        (child++)->reset();
      } else {
        visit_(node.path, entry.name);
      }
    }
    const MutexLock lock(mutex_);
    bytes_ahead_ -= node.listing.memory_bytes();
    node.listing = {};
    changed_.notify_all();
  }

  int root_;
  const WalkOptions& options_;
  const NameVisitor& visit_;
  std::int64_t left_out_ = 0;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::shared_ptr<Node>> waiting_ ROTA_GUARDED_BY(mutex_);  // some may have been read by now
  std::size_t bytes_ahead_ ROTA_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::int64_t walk_directory(int root, const WalkOptions& options, const NameVisitor& visit) {
  return Walk(root, options, visit).run();
}

}  // namespace rota::internal
