#include "catalog/walk.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "storage/descriptor.hpp"
#include "values/scarce.hpp"

namespace rota::internal {
namespace {

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

  void run() {
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
  }

 private:
  void read_ahead(const std::stop_token& stop) {
    for (;;) {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return !waiting_.empty() && bytes_ahead_ < kMostBytesAhead; })) {
        return;
      }
      Node& node = *waiting_.back();
      waiting_.pop_back();
      node.state = Node::State::taken;
      lock.unlock();
      read(node);
    }
  }

  void read(Node& node) {
    try {
      read_listing(node);
    } catch (...) {
      node.error = std::current_exception();
      node.children.clear();
    }
    const std::scoped_lock lock(mutex_);
    node.state = Node::State::read;
    bytes_ahead_ += node.listing.memory_bytes();
    // The last that is put there is the first to be taken, as it is the first to be visited.
    std::for_each(node.children.rbegin(), node.children.rend(),
                  [&](const auto& child) { waiting_.push_back(child.get()); });
    changed_.notify_all();
  }

  void read_listing(Node& node) {
    const Descriptor fd = open_for_reading(root_, node.path.empty() ? "." : node.path.c_str());
    const int error = errno;
    const std::string shown = options_.shown + node.path;
    if (!fd.is_open()) throw unreadable(shown, error);
    enter(fd.get(), node, shown);
    node.listing = DirectoryListing(fd.get(), shown);
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
    if (::fstat(fd, &status) != 0) throw unreadable(shown, errno);
    node.device = status.st_dev;
    node.inode = status.st_ino;
    for (const Node* above = node.parent; above != nullptr; above = above->parent) {
      if (above->device != node.device || above->inode != node.inode) continue;
      throw Error(
          ErrorCode::unsupported,
          fmt::format("list {}: symbolic links make a cycle here; remove the link", without_slash(shown)));
    }
  }

  void visit(Node& node) {
    await(node);
    if (node.error) std::rethrow_exception(node.error);
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
    const std::scoped_lock lock(mutex_);
    bytes_ahead_ -= node.listing.memory_bytes();
    changed_.notify_all();
  }

  // Reads `node` here, if no other thread has taken it.
  void await(Node& node) {
    std::unique_lock lock(mutex_);
    if (node.state != Node::State::waiting) {
      changed_.wait(lock, [&] { return node.state == Node::State::read; });
      return;
    }
    std::erase(waiting_, &node);
    node.state = Node::State::taken;
    lock.unlock();
    read(node);
  }

  // An entry that was listed and cannot be read: even where it is gone by now, the dataset is there.
  static Error unreadable(const std::string& path, int error) {
    return {ErrorCode::io, system_error("list", without_slash(path), error).what()};
  }

  static std::string_view without_slash(std::string_view path) {
    return path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
  }

  int root_;
  const WalkOptions& options_;
  const NameVisitor& visit_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Node*> waiting_;  // to be read; the last one first
  std::size_t bytes_ahead_ = 0;
};

}  // namespace

void walk_directory(int root, const WalkOptions& options, const NameVisitor& visit) {
  Walk(root, options, visit).run();
}

}  // namespace rota::internal
