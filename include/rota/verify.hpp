#pragma once

// All the damage of a checkpoint file, not only the first. Back to checkpoint.hpp.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "rota/checkpoint.hpp"

namespace rota {

/// The result of `verify_checkpoint`.
struct Verification {
  /// A damaged part of a checkpoint file.
  struct Damage {
    /// The steps of verification in checkpoint/FORMAT.md. A restore refuses a file with any damage but to a
    /// `blob`: blobs are verified when they are read.
    enum class Part {
      page,      ///< the commit page, which leads to all else; or it is no regular file
      size,      ///< of the file: too short or too long
      table,     ///< the digests of `bytes`
      contents,  ///< the list of tensors and blobs
      bytes,     ///< data, or HDF5's metadata
      rows,      ///< of a tensor: perhaps only their order is wrong
      blob,
    };
    Part part = Part::bytes;
    std::int64_t offset = 0;  ///< in the file
    std::int64_t bytes = 0;   ///< from `offset`; the damage lies within
    std::string what;         ///< for people; names what is hit, if the contents are good
  };
  std::optional<CheckpointInfo> info;  ///< empty if the commit page is damaged
  std::vector<TensorInfo> tensors;     ///< by name; empty if the contents are damaged
  std::vector<BlobInfo> blobs;         ///< empty if the contents are damaged
  std::vector<Damage> damage;          ///< in the order of the steps; neighbouring `bytes` are one

  [[nodiscard]] bool is_good() const noexcept { return damage.empty(); }
};

/// Verifies a whole file, without MPI, and goes on past damage. It checks what `open_checkpoint` does, and
/// decompresses each blob. Throws Error{not_found} and Error{io} where it cannot be read now,
/// Error{unsupported} for a newer format version.
Verification verify_checkpoint(const std::filesystem::path& file);

}  // namespace rota
