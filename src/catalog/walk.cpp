#include "catalog/walk.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <stop_token>
#include <thread>

#include "catalog/file_names.hpp"
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

/// The regular files of a directory, and its directories; symbolic links are what they lead to. Sorted
/// by their bytes as unsigned numbers, a directory as if its name ended in a slash: so that the files below
/// it stand where their paths do. *Immutable.*
class DirectoryListing {
 public:
  struct DirectoryEntry {
    std::string_view name;
    bool is_directory;
  };

  DirectoryListing() = default;
  /// Reads the directory that is open as `fd`; `shown` is its path, with a slash, for messages. Leaves out
  /// what is_leftover, unless it takes `all_names`. Asks for what an entry is only where the file system does
  /// not say. Throws Error{io} naming an entry that cannot be
  /// read or links to nothing, Error{unsupported} naming a cycle of symbolic links.
  DirectoryListing(int fd, std::string_view shown, bool all_names);

  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
  [[nodiscard]] DirectoryEntry operator[](std::size_t i) const noexcept {
    const SortedName& place = places_[i];
    return {.name = std::string_view(text_).substr(place.offset(), place.length()),
            .is_directory = place.is_directory()};
  }
  [[nodiscard]] std::int64_t left_out() const noexcept { return left_out_; }
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return text_.capacity() + places_.capacity() * sizeof(SortedName);
  }

 private:
  // Where a name lies in text_.
  struct SortedName {
    std::uint64_t packed = 0;  // offset, 16 bits of length, one of being a directory
    [[nodiscard]] std::size_t offset() const noexcept { return packed >> 17U; }
    [[nodiscard]] std::size_t length() const noexcept { return (packed >> 1U) & 0xFFFFU; }
    [[nodiscard]] bool is_directory() const noexcept { return (packed & 1U) != 0; }
  };
  // With the slash of a directory.
  [[nodiscard]] std::string_view sorted_name(const SortedName& place) const noexcept {
    return std::string_view(text_).substr(place.offset(), place.length() + (place.is_directory() ? 1U : 0U));
  }

  std::string text_;
  std::vector<SortedName> places_;
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
      places_.push_back({.packed = text_.size() << 17U | name.size() << 1U | (is_directory ? 1U : 0U)});
      text_.append(name).push_back(is_directory ? '/' : '\0');
    }
  }
  std::ranges::sort(places_, {}, [this](const SortedName& place) { return sorted_name(place); });
}

// Of listings that were read and not visited, before threads wait with the next.
constexpr std::size_t kMostBytesAhead = std::size_t{256} << 20;

// A directory of the tree. It lives until it was visited, and longer than those in it.
struct Node {
  enum class State { waiting, taken, read };

  std::string path;  // relative to the root; empty, or ends in a slash
  const Node* parent = nullptr;
  State state = State::waiting;
  dev_t device = 0;
  ino_t inode = 0;
  DirectoryListing listing;
  std::vector<std::unique_ptr<Node>> children;  // in the order of the listing
  std::exception_ptr error;
};

class Walk {
 public:
  Walk(int root, const WalkOptions& options, const NameVisitor& visit)
      : root_(root), options_(options), visit_(visit) {}

  std::int64_t run() {
    Node root;
    await(root);
    std::vector<std::jthread> threads;
    if (!root.children.empty()) {
      for (int t = 0; t < options_.threads; ++t) {
        threads.push_back(
            start_thread("list directories", [this](const std::stop_token& stop) { read_ahead(stop); }));
      }
    }
    visit(root);
    return left_out_;
  }

 private:
  void read_ahead(const std::stop_token& stop) {
    for (;;) {
      Node* node = nullptr;
      {
        const MutexLock lock(mutex_);
        const auto is_due = [&]() ROTA_REQUIRES(mutex_) {
          return !waiting_.empty() && bytes_ahead_ < kMostBytesAhead;
        };
        if (!changed_.wait(mutex_, stop, is_due)) return;
        node = waiting_.back();
        waiting_.pop_back();
        node->state = Node::State::taken;
      }
      read(*node);
    }
  }

  void read(Node& node) {
    try {
      read_listing(node);
    } catch (...) {
      node.error = std::current_exception();
      node.children.clear();
    }
    const MutexLock lock(mutex_);
    node.state = Node::State::read;
    bytes_ahead_ += node.listing.memory_bytes();
    // The last that is put there is the first to be taken, as it is the first to be visited.
    for (std::size_t i = node.children.size(); i-- > 0;) waiting_.push_back(node.children[i].get());
    changed_.notify_all();
  }

