#pragma once

// The formats that rota reads by itself. Next: batch.hpp.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "rota/catalog.hpp"
#include "rota/source.hpp"

namespace rota {

/// What the `files` source does with a directory or glob.
struct FilesOptions {
  int listing_threads = 8;  ///< threads that read directories, and ask for sizes
  Evidence evidence = Evidence::sizes;

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// Every regular file under directory `path`, or named by the glob `path` (`*`, `?`, `[...]`, as in a shell),
/// is one sample with one ragged field `data` of bytes. Ids follow the byte-wise order of the relative paths.
/// Symbolic links are followed. The fingerprint covers relative names, and sizes where they are evidence. Blocks on storage; any
/// thread. Throws Error{not_found} for a missing path or nothing in it, Error{io} naming an entry that cannot
/// be read, Error{unsupported} for a cycle of symbolic links.
std::unique_ptr<const Source> open_files(const std::filesystem::path& path, const FilesOptions& options = {});

/// What the `hdf5` source reads from its files.
struct Hdf5Options {
  /// Datasets to read, as fields in this order, e.g. {"/x", "/y"}; empty: all numeric ones of the first file.
  /// A pair `name`, `name_offsets` is one ragged field `name`.
  std::vector<std::string> datasets;
};

/// The rows of the datasets of one or more HDF5 files that share a leading extent N, joined in sorted order.
/// `path` is a file, a directory (its *.h5 and *.hdf5 files) or a glob. Integers, floats and booleans, native
/// byte order, contiguous or chunked, with the deflate and shuffle filters. `name` [T, ...] with
/// `name_offsets` [N + 1] is ragged. Reads bytes by offset, without HDF5's lock. The fingerprint covers
/// relative names, field shapes and extents. Throws Error{not_found} for a missing path or dataset (naming
/// those there are), Error{corrupt} for a file that is truncated or not HDF5, Error{invalid_argument} for
/// unequal extents, Error{unsupported} for other types and filters.
std::unique_ptr<const Source> open_hdf5(const std::filesystem::path& path, const Hdf5Options& options = {});

/// Opens `path` with the source that suits what is there: HDF5 where `path` names HDF5 files (by signature),
/// or a directory or glob of nothing else; `files` otherwise. `format` "files" or "hdf5" forces one; "auto"
/// looks. Throws what that source throws, and Error{invalid_argument} for an unknown format.
std::unique_ptr<const Source> open(const std::filesystem::path& path, const std::string& format = "auto");

}  // namespace rota
