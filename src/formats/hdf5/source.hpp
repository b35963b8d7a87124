#pragma once

// Rows of HDF5 files as a source.

#include <memory>
#include <optional>
#include <vector>

#include "catalog/files.hpp"
#include "formats/hdf5/file.hpp"
#include "formats/shared_files.hpp"

namespace rota::internal {

[[nodiscard]] std::vector<Field> fields_of(const Hdf5File& file);

/// The samples of `files`, of which there is one at least, with these `contents`; external links lead into
/// `targets`. Throws as FileSource does, and Error{unsupported} for what cannot be a field.
[[nodiscard]] std::shared_ptr<const Source> read_hdf5(FileList files, std::shared_ptr<SharedFiles> shared,
                                                      std::optional<FileList> targets,
                                                      std::vector<Hdf5File> contents);

}  // namespace rota::internal