  void read_listing(Node& node) {
    const Descriptor fd = open_for_reading(root_, node.path.empty() ? "." : node.path.c_str());
    const int error = errno;
    const std::string shown = options_.shown + node.path;
    // Even where it is gone by now, the dataset is there.
    if (!fd.is_open()) throw Error(ErrorCode::io, system_error("list", shown, error).what());
    enter(fd.get(), node, shown);
    node.listing = DirectoryListing(fd.get(), shown, options_.all_names);
    for (std::size_t i = 0; i < node.listing.size(); ++i) {
      const auto entry = node.listing[i];
      if (!entry.is_directory) continue;
      auto& child = *node.children.emplace_back(std::make_unique<Node>());
      child.path = fmt::format("{}{}/", node.path, entry.name);
      child.parent = &node;
    }
  }

  // Refuses a directory that lies inside itself.
  static void enter(int fd, Node& node, const std::string& shown) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) throw Error(ErrorCode::io, system_error("list", shown, errno).what());
    node.device = status.st_dev;
    node.inode = status.st_ino;
    for (const Node* above = node.parent; above != nullptr; above = above->parent) {
      if (above->device != node.device || above->inode != node.inode) continue;
      throw Error(ErrorCode::unsupported,
                  fmt::format("list {}: symbolic links make a cycle here; remove the link", shown));
    }
  }

  void visit(Node& node) {
    await(node);
    if (node.error) std::rethrow_exception(node.error);
    left_out_ += node.listing.left_out();
    auto child = node.children.begin();
    for (std::size_t i = 0; i < node.listing.size(); ++i) {
      const auto entry = node.listing[i];
      if (!entry.is_directory) {
        visit_(node.path, entry.name);
        continue;
      }
      visit(**child);
      (child++)->reset();
    }
    const MutexLock lock(mutex_);
    bytes_ahead_ -= node.listing.memory_bytes();
    changed_.notify_all();
  }

  // Reads `node` here, if no other thread has taken it.
  void await(Node& node) {
    {
      const MutexLock lock(mutex_);
      if (node.state != Node::State::waiting) {
        while (node.state != Node::State::read) changed_.wait(mutex_);
        return;
      }
      std::erase(waiting_, &node);
      node.state = Node::State::taken;
    }
    read(node);
  }

  int root_;
  const WalkOptions& options_;
  const NameVisitor& visit_;
  std::int64_t left_out_ = 0;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Node*> waiting_ ROTA_GUARDED_BY(mutex_);  // to be read; the last one first
  std::size_t bytes_ahead_ ROTA_GUARDED_BY(mutex_) = 0;
};

// glob's callback gets nothing of ours, hence the thread's own variables.
struct Failure {
  std::string path;
  int error = 0;
};
thread_local Failure failure;

int note_failure(const char* path, int error) {
  failure = {path, error};
  return 1;  // stop
}

}  // namespace

std::int64_t walk_directory(int root, const WalkOptions& options, const NameVisitor& visit) {
  return Walk(root, options, visit).run();
}

std::string fixed_directory(const std::string& pattern) {
  const std::size_t special = pattern.find_first_of("*?[\\");
  const std::size_t slash = pattern.rfind('/', special);
  return slash == std::string::npos ? std::string() : pattern.substr(0, slash + 1);
}

std::vector<std::string> match_glob(const std::string& pattern) {
  glob_t matches{};
  // NOLINTNEXTLINE(concurrency-mt-unsafe): only with a tilde
  const int status = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, note_failure, &matches);
  const std::unique_ptr<glob_t, FreeBy<::globfree>> owner(&matches);
  std::vector<std::string> names;
  if (status == GLOB_NOMATCH) return names;
  if (status == GLOB_NOSPACE) throw std::bad_alloc();
  if (status != 0) {
    throw Error(ErrorCode::io, system_error("list", failure.path, failure.error).what());
  }
  const std::size_t prefix = fixed_directory(pattern).size();
  for (std::size_t i = 0; i < matches.gl_pathc; ++i) names.emplace_back(matches.gl_pathv[i] + prefix);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace rota::internal
