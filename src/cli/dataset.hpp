#pragma once

// The dataset that a verb of the tool looks at.

#include <filesystem>
#include <string>

#include "rota/catalog.hpp"

namespace rota::cli {

/// A dataset, as a user names it.
struct DatasetOptions {
  std::filesystem::path path;   ///< a file, directory, glob, saved catalog, or manifest
  std::string format = "auto";  ///< see rota::open
  bool is_manifest = false;
};

/// Makes the catalog. Throws what that throws.
inline Catalog make_catalog(const DatasetOptions& dataset, const CatalogOptions& options) {
  return dataset.is_manifest ? Catalog::from_manifest(dataset.path, options) : Catalog(dataset.path, options);
}

/// "1 changed, 0 vanished, 2 appeared, among them a.tar", or "nothing".
std::string changes_text(const CatalogChanges& changes);

}  // namespace rota::cli
