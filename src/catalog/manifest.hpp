#pragma once

// Lists of files that people write.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "catalog/walk.hpp"
#include "rota/storage.hpp"

namespace rota::internal {

/// Puts the paths that the manifest `path` lists, and returns the directory that they are relative to; of
/// URLs, what follows their scheme, and the scheme: "s3://". `samples` is how many each of them has, or empty
/// where nothing is said of any. Throws as Catalog::from_manifest does.
std::string list_manifest(const std::string& path, const NameVisitor& visit, const Storages& storages,
                          std::vector<std::int64_t>& samples);

/// The same of these paths, relative to the working directory.
std::string list_paths(std::span<const std::string> paths, const NameVisitor& visit,
                       const Storages& storages);

}  // namespace rota::internal
