#pragma once

// Data in a place of your own: an object store, an archive, memory. Next: catalog.hpp, whose CatalogOptions
// take it.

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

/// Bytes of a file that are wanted.
struct StoredBytes {
  const StoredFile* file = nullptr;  ///< as `list` or `find` told it
  std::uint64_t offset = 0;
  std::span<std::byte> to;        ///< [offset, offset + to.size()) belongs here; within the file
  std::exception_ptr error = {};  ///< of these bytes alone; null: they have come
};

/// A place where files are that no file system has. A dataset in it is named by a scheme:
///
///     rota::CatalogOptions options;
///     options.storages["mine"] = std::make_shared<MyStorage>();
///     auto source = rota::open(rota::Catalog("mine://corpus/*.tar", options));
///
/// What follows "mine://" begins the names that the storage is asked for. All formats read it. They look into
/// files where they need to, as those of a file system, and ask for many ranges at once. Functions are called
/// by any thread, several at a time, and block. What they throw reaches the caller of rota, with the name of
/// what was wanted. Throw Error{io} where it may help to try again, and Error{corrupt} where bytes are not
/// what they were: loaders retry the one, and may skip the other (BadSamples).
class Storage {
 public:
  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  virtual ~Storage() = default;

  /// Calls `visit` for each file whose name begins with `prefix`, in the order of the names' bytes, each
  /// once. It stops where `visit` throws.
  virtual void list(std::string_view prefix, const std::function<void(const StoredFile&)>& visit) const = 0;

  /// The file of this name; nothing where there is none.
  [[nodiscard]] virtual std::optional<StoredFile> find(std::string_view name) const = 0;

  /// Reads all that is `wanted`, what is of one `file` side by side, by offset: best with all of it under way
  /// at once. It fails, by StoredBytes::error, for each range that it cannot bring, and where a file is of
  /// another version now.
  virtual void read(std::span<StoredBytes> wanted) const = 0;

  /// Makes a file of that name, of `bytes` bytes, in the place of one that has it: whole, or not at all.
  /// `fill` puts those from `offset` on; it is called by this thread, again for the same ones where a try has
  /// failed, and what it throws ends the write. Storages need it that checkpoints are copied to, or datasets
  /// packed into; others throw Error{unsupported}.
  virtual void write(std::string_view name, std::uint64_t bytes,
                     const std::function<void(std::uint64_t offset, std::span<std::byte> to)>& fill) const;
  /// Removes the file of that name, if there is one. The same is true of it.
  virtual void remove(std::string_view name) const;
};

/// A place in a storage. stored_path() makes one of "s3://bucket/run".
struct StoredPath {
  std::shared_ptr<const Storage> storage = {};  ///< null: none
  std::string name = {};                        ///< in the storage: "bucket/run"
  std::string path = {};                        ///< for messages
};

/// By scheme: lower-case letters, digits, `+`, `-` and `.`, the first a letter.
using Storages = std::map<std::string, std::shared_ptr<const Storage>>;

}  // namespace rota
