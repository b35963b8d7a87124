#pragma once

// Windows of a time axis as samples. They may overlap, and each row is on disk once. Next: stream.hpp.

#include <cstdint>
#include <memory>
#include <vector>

#include "rota/source.hpp"

namespace rota {

/// What becomes of windows that would have rows beyond their file, or the dataset.
enum class Edges {
  drop,   ///< they are left out
  clamp,  ///< they have the first or last row of the file instead; a field `is_real` says which are there
};

/// The shape of windows.
struct WindowOptions {
  std::int64_t length = 0;  ///< rows in a window, 1 or more; 0 with `offsets`
  std::int64_t stride = 1;  ///< rows from one window's begin to the next one's, 1 or more
  /// Whether the files, in the order of their names, are one time axis. Windows then reach from one file into
  /// the next. Otherwise files may be different recordings, and no window mixes two.
  bool across_files = false;
  /// Instead of `length`: the rows of a window, as rising distances from its own row: {-2, -1, 0, 4, 8}. Its
  /// own rows are every `stride`-th from a file's first on.
  std::vector<std::int64_t> offsets = {};
  Edges edges = Edges::drop;

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// Windows over the samples of `rows`. All fields must be fixed: shape [...] becomes [length, ...]. Window i
/// of a part has its rows [i stride, i stride + length). With `across_files` the dataset is one part;
/// otherwise Source::part_sizes are the parts. Rows at a part's end that fill no window are left out. So are
/// rows between windows where `stride` exceeds `length`.
///
/// With `offsets` shape [...] becomes [offsets, ...], and a window has the rows k stride + offset of its
/// part, for each k whose row k stride is in the part, and Edges::drop for those alone whose rows all are.
/// Under Edges::clamp there is one more field, `is_real`, uint8 [length or offsets]: 1 where that row is
/// there, and 0 where the edge stands for it.
///
/// Rows are read straight into batch memory, by one call to `rows`. Rows that a window shares with the one
/// before it in the call are read once and copied: this saves reads under Shuffle::none. Put `split`, and all
/// that takes samples at random, outside: split(windows(rows)). Windows of two such parts still overlap. To
/// separate training from validation, open different files.
///
/// A logical shard has the windows that begin in that shard of `rows`, or whose own row does. The fingerprint
/// covers that of `rows`, the parts, length, stride, offsets and edges. 16 bytes of memory a part. Throws
/// Error{invalid_argument} from `options.validate()`, for null `rows`, a ragged field, windows of more than
/// 2^50 bytes, rows that give no window, and under Edges::clamp a field `is_real`. Throws Error{callback} for
/// an impossible size or fields, and for part sizes that do not add up.
std::shared_ptr<const Source> windows(std::shared_ptr<const Source> rows, const WindowOptions& options);

}  // namespace rota
