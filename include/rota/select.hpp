#pragma once

// Datasets of some samples of another one, and of several side by side. Next: packing.hpp.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rota/source.hpp"

namespace rota {

class Communicator;

/// The samples `ids` of `source`: sample i is sample ids[i] of it. Any order, some of them, some several
/// times, or none: the way to an order or a choice of your own. 8 bytes an id. The fingerprint covers them.
/// Throws Error{invalid_argument} for a null source, Error{out_of_range} naming the first id that there is
/// not, Error{callback} for an impossible size or fields.
std::shared_ptr<const Source> select(const std::shared_ptr<const Source>& source, std::vector<SampleId> ids);
/// Of memory that `keep` keeps, without a copy; it must not change.
std::shared_ptr<const Source> select(const std::shared_ptr<const Source>& source,
                                     std::shared_ptr<const void> keep, std::span<const SampleId> ids);

/// All samples of `source` but `ids`, in order; parts, units and shared files stay. 16 bytes for each of
/// `ids`, O(log ids) a sample. Throws as `select`.
std::shared_ptr<const Source> without(const std::shared_ptr<const Source>& source, std::vector<SampleId> ids);

/// The first `n` samples of `source`; and all but these. Order, parts, units and shared files stay. O(1)
/// memory. Throw Error{invalid_argument} for a null source, Error{out_of_range} unless `n` is 0 to its size,
/// Error{callback} for an impossible size or fields.
std::shared_ptr<const Source> take(const std::shared_ptr<const Source>& source, std::int64_t n);
std::shared_ptr<const Source> skip_first(const std::shared_ptr<const Source>& source, std::int64_t n);

/// Sample i has the fields of sample i of all `sources`, in their order. Each of these reads a batch in one
/// call. A part ends where one of any source does; units and shards are those of the first source that has
/// some. O(sources) memory. Throws Error{invalid_argument} for an empty list, a null source, and a field that
/// two have; Error{mismatch} for different sizes; Error{callback} for an impossible size or fields.
std::shared_ptr<const Source> zip(std::vector<std::shared_ptr<const Source>> sources);

/// `source`, whose fingerprint is `now`, for a run that knew it by `was`, of as many samples: data that were
/// moved, mended or written anew, and that you know to be the same samples. A state of then is not compared
/// with their content. States and traces say both fingerprints from here on; keep this around the dataset
/// itself, outermost, for as long as the run goes on. Throws Error{invalid_argument} for a null source,
/// Error{mismatch} where its fingerprint is another one than `now`.
std::shared_ptr<const Source> known_as(const std::shared_ptr<const Source>& source, const Fingerprint& was,
                                       const Fingerprint& now);

// ---- anew in each epoch ----

// Sample i of these is another one of `source` in each epoch, computed from the seed. So a loader's ids,
// states and traces are those of draws; `drawn` and `draws_of` lead from one to the other. They read as a
// loader does, which says the epoch: put what makes other samples, such as `pack`, inside. Parts and units
// are lost. The fingerprint covers how they draw. They throw Error{invalid_argument} for a null source, or
// one of no samples, Error{callback} for an impossible size or fields.

/// Each sample `times` times in an epoch: 2.5 is each twice, in order, and behind that half of them once
/// more. That half goes on from epoch to epoch, round and round through one shuffled order: over any epochs
/// no sample comes more than once more often than another. 0.1 is another tenth in each epoch. O(1) memory.
/// Throws Error{invalid_argument} unless an epoch has 1 to 2^62 draws, rounded to the nearest.
std::shared_ptr<const Source> repeat(const std::shared_ptr<const Source>& source, double times,
                                     std::uint64_t seed = 0);

/// `draws` of an epoch, in proportion to `weights`, one for each sample: a sample of weight w comes draws x w
/// / sum(weights) times, rounded down or up, and over many epochs just as often. Weights of classes, one over
/// the size of its class, make classes equally frequent. Systematic sampling (Madow and Madow, 1944), which
/// begins elsewhere in each epoch. 8 bytes a sample, once on each node with a Communicator, over which it is
/// **collective**; O(log N) a draw. Throws Error{invalid_argument} for another number of weights, one below 0
/// or not finite, none above 0, and unless draws is 1 to 2^62; Error{mismatch} where ranks differ; Error{io}
/// without memory.
std::shared_ptr<const Source> weighted(const std::shared_ptr<const Source>& source,
                                       std::span<const double> weights, std::int64_t draws,
                                       std::uint64_t seed = 0);
std::shared_ptr<const Source> weighted(const Communicator& comm, const std::shared_ptr<const Source>& source,
                                       std::span<const double> weights, std::int64_t draws,
                                       std::uint64_t seed = 0);

/// Of what `repeat` or `weighted` has made: the sample that draw `id` is in `epoch`; and all draws of a
/// sample in it, ascending, of which `Run::when` tells each one's step. Any thread. Throw
/// Error{invalid_argument} for another source, Error{out_of_range} for what there is not.
SampleId drawn(const Source& source, SampleId id, std::int64_t epoch);
std::vector<SampleId> draws_of(const Source& source, SampleId sample, std::int64_t epoch);

}  // namespace rota
