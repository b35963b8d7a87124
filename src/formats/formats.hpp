#pragma once

// The formats, given the files that hold them.

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "catalog/files.hpp"
#include "rota/open.hpp"
#include "rota/source.hpp"

namespace rota::internal {

/// Throws Error{invalid_argument} where one of `names`, of fields that `option` lists, is empty or there
/// twice.
void require_distinct(std::string_view option, std::span<const std::string> names);

/// A source whose samples are whole files.
std::shared_ptr<const Source> make_files_source(FileList files);

/// A source whose samples are the rows of HDF5 files; where some are named *.h5 or *.hdf5, of those.
std::shared_ptr<const Source> make_hdf5_source(FileList files, const Hdf5Options& options);

/// The records of TFRecord files, the samples of tar files, the lines of text files.
std::shared_ptr<const Source> make_tfrecord_source(FileList files, const TfRecordOptions& options);
std::shared_ptr<const Source> make_tar_source(FileList files, const TarOptions& options);
std::shared_ptr<const Source> make_lines_source(FileList files);
/// Arrays or their rows; windows of tokens.
std::shared_ptr<const Source> make_npy_source(FileList files, const NpyOptions& options);
std::shared_ptr<const Source> make_tokens_source(FileList files, const TokensOptions& options);

/// Whether file i carries HDF5's signature, at byte 0 or, after a user block, at 512, 1024, 2048, ... (HDF5
/// File Format Specification 3.0, II.A). Throws Error{io}, as do the next.
bool has_hdf5_signature(const FileList& files, std::size_t i);
/// Whether file i begins with a length and its right checksum; with a tar member's head; as NPY files
/// do.
bool is_tfrecord(const FileList& files, std::size_t i);
bool is_tar(const FileList& files, std::size_t i);
bool is_npy(const FileList& files, std::size_t i);

}  // namespace rota::internal
