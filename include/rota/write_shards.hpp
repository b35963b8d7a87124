#pragma once

// Datasets written as shards: many small files, or rows, as few large files. Next: open.hpp, which reads
// them.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "rota/catalog.hpp"
#include "rota/source.hpp"
#include "rota/storage.hpp"
#include "rota/world.hpp"

namespace rota {

struct ShardOptions {
  /// The format of written shards.
  enum class Format {
    /// A member for each field of a sample, 000000000007.jpg, as WebDataset has them. For fields that are
    /// bytes: uint8 [*]. Their names become extensions.
    tar,
    /// MosaicML's, with its index.json. For fields of any numbers, and ragged ones of one number a row; of
    /// each shard less than 4 GiB.
    mds,
    /// TensorFlow's records, of the bytes of one field, uint8 [*], which is read back as `data`.
    tfrecord,
  };
  Format format = Format::tar;
  /// Size of a shard, about. All but the last have the same number of samples, estimated from the sizes of up
  /// to 4,096 samples.
  std::int64_t shard_bytes = std::int64_t{64} << 20;
  /// This process. Each process of a world writes its part of the shards; they need no connection.
  World world = {};
  int workers = 2;  ///< reading threads
  ProgressFunction progress = {};
  Storages storages = {};  ///< by scheme, for a destination such as "mine://shards"

  /// Throws Error{invalid_argument} naming the option, its value and what it may be.
  void validate() const;
};

std::string_view to_string(ShardOptions::Format format) noexcept;

/// How much of a dataset is written.
struct ShardReport {
  std::int64_t samples = 0;  ///< of the dataset
  std::int64_t shards = 0;   ///< of the dataset
  std::int64_t there = 0;    ///< shards at the destination now
  std::int64_t written = 0;  ///< shards that this call wrote
  std::int64_t bytes = 0;    ///< of the shards at the destination
  /// All shards are written. If not, other processes are still at work, or have failed.
  bool is_complete = false;
};

/// Writes all samples of `source`, in order, as shards to `destination`: a directory, which is made, or
/// "s3://bucket/prefix". They are read back equal, as the format of that name.
///
///     const rota::World world = rota::world_from_environment();
///     rota::write_shards(rota::open("photos", "files"), "shards", {.world = world});
///
/// A shard is written whole or not at all. After a kill, the same call, by a world of any size, writes the
/// missing shards. It reads the whole dataset: each process compares its part of the existing shards with it,
/// and writes anew those that differ. A file "unfinished.tar" (or ".mds", ".tfrecord") exists until all are
/// written; with it, `open` refuses the directory.
///
/// Throws Error{invalid_argument} if the source has no samples, or the destination has other files. Throws
/// Error{mismatch} if it has shards of another dataset or of other options, and Error{unsupported} for fields
/// that the format lacks. Errors of reading and writing pass through.
ShardReport write_shards(const std::shared_ptr<const Source>& source, const std::string& destination,
                         const ShardOptions& options = {});

}  // namespace rota
