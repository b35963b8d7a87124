#pragma once

// Which files a path, a manifest or a list of paths names.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/location.hpp"
#include "rota/catalog.hpp"

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

/// Whether it has characters of a glob.
[[nodiscard]] bool is_glob(std::string_view path) noexcept;

/// A part of a glob.
inline constexpr std::string_view kAnyDepth = "**";

/// Whether a glob matches a whole name. A part "**" is any number of directories, also none, or at the end a
/// file at any depth; what else it has matches within a part, and no dot that begins one.
bool matches_glob(std::string_view pattern, std::string_view name);

/// The glob in which the parts that `is_there` knows, of a directory with glob characters in its name, are
/// that. Throws Error{invalid_argument} where "**" is not a part of its own.
std::string glob_of(const std::string& path,
                    const std::function<bool(const std::string& directory)>& is_there);

/// What the glob `pattern`, which has no "**", matches, relative to its fixed directory, of whatever kind, in
/// byte-wise order. Throws Error{io} naming a directory that cannot be read.
std::vector<std::string> match_glob(const std::string& pattern);

/// What is known of files whose names were visited, in order.
struct Listed {
  std::string directory;                   ///< that names are relative to, as Location has it
  std::vector<FileStat> stats = {};        ///< one for each name, or none: not known yet
  std::vector<std::int64_t> samples = {};  ///< of each file, negative: not known; or none, for all
  std::int64_t left_out = 0;               ///< names that no dataset has
};

/// Visits the file `path`, the files under directory `path`, or those that the glob `path` matches, or that
/// its ranges name. Throws Error{not_found} for a missing path or nothing in it, Error{invalid_argument} for
/// an empty path and for a name twice, Error{corrupt} where shards are not all written, and what
/// walk_directory and match_glob throw.
Listed list_path(const std::string& path, const CatalogOptions& options, bool all_names,
                 const NameVisitor& visit);

/// Visits the paths that the manifest `path` lists; of URLs, what follows their scheme, and the directory is
/// the scheme: "s3://". Throws as Catalog::from_manifest does.
Listed list_manifest(const std::string& path, const Storages& storages, const NameVisitor& visit);

/// The same of these paths, relative to the working directory.
Listed list_paths(std::span<const std::string> paths, const Storages& storages, const NameVisitor& visit);

}  // namespace rota::internal
