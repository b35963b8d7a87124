#pragma once

// Reads of storages, and how they fail.

#include "test.hpp"

namespace rota::test {

inline std::vector<StoredFile> list(const Storage& storage, const std::string& prefix) {
  std::vector<StoredFile> files;
  storage.list(prefix, [&](const StoredFile& file) { files.push_back(file); });
  return files;
}

/// Ranges of files, read at once.
struct Wanted {
  void add(const StoredFile& file, std::uint64_t offset, std::size_t count) {
    files.push_back(std::make_unique<std::string>(count, '?'));
    ranges.push_back(
        {.file = &file, .offset = offset, .to = std::as_writable_bytes(std::span(*files.back()))});
  }
  void read(const Storage& storage) { storage.read(ranges); }
  void expect(const std::string& bytes) const {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      ASSERT_EQ(ranges[i].error, nullptr) << i;
      ASSERT_TRUE(*files[i] == bytes.substr(ranges[i].offset, files[i]->size())) << i;
    }
  }
  std::vector<std::unique_ptr<std::string>> files;
  std::vector<StoredBytes> ranges;
};

struct Failure {
  std::string text;
  ErrorCode code = ErrorCode::callback;
  double seconds = 0;
};
template <typename Action>
Failure failure_of(const Action& action) {
  const auto start = std::chrono::steady_clock::now();
  Failure failure;
  try {
    action();
  } catch (const Error& error) {
    failure = {error.what(), error.code()};
  }
  failure.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return failure;
}

}  // namespace rota::test
