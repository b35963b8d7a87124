#pragma once

// The files of a dataset whose samples are parts of files: which file holds a sample, and the open files.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "catalog/files.hpp"

namespace rota {

/// How many samples each file holds. One thread while it grows, then *immutable*.
class FileSamples {
 public:
  /// A sample's file, and its number in there.
  struct Place {
    std::size_t file = 0;
    std::int64_t sample = 0;
  };

  /// Puts a file of `count` samples at the end.
  void add(std::int64_t count) { ends_.push_back(total() + count); }
  [[nodiscard]] std::int64_t total() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] std::int64_t first(std::size_t file) const noexcept {
    return file == 0 ? 0 : ends_[file - 1];
  }
  [[nodiscard]] std::int64_t count(std::size_t file) const noexcept { return ends_[file] - first(file); }
  /// Of each file.
  [[nodiscard]] std::vector<std::int64_t> counts() const;
  /// Throws Error{mismatch} naming a file that has another number of samples than was said when it was
  /// listed.
  void require_expected(const FileList& files) const;
  /// Where sample `id` < total() is; `guess` costs nothing where it is the right file.
  [[nodiscard]] Place find(std::int64_t id, std::size_t guess = 0) const noexcept;

 private:
  std::vector<std::int64_t> ends_;  // the id after the last of each file
};

/// Files that are open for reading: all of them where they are few, else those that are read, while they are,
/// so that a dataset of many files does not use up the process's descriptors. *Immutable*, any thread.
class OpenFiles {
 public:
  /// An open file. It must not outlive the OpenFiles.
  class Handle {
   public:
    explicit Handle(int fd) noexcept : fd_(fd) {}
    explicit Handle(Descriptor owned) noexcept : owned_(std::move(owned)), fd_(owned_.get()) {}
    [[nodiscard]] int get() const noexcept { return fd_; }

   private:
    Descriptor owned_;
    int fd_;
  };

  /// Opens them, if they are few. Throws as `open` does.
  explicit OpenFiles(FileList files);

  [[nodiscard]] const FileList& list() const noexcept { return files_; }
  /// Throws Error{corrupt} for a file whose size is not the one it had when it was listed: where its data lie
  /// is no longer known; Error{not_found}, Error{io}.
  [[nodiscard]] Handle open(std::size_t i) const;

 private:
  [[nodiscard]] Descriptor open_anew(std::size_t i) const;

  FileList files_;
  std::vector<Descriptor> kept_;  // of each file, or empty where there are too many
};

}  // namespace rota
