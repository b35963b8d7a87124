#pragma once

// What formats have for one another, and for the look that tells which of them files are of.

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

/// The samples of `catalog` as one format has them, with options that are valid and the same on all ranks.
/// **Collective** over these.
std::shared_ptr<const Source> open_as(const Catalog& catalog, const FilesOptions& options);
std::shared_ptr<const Source> open_as(const Catalog& catalog, const Hdf5Options& options);
std::shared_ptr<const Source> open_as(const Catalog& catalog, const TfRecordOptions& options);
std::shared_ptr<const Source> open_as(const Catalog& catalog, const TarOptions& options);
std::shared_ptr<const Source> open_as(const Catalog& catalog, const NpyOptions& options);
std::shared_ptr<const Source> open_as(const Catalog& catalog, const NpzOptions& options);
std::shared_ptr<const Source> open_as(const Catalog& catalog, const TokensOptions& options);
std::shared_ptr<const Source> open_as(const Catalog& catalog, const MegatronOptions& options);
std::shared_ptr<const Source> open_as(const Catalog& catalog, const MdsOptions& options);
/// The same of the format of that name, or "auto", with default options.
std::shared_ptr<const Source> open_as(const Catalog& catalog, const std::string& format);

/// What WebDataset makes of a member's name.
struct TarKey {
  std::string_view sample;  ///< of the name
  std::string extension;    ///< in lower case; empty: it is of no sample
};
[[nodiscard]] TarKey tar_key(std::string_view name);
TarKey tar_key(std::string&& name) = delete;

/// Adds these bytes to a TFRecord file.
void append_tfrecord(std::string& to, std::span<const std::byte> bytes);

/// Throws Error{invalid_argument} that names the datasets of MDS which are in folders of this one.
void refuse_splits(const FileList& files);

/// Throws Error{invalid_argument} where a file, to be opened as `format`, begins as NPY or HDF5 files do:
/// `head` are its first 8 bytes.
void refuse_arrays(const DatasetFile& file, std::string_view head, std::string_view format);
/// Throws Error{unsupported} where a file begins as what rota does not read, with what to do.
void require_ours(const DatasetFile& file);
/// The same of the first file, of a file system: any bytes are lines, and so are pointers of Git LFS.
void require_no_pointers(const FileList& files);
/// The same of its first bytes, up to `kForeignHead`.
void require_ours(std::string_view path, std::string_view head);
inline constexpr std::size_t kForeignHead = 24;

/// Whether a name is that of JSON lines, compressed or not.
[[nodiscard]] bool is_json_lines(std::string_view name);
/// The lines of text files. Of JSON lines, none is blank.
std::shared_ptr<const Source> make_lines_source(FileList files);

/// Whether file i carries HDF5's signature. Throws Error{io}, as do the next.
bool is_hdf5(const FileList& files, std::size_t i);
/// Whether file i begins with a length and its right checksum; with a tar member's head; as NPY files
/// do.
bool is_tfrecord(const FileList& files, std::size_t i);
bool is_tar(const FileList& files, std::size_t i);
bool is_npy(const FileList& files, std::size_t i);
/// Whether file i is X.idx, which begins as Megatron-LM's index does, or X.bin beside one.
bool is_megatron(const FileList& files, std::size_t i);

}  // namespace rota::internal
