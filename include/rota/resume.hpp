#pragma once

// The loader's state in a checkpoint, or as a text: where embedding ends. Next: mpi.hpp.

#include <string>
#include <string_view>

#include "rota/checkpoint.hpp"
#include "rota/loader.hpp"

namespace rota {

/// Adds the loader's state, as "loader/<name>/...": its cursors, int64 [L, 2] (epoch, position), of which
/// this rank writes its share of the rows, and all else as a blob of JSON; src/resume/STATE.md describes it.
/// Throws Error{invalid_argument} where the snapshot has a loader of this name, whatever its kind. Of
/// replicas, which share a place, number 0 writes: the save throws Error{invalid_argument} where two say that
/// they are.
void save(const Loader& loader, Snapshot& snapshot, std::string_view name = "main");

/// Puts the loader where the checkpoint's was. Not collective; every rank calls it.
/// Throws Error{mismatch}, with both values, for another dataset, L, G, seed, shuffle, block shape, order
/// version or number of mixed datasets, or for a StreamLoader of that name, Error{corrupt} where cursors and
/// state disagree, Error{unsupported} for a state of a newer version, Error{not_found} where there is no such
/// loader in it. What is refused leaves the loader as it was, with all that it has read ahead.
void restore(Loader& loader, const Checkpoint& checkpoint, std::string_view name = "main");

/// The loader's state as a text (JSON), for programs that keep it elsewhere: where it is, and what defines
/// the order. Some 500 bytes, whatever the samples and shards are, and up to 40 more for each dataset of a
/// mixture. The same on all ranks after the same step. Not collective.
///
/// It has the number of samples that were skipped, as all ranks know it: without those of the last step; and
/// where ranks do not count together (see BadSamples), without those since the loader was made or restored.
/// Not in it is their list: see Loader::skipped.
std::string state(const Loader& loader);

/// Puts the loader where `state` says, in any world. Not collective; every rank calls it with the same text.
/// Throws as the one above, and Error{corrupt} for a text that is no such state. What is refused leaves the
/// loader as it was. Another order of keys does no harm; any other change is
/// refused, by a digest in the text. The list of skipped samples is empty
/// afterwards.
void restore(Loader& loader, std::string_view state);

/// What the checkpoint's loader, or StreamLoader, was: dataset, order, options and position, in one line for
/// people. Throws Error{not_found}, Error{corrupt}, and Error{unsupported} for a state of a newer version.
std::string describe_loader(const Checkpoint& checkpoint, std::string_view name = "main");

}  // namespace rota
