#pragma once

// Windows of a time axis as samples. They may overlap, and each row is on disk once. Next: stream.hpp.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "rota/source.hpp"

namespace rota {

/// What becomes of windows that would have rows beyond their file or episode, or the dataset.
enum class Edges {
  drop,   ///< they are left out
  clamp,  ///< they have the first or last row of it instead; a field `is_real` says which are there
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
  /// Up to so many rows each window is moved, to and fro, by another number in each epoch: 0 to 2^31. All
  /// moves are equally likely that leave it a window of a stride of 1: under Edges::drop with all rows inside
  /// of its part, under Edges::clamp with its own row.
  std::int64_t jitter = 0;
  std::uint64_t seed = 0;  ///< of `jitter`
  /// How many rows each episode has, in order, all together those of the dataset; 0 is one without windows.
  /// They are the parts, in place of files. Not with `across_files`.
  std::vector<std::int64_t> episodes = {};

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// Windows over the samples of `rows`. All fields must be fixed: shape [...] becomes [length, ...]. Window i
/// of a part has its rows [i stride, i stride + length). With `across_files` the dataset is one part;
/// otherwise `episodes` are the parts, or Source::part_sizes. Rows at a part's end that fill no window are
/// left out. So are rows between windows where `stride` exceeds `length`.
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
/// With `jitter` rows depend on (seed, BatchView::epoch, window) alone: they are the same in any world, and
/// after a resume. How many windows there are, and in which part and shard, does not change.
///
/// A logical shard has the windows that begin in that shard of `rows`, or whose own row does, before it is
/// moved. The fingerprint covers that of `rows`, the parts, length, stride, offsets and edges, and jitter and
/// seed unless jitter is 0. 16 bytes of memory a part. Throws Error{invalid_argument} from
/// `options.validate()`, for null `rows`, a ragged field, windows of more than 2^50 bytes, rows that give no
/// window, episodes that do not add up, and under Edges::clamp a field `is_real`. Throws Error{callback} for
/// an impossible size or fields, and for part sizes that do not add up.
std::shared_ptr<const Source> windows(std::shared_ptr<const Source> rows, const WindowOptions& options);

/// WindowOptions::episodes of rows with a fixed integer field, without extents, that numbers their episode,
/// such as "episode_index": the lengths of runs of equal numbers. The numbers need not rise or be without
/// gaps.
///
/// It reads all samples once, in order, with all their fields, 32 MiB at a time, on the calling thread. Where
/// samples are large, open that field alone, and give the lengths to windows over all. Some 50 bytes of
/// memory an episode, until it returns. Any thread. Throws Error{invalid_argument} for a number that comes
/// again behind others, naming the row, for another kind of field, and where any is ragged; Error{not_found}
/// for a field that there is not; Error{callback} for an impossible size or fields; and what Source::read
/// throws.
std::vector<std::int64_t> episode_lengths(const Source& rows, std::string_view field);

}  // namespace rota
