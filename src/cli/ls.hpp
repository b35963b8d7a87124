#pragma once

// Which files make a dataset, as text.

#include <cstdint>
#include <cstdio>
#include <optional>

#include "cli/dataset.hpp"

namespace rota::cli {

struct LsOptions {
  DatasetOptions dataset;
  bool opens = false;       ///< the dataset, too, to say what it is as a dataset of its format
  bool names = false;       ///< do not ask files for their sizes
  std::int64_t limit = 10;  ///< files to list; 0: all
};

/// Prints to `out` how many files there are and how large, what they are known by, what has changed since
/// where it is a saved catalog, and the first of them, one on a line. Throws what Catalog and open throw.
void ls(const LsOptions& options, std::FILE* out);

}  // namespace rota::cli
