#pragma once

// The dataset that a verb of the tool looks at.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "rota/catalog.hpp"

namespace rota::cli {

/// A dataset, as a user names it.
struct DatasetOptions {
  std::filesystem::path path;   ///< a file, directory, glob, saved catalog, or manifest
  std::string format = "auto";  ///< see rota::open
  bool is_manifest = false;
  bool all_names = false;
};

/// Adds the options of a dataset to a verb; returns that of the format. `dataset` must live as long.
CLI::Option& add_dataset(CLI::App& command, DatasetOptions& dataset);

/// Whether the dataset is named by a saved catalog. Throws Error{io}.
bool is_saved(const DatasetOptions& dataset);

/// Makes the catalog. Throws what that throws.
Catalog make_catalog(const DatasetOptions& dataset, CatalogOptions how);

/// "1 changed, 0 vanished, 2 appeared, among them a.tar", or "nothing".
std::string changes_text(const CatalogChanges& changes);

}  // namespace rota::cli
