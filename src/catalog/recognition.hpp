#pragma once

// The pattern of names that are there.

#include "catalog/name_pattern.hpp"
#include "catalog/presence.hpp"
#include "rota/catalog.hpp"

namespace rota {

/// A pattern relative to a directory, and what is known of its numbers.
struct KnownNames {
  NamePattern pattern;
  PatternOptions options;
};

/// Reads at most 10,000 names in `directory`, and, where they are all of folders, as many in the first of
/// them. What it finds is put beside what `given` says; what it does not, is left as it is there. Throws
/// Error{invalid_argument} where the names are of several series, have several numbers that change, totals
/// that disagree or an unclear width; Error{not_found} where there are none, or gaps between them; what
/// AskedDirectory throws.
KnownNames recognise(const AskedDirectory& directory, const PatternOptions& given);

}  // namespace rota
