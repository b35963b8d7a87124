#pragma once

// The loader's state in a checkpoint: where embedding ends. Back to rota.hpp.

#include <string>
#include <string_view>

#include "rota/checkpoint.hpp"
#include "rota/loader.hpp"
#include "rota/mpi.hpp"

namespace rota {

/// Adds the loader's state: its cursors as tensor "loader/<name>/cursors", int64 [L, 2] (epoch, position), of
/// which this rank writes its share of the rows, and all else as blob "loader/<name>/state". Of
/// replicas, which share a place, number 0 writes: the save throws Error{invalid_argument} where two say that
/// they are.
void save(const Loader& loader, Snapshot& snapshot, std::string_view name = "main");

/// Puts the loader where the checkpoint's was. Not collective; every rank calls it.
/// Throws Error{mismatch}, with both values, for another dataset, L, G, seed, shuffle, block shape or order
/// version, Error{corrupt} where cursors and state disagree, Error{not_found} where there is no such loader
/// in it.
void restore(Loader& loader, const Checkpoint& checkpoint, std::string_view name = "main");

/// What the checkpoint's loader was: dataset, order, options and position, in one line for people. Throws
/// Error{not_found}, Error{corrupt}, and Error{unsupported} for a state of a newer version.
std::string describe_loader(const Checkpoint& checkpoint, std::string_view name = "main");

/// **Collective.** Throws Error{mismatch} on all ranks, with both values, unless their loaders have the same
/// dataset, options and position, and the ranks of `comm` are the loaders' world; numbers of workers may
/// differ. To be called once, when the loader is made.
void require_same(const Loader& loader, const mpi::Communicator& comm);

}  // namespace rota
