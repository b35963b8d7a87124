#pragma once

// Which files there are: under a directory, or matched by a glob.

#include <string>
#include <string_view>

#include "catalog/names.hpp"

namespace rota {

/// Says whether a file with this last name is wanted.
using NameFilter = bool (*)(std::string_view name);

/// The names, relative to directory `root` and in no order, of the wanted regular files at any depth below
/// it, symbolic links followed. `shown` goes before a name in messages. Throws Error{io} naming an entry that
/// cannot be read or links to nothing, Error{unsupported} naming a cycle of symbolic links.
NameList walk_directory(int root, const std::string& shown, NameFilter wanted);

/// The part of glob `pattern` up to the last slash before its first special character.
std::string fixed_directory(const std::string& pattern);

/// What the glob `pattern` matches, relative to its fixed directory, of whatever kind. Throws Error{io}
/// naming a directory that cannot be read.
NameList match_glob(const std::string& pattern);

}  // namespace rota
