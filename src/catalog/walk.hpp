#pragma once

// Which files there are: under a directory, or matched by a glob.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rota::internal {

struct WalkOptions {
  std::string shown;  ///< goes before a name in messages
  int threads = 8;    ///< that read directories, beside the caller's
  bool all_names = false;
};

/// Is given a directory's name, which is empty or ends in a slash, and the last name of a file in it.
using NameVisitor = std::function<void(std::string_view directory, std::string_view name)>;

/// Calls `visit`, on the caller's thread, for the regular files at any depth below directory `root`,
/// symbolic links followed, in the byte-wise order of their relative paths, while threads read directories
/// ahead. Returns how many entries it left out: see CatalogOptions::all_names. Throws what `visit` throws,
/// Error{io} naming an entry that cannot be read or links to nothing, Error{unsupported} naming a cycle of
/// symbolic links: the first in that order.
std::int64_t walk_directory(int root, const WalkOptions& options, const NameVisitor& visit);

/// The part of glob `pattern` up to the last slash before its first special character.
std::string fixed_directory(const std::string& pattern);

/// What the glob `pattern` matches, relative to its fixed directory, of whatever kind, in byte-wise order.
/// Throws Error{io} naming a directory that cannot be read.
std::vector<std::string> match_glob(const std::string& pattern);

}  // namespace rota::internal
