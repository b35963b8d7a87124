#pragma once

// A look at some names of one directory: what stands for {total} in them, and what an error says of them.

#include <cstdint>
#include <map>
#include <string>

#include "catalog/name_pattern.hpp"
#include "rota/storage.hpp"

namespace rota::internal {

/// Looks at up to 10,000 names of the directory that has the last component of `pattern`, for these numbers
/// of what goes before; in a storage, at those that begin as names with these numbers do, up to {total}.
/// Returns what `{total}` is in those of the pattern, which has it in the last component alone, with a name
/// for each. Throws Error{not_found}, Error{io} naming the directory; what a storage throws.
std::map<std::int64_t, std::string> totals_in(const NamePattern& pattern, const NameNumbers& numbers,
                                              const Storages& storages);

/// Looks so at the directory of `directory` + `pattern`, and tells which names are like those of the pattern,
/// with numbers of any width: "train/ holds 13 such names, part_00 to part_12". Throws as above.
std::string describe_names(const std::string& directory, const NamePattern& pattern,
                           const NameNumbers& numbers, const Storages& storages);

}  // namespace rota::internal
