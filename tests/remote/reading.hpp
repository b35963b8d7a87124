#pragma once

// Reads of a store that fails as it is told to.

#include "remote/server_process.hpp"
#include "source/reading.hpp"

namespace rota::test {

inline std::string some_bytes(std::size_t count, unsigned seed = 1) {
  std::minstd_rand random(seed);
  std::string bytes(count, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

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

/// One range; throws what became of it.
inline std::string read(const Storage& storage, const StoredFile& file, std::uint64_t offset,
                        std::size_t count) {
  Wanted wanted;
  wanted.add(file, offset, count);
  wanted.read(storage);
  if (wanted.ranges[0].error != nullptr) std::rethrow_exception(wanted.ranges[0].error);
  return *wanted.files[0];
}

class S3 : public Test {
 protected:
  std::shared_ptr<const Storage> storage() { return s3_storage(server.options()); }
  /// Of a client that loses patience soon where the server is to hang.
  std::shared_ptr<const Storage> storage_in_spite_of(const std::string& fault) {
    S3Options options = server.options();
    if (fault == "hang" || fault == "trickle") options.http.stall = std::chrono::seconds(1);
    return s3_storage(options);
  }
  CatalogOptions catalogs() { return {.storages = {{"s3", storage()}}}; }
  /// As catalogs(), of files that are fetched whole.
  CatalogOptions sharing() {
    CatalogOptions options = catalogs();
    options.share_files = true;
    return options;
  }

  S3Server server;
};

}  // namespace rota::test
