#pragma once

// Samples that are stretches of a time axis, which may overlap without lying on disk more than once. Next:
// stream.hpp.

#include <cstdint>
#include <memory>

#include "rota/source.hpp"

namespace rota {

/// Which stretches of rows are samples.
struct WindowOptions {
  std::int64_t length = 0;  ///< rows in a window, 1 or more
  std::int64_t stride = 1;  ///< rows from where one window begins to where the next does, 1 or more
  /// Whether windows reach from one file into the next, as they may where the files, in the order of their
  /// names, are one time axis. Else they may be different recordings, and no window mixes two.
  bool across_files = false;

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// Windows over the samples of `rows`, all of whose fields are fixed: a field of shape [...] becomes one of
/// [length, ...]. Window i of a part (of the dataset, with `across_files`, else of each of
/// Source::part_sizes) has its rows [i stride, i stride + length). Rows at the end of a part that make no
/// whole window are left out, and so are parts that are shorter than one; behind a `stride` above `length`
/// lie rows that no window has.
///
/// Rows are read straight into batch memory, all of a call by one call to `rows`. What a window shares with
/// the one before it in the call, as under Shuffle::none, is read once, and copied. What takes samples at
/// random, like `split`, goes outside, not inside: split(windows(rows)). Windows of two such parts still
/// overlap; to keep training and validation apart, open different files.
///
/// A logical shard holds the windows that begin in the shard that `rows` would have. The fingerprint covers
/// that of `rows`, the parts that windows stay in, length and stride. 16 bytes of memory a part. Throws
/// Error{invalid_argument} from `options.validate()`, for null `rows`, for a ragged field, for windows of
/// more than 2^50 bytes, and where there are rows but no window; Error{callback} for a size or
/// fields that cannot be, and for sizes of parts that do not add up.
std::shared_ptr<const Source> windows(std::shared_ptr<const Source> rows, const WindowOptions& options);

}  // namespace rota
