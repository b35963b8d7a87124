#pragma once

// What is left of a checkpoint file: all of its damage, not only the first. Back to checkpoint.hpp.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "rota/checkpoint.hpp"

namespace rota {

/// Something in a checkpoint file that is not what was written.
struct Damage {
  /// The steps of checkpoint/FORMAT.md. Whatever is damaged, but a `blob` alone, no restore takes the file: a
  /// blob is looked into when it is read.
  enum class Part {
    page,      ///< the commit page, without which nothing can be found; also of what is no regular file
    size,      ///< of the file: cut off, or more than was written
    table,     ///< of the digests of `bytes`
    contents,  ///< the list of tensors and blobs
    bytes,     ///< data, or HDF5's own
    rows,      ///< of a tensor, which may be whole in another order
    blob,
  };
  Part part = Part::bytes;
  std::int64_t offset = 0;  ///< in the file
  std::int64_t bytes = 0;   ///< from there on, within which the damage lies
  std::string what;         ///< for people: what is wrong, and with what, as far as the contents are good
};

/// What `verify_checkpoint` found.
struct Verification {
  std::optional<CheckpointInfo> info;  ///< nothing where the commit page is damaged
  std::vector<TensorInfo> tensors;     ///< none where the contents are damaged; by name
  std::vector<BlobInfo> blobs;         ///< none where the contents are damaged
  std::vector<Damage> damage;          ///< in the order of the steps; neighbouring `bytes` are one

  [[nodiscard]] bool is_good() const noexcept { return damage.empty(); }
};

/// Reads all of a file, without MPI: what `open_checkpoint` does, each blob decompressed, and on past
/// whatever is damaged. Throws Error{not_found} and Error{io} for what cannot be read now, Error{unsupported}
/// for a newer format version.
Verification verify_checkpoint(const std::filesystem::path& file);

}  // namespace rota
