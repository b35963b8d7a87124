#pragma once

// A storage of your own: an object store, an archive, memory. Next: catalog.hpp, whose CatalogOptions take
// it.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rota {

/// A file in a Storage.
struct StoredFile {
  std::string name;           ///< in the storage: "corpus/shard-0.tar"
  std::uint64_t bytes = 0;    ///< how many it has; less than 2^63
  std::uint64_t version = 0;  ///< another one where the content is another, such as a hash of its ETag
};

/// A range of a file to read.
struct StoredBytes {
  const StoredFile* file = nullptr;  ///< as `list` or `find` returned it
  std::uint64_t offset = 0;
  std::span<std::byte> to;        ///< [offset, offset + to.size()) belongs here; within the file
  std::exception_ptr error = {};  ///< why this range could not be read; null: it was
};

/// Files that lie in no file system. A dataset in it is named by a scheme:
///
///     rota::CatalogOptions options;
///     options.storages["mine"] = std::make_shared<MyStorage>();
///     auto source = rota::open(rota::Catalog("mine://corpus/*.tar", options));
///
/// Names in the storage are what follows "mine://". All formats read from it, many ranges in one call.
/// Functions block, and are called by any thread, several at a time. What they throw reaches the caller of
/// rota, with the name of the file. Throw Error{io} for what may succeed when tried again, and Error{corrupt}
/// for wrong bytes: loaders retry the first, and may skip the second (BadSamples).
class Storage {
 public:
  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  virtual ~Storage() = default;

  /// Calls `visit` once for each file whose name begins with `prefix`, in the order of the names' bytes.
  /// What `visit` throws ends the list.
  virtual void list(std::string_view prefix, const std::function<void(const StoredFile&)>& visit) const = 0;

  /// The file of this name, if there is one.
  [[nodiscard]] virtual std::optional<StoredFile> find(std::string_view name) const = 0;

  /// Reads all ranges, best all at once. Those of one file come side by side, by offset. Sets
  /// StoredBytes::error of each range that cannot be read, or whose file has another version by now.
  virtual void read(std::span<StoredBytes> wanted) const = 0;

  /// Writes a file of `bytes` bytes, whole or not at all; it replaces one of the same name. `fill(offset,
  /// to)` copies the bytes at `offset` into `to`. It is called by this thread, and may be called again for
  /// the same range. What it throws ends the write. Needed for copies of checkpoints and for `write_shards`;
  /// storages that are only read leave it out, and it throws Error{unsupported}.
  virtual void write(std::string_view name, std::uint64_t bytes,
                     const std::function<void(std::uint64_t offset, std::span<std::byte> to)>& fill) const;
  /// Removes the file of that name, if there is one. Left out and needed as `write`.
  virtual void remove(std::string_view name) const;
};

/// A path into a storage. stored_path() makes one of "s3://bucket/run".
struct StoredPath {
  std::shared_ptr<const Storage> storage = {};  ///< null: none
  std::string name = {};                        ///< in the storage: "bucket/run"
  std::string path = {};                        ///< for messages
};

/// By scheme: lower-case letters, digits, `+`, `-` and `.`, the first a letter. That of "" is for all schemes
/// that neither these nor rota have; its names are whole paths, "mine://corpus/x".
using Storages = std::map<std::string, std::shared_ptr<const Storage>>;

}  // namespace rota
