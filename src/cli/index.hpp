#pragma once

// Makes saved catalogs, and brings them up to date.

#include <cstdio>
#include <filesystem>

#include "cli/dataset.hpp"

namespace rota::cli {

struct IndexOptions {
  DatasetOptions dataset;
  std::filesystem::path file;  ///< where the catalog goes
  int threads = 8;
  bool force = false;  ///< take the place of any file
};

/// Indexes a dataset and saves its catalog, and prints to `out` what was done. Where the file is a catalog of
/// the same dataset, only what has changed is indexed. Throws Error{invalid_argument} where it is anything
/// else and there is no force, or where it would be a file of the dataset; what Catalog and open throw.
void index(const IndexOptions& options, std::FILE* out);

}  // namespace rota::cli
