#pragma once

// The loader's state, in a checkpoint or as a text. Next: mpi.hpp.

#include <span>
#include <string>
#include <string_view>

#include "rota/checkpoint.hpp"
#include "rota/loader.hpp"

namespace rota {

/// Adds the loader's state, as "loader/<name>/...": its cursors, int64 [L, 2] (epoch, position), and a JSON
/// blob with all else (src/resume/STATE.md). Each rank writes its share of the rows. Of replicas, number 0
/// writes. Where one rank of several saves alone, as a job without MPI does, it writes them all (see
/// CheckpointDirectory::new_snapshot); what others have skipped, and all lists, are then left out, as in
/// `state`. Throws Error{invalid_argument} where the snapshot has a loader of this name, of any kind. The
/// save throws it where two replicas are number 0, and Error{mismatch} where ranks' loaders are not at the
/// same place, or have not the same options.
void save(const Loader& loader, Snapshot& snapshot, std::string_view name = "main");

/// Moves the loader to where the checkpoint's loader was. Not collective, but every rank calls it. What is
/// refused leaves the loader as it was, with all that it has read ahead. Throws
/// - Error{mismatch}, with both values: another dataset, L, G, seed, shuffle, block shape, order version or
///   number of mixed datasets; or a StreamLoader of that name
/// - Error{corrupt}: cursors and state disagree
/// - Error{unsupported}: a state of a newer version
/// - Error{not_found}: no loader of that name
void restore(Loader& loader, const Checkpoint& checkpoint, std::string_view name = "main");

/// The loader's state as JSON text, for programs that keep it elsewhere: where it is, and what defines the
/// order. Some 1,100 bytes for any number of samples and shards, plus up to 40 for each dataset of a mixture.
/// The same on all ranks after the same step. Not collective.
///
/// It has the number of skipped samples that all ranks know: without those of the last step. Where ranks do
/// not count together (see BadSamples), it is the number that was restored. The lists are not in it: see
/// Loader::skipped and Loader::dropped.
std::string state(const Loader& loader);

/// Moves the loader to where `state` says, in any world. Not collective, but every rank calls it with the
/// same text. The lists of skipped and dropped samples are empty afterwards. What is refused leaves the
/// loader as it was. Throws as the one above, and Error{corrupt} for any other text. A digest in the text
/// finds changes; another order of keys is fine.
void restore(Loader& loader, std::string_view state);

/// Of what `state` has returned on each rank of a run, behind the same batch, that of the run: what is open
/// on some rank is open in it. Under Settle::by_hand a text of one rank of several is no more than its part,
/// which `restore` refuses, unless all that it was handed out was settled, batch by batch. In any order.
/// Throws Error{invalid_argument} for a part that is missing or comes twice, Error{mismatch} for parts of
/// other places or orders, Error{corrupt} for what is no state.
std::string merge_states(std::span<const std::string> states);

/// Describes the checkpoint's Loader or StreamLoader in one line for people: dataset, order, options and
/// position. Throws Error{not_found}, Error{corrupt}, and Error{unsupported} for a state of a newer version.
std::string describe_loader(const Checkpoint& checkpoint, std::string_view name = "main");

}  // namespace rota
