#pragma once

// What the first samples of a dataset are, as text.

#include <cstdint>
#include <cstdio>

#include "cli/dataset.hpp"

namespace rota::cli {

/// Opens a dataset and prints to `out` its fields and its first `samples` samples. Throws what Catalog, open
/// and Source throw.
void head(const DatasetOptions& dataset, std::int64_t samples, std::FILE* out);

}  // namespace rota::cli
