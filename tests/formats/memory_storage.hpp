#pragma once

// A Storage in memory, which counts what it is asked for, and fails where it is told to.

#include "test.hpp"

namespace rota::test {

class MemoryStorage final : public Storage {
 public:
  struct Content {
    std::string bytes;
    std::uint64_t version = 1;
  };

  mutable std::map<std::string, Content> files;
  /// Called with each range that is read, before a listing and before a file is written; may throw, which
  /// fails that.
  std::function<void(const StoredBytes&)> on_read = nullptr;
  std::function<void()> on_list = nullptr;
  std::function<void(std::string_view name)> on_write = nullptr;
  std::function<void(const StoredBytes&)> after_read = nullptr;
  std::function<void(std::string_view name)> on_remove = nullptr;
  /// What is listed in place of what there is, as it is.
  std::vector<std::string> listed;
  mutable std::atomic<std::int64_t> lists = 0, finds = 0, reads = 0, ranges = 0;

  /// Takes all files below `directory`, as PREFIX/NAME.
  void copy(const fs::path& directory, const std::string& prefix) {
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
      if (!entry.is_regular_file()) continue;
      files[prefix + "/" + entry.path().lexically_relative(directory).native()] = {read_file(entry.path())};
    }
  }

  void list(std::string_view prefix, const std::function<void(const StoredFile&)>& visit) const override {
    ++lists;
    if (on_list) on_list();
    for (const std::string& name : listed) visit({name, 1, 1});
    if (!listed.empty()) return;
    const std::scoped_lock lock(mutex_);
    for (auto file = files.lower_bound(std::string(prefix)); file != files.end(); ++file) {
      if (!file->first.starts_with(prefix)) break;
      visit({file->first, file->second.bytes.size(), file->second.version});
    }
  }

  std::optional<StoredFile> find(std::string_view name) const override {
    ++finds;
    const std::scoped_lock lock(mutex_);
    const auto file = files.find(std::string(name));
    if (file == files.end()) return std::nullopt;
    return StoredFile{file->first, file->second.bytes.size(), file->second.version};
  }

  void read(std::span<StoredBytes> wanted) const override {
    ++reads;
    ranges += std::ssize(wanted);
    for (StoredBytes& one : wanted) {
      try {
        if (on_read) on_read(one);
        const auto file = files.find(one.file->name);
        if (file == files.end()) throw Error(ErrorCode::not_found, "it is gone");
        if (file->second.version != one.file->version) throw Error(ErrorCode::corrupt, "it was replaced");
        std::memcpy(one.to.data(), file->second.bytes.data() + one.offset, one.to.size());
        if (after_read) after_read(one);
      } catch (...) {
        one.error = std::current_exception();
      }
    }
  }

  void write(std::string_view name, std::uint64_t bytes,
             const std::function<void(std::uint64_t, std::span<std::byte>)>& fill) const override {
    if (on_write) on_write(name);
    Content made{.bytes = std::string(bytes, '\0')};
    fill(0, std::as_writable_bytes(std::span(made.bytes)));
    const std::scoped_lock lock(mutex_);
    files[std::string(name)] = std::move(made);
  }

  void remove(std::string_view name) const override {
    if (on_remove) on_remove(name);
    const std::scoped_lock lock(mutex_);
    files.erase(std::string(name));
  }

 private:
  mutable std::mutex mutex_;  // of what a thread may write while another looks
};

}  // namespace rota::test
