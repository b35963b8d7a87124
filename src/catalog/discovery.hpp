#pragma once

// The numbers of generated names, found by asking for some of them.

#include <cstdint>
#include <functional>

#include "catalog/pattern_listing.hpp"
#include "catalog/presence.hpp"
#include "catalog/recognition.hpp"

namespace rota {

/// How many numbers from 0 on there are, if none is there beyond one that is not: by doubling, then by
/// halving.
std::int64_t count_up(const std::function<bool(std::int64_t)>& is_there);

/// Finds what `known` leaves open. Throws Error{not_found} where no file is where it would have to be,
/// Error{invalid_argument} where several layouts fit or options contradict the pattern; what AskedDirectory
/// throws.
NameSeries discover(const AskedDirectory& directory, const KnownNames& known);

}  // namespace rota
