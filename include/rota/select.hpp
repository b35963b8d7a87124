#pragma once

// Datasets of some samples of another one, and of several side by side. Next: packing.hpp.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rota/source.hpp"

namespace rota {

/// The samples `ids` of `source`: sample i is sample ids[i] of it. Any order, some of them, some several
/// times, or none: the way to an order or a choice of your own. 8 bytes an id. The fingerprint covers them.
/// Throws Error{invalid_argument} for a null source, Error{out_of_range} naming the first id that there is
/// not, Error{callback} for an impossible size or fields.
std::shared_ptr<const Source> select(const std::shared_ptr<const Source>& source, std::vector<SampleId> ids);
/// Of memory that `keep` keeps, without a copy; it must not change.
std::shared_ptr<const Source> select(const std::shared_ptr<const Source>& source,
                                     std::shared_ptr<const void> keep, std::span<const SampleId> ids);

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

}  // namespace rota
