#pragma once

// The formats, given the files that hold them.

#include <memory>

#include "catalog/files.hpp"
#include "rota/open.hpp"
#include "rota/source.hpp"

namespace rota {

/// A source whose samples are whole files.
std::unique_ptr<const Source> make_files_source(FileList files);

/// A source whose samples are the rows of HDF5 files.
std::unique_ptr<const Source> make_hdf5_source(FileList files, const Hdf5Options& options);

/// Whether file i carries HDF5's signature, at byte 0 or, after a user block, at 512, 1024, 2048, ... (HDF5
/// File Format Specification 3.0, II.A). Throws Error{io}.
bool has_hdf5_signature(const FileList& files, std::size_t i);

}  // namespace rota
