#pragma once

// The formats that rota reads by itself. Next: loader.hpp.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "rota/catalog.hpp"
#include "rota/source.hpp"

namespace rota {

namespace mpi {
class Communicator;
}

/// Each file of `catalog` is one sample with one ragged field `data` of bytes. Throws Error{corrupt} where a
/// file that is read has changed its size since it was listed.
///
/// Every function here that takes a catalog is **collective** over the ranks that made it; looking into files
/// is shared out over them. Those that take a path open Catalog(path), for this process alone, or
/// Catalog(comm, path).
std::shared_ptr<const Source> open_files(const Catalog& catalog);
std::shared_ptr<const Source> open_files(const std::filesystem::path& path);

/// What the `hdf5` source reads from its files.
struct Hdf5Options {
  /// Datasets to read, as fields in this order, e.g. {"/x", "/y"}; empty: all numeric ones of the first file.
  /// A pair `name`, `name_offsets` is one ragged field `name`.
  std::vector<std::string> datasets = {};
  /// Whether external links are followed, from the directory of the file that has them, and are among the
  /// datasets where none are named.
  bool allow_external_links = false;

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// The rows of the datasets of one or more HDF5 files that share a leading extent N, joined in order. Where
/// some files are named *.h5 or *.hdf5, only those are read. Integers, floats and booleans, native
/// byte order, contiguous or chunked, with the deflate, zstd (32015) and shuffle filters. `name` [T, ...]
/// with `name_offsets` [N + 1] is ragged. Reads bytes by offset, without HDF5's lock. The fingerprint covers
/// relative names, field shapes and extents. Throws Error{not_found} for a missing path or dataset (naming
/// those there are), Error{corrupt} for a file that is truncated or not HDF5, Error{invalid_argument} for
/// unequal extents, Error{unsupported} for other types and filters, virtual datasets, data in external files,
/// and links into other files. Where these are allowed, the fingerprint covers the name that they give of a
/// file and its size, too, and Error{not_found} names link and file where one of them leads to nothing.
std::shared_ptr<const Source> open_hdf5(const Catalog& catalog, const Hdf5Options& options = {});
std::shared_ptr<const Source> open_hdf5(const std::filesystem::path& path, const Hdf5Options& options = {});

/// What the `tfrecord` source does.
struct TfRecordOptions {
  bool verify = true;  ///< the checksum of each record that is read
};

/// The records of one or more TFRecord files, joined in the order of their names: one ragged field `data` of
/// bytes. The checksums of lengths are always verified. A file that was cut between two records passes for a
/// shorter one. The fingerprint covers relative names, sizes and numbers of records. Throws Error{not_found}
/// for a missing path or nothing there, Error{corrupt} naming file and byte offset for what is damaged, cut
/// short, or no TFRecord file.
std::shared_ptr<const Source> open_tfrecord(const Catalog& catalog, const TfRecordOptions& options = {});
std::shared_ptr<const Source> open_tfrecord(const std::filesystem::path& path,
                                            const TfRecordOptions& options = {});

/// What the `tar` source does.
struct TarOptions {
  /// Extensions to read, in lower case, as fields in this order, e.g. {"jpg", "cls"}; empty: all that the
  /// first file has, by name. A sample that lacks one has no bytes in it.
  std::vector<std::string> fields = {};
  bool keys = false;  ///< one more ragged field, `__key__`: what the names of a sample have in common
  /// Takes files that end behind a member, without the two blocks of zeros that end a tar file, as some
  /// writers leave them. One that was cut short there then passes for whole: samples are missing, or fields
  /// of the last, which then have no bytes. A cut inside a member, or its head, is an error nevertheless.
  bool allow_missing_end = false;

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// The samples of one or more tar files, as WebDataset writes them: members in a row whose names are alike up
/// to the first dot of their last part are one sample, and what follows that dot, in lower case, names the
/// ragged field of bytes. Members that are no regular files, without a dot, or named `__...__` are passed
/// over. Long names by GNU's and the pax extensions. Files compressed as a whole by gzip or zstd, known by
/// how they begin, are unpacked once to be indexed, and again in memory that the ranks of a node share when
/// they are read (CatalogOptions::share_files). Two blocks of zeros end a file, or one that is its last: what
/// follows is passed over, as GNU tar does, but another archive is an error. The fingerprint covers relative
/// names, sizes and numbers of samples. Throws as open_tfrecord does; Error{corrupt} also for a file without
/// its end, for one block of zeros with something behind, and where a sample has an extension twice;
/// Error{invalid_argument} for a sample with an extension that is no field, where `fields` is empty;
/// Error{unsupported} for files that are compressed in other ways.
std::shared_ptr<const Source> open_tar(const Catalog& catalog, const TarOptions& options = {});
std::shared_ptr<const Source> open_tar(const std::filesystem::path& path, const TarOptions& options = {});

/// The lines of one or more text or JSON-lines files, joined in the order of their names: one ragged field
/// `text` of bytes, without the newline (nor a carriage return before it) that ends a line; the last need not
/// have one: a plain file that was cut short passes for a shorter one. The index takes 16 bytes a line. Files
/// may be compressed as tar files may. The fingerprint covers relative names, sizes and numbers of lines.
/// Throws as open_tfrecord does; Error{corrupt} also for a file that is named *.gz, *.zst or *.zstd and is
/// not compressed; Error{unsupported} for files that are compressed in other ways.
std::shared_ptr<const Source> open_lines(const Catalog& catalog);
std::shared_ptr<const Source> open_lines(const std::filesystem::path& path);

/// What the `npy` source does.
struct NpyOptions {
  bool file_is_sample = false;  ///< else each row of an array is one
};

/// The rows of the arrays in one or more NPY files, joined in the order of their names: one field `data` of
/// the type and row shape that all arrays have. With `file_is_sample` each array is a sample; its field is
/// ragged where their leading extents differ, and all other extents are the same. Native integers, floats and
/// booleans; arrays in Fortran order are turned into C's, which needs `file_is_sample` where they have more
/// than one dimension. The fingerprint covers relative names, sizes, type and shapes. Throws as open_tfrecord
/// does; Error{unsupported} for other types, Error{invalid_argument} for arrays that do not go together.
std::shared_ptr<const Source> open_npy(const Catalog& catalog, const NpyOptions& options = {});
std::shared_ptr<const Source> open_npy(const std::filesystem::path& path, const NpyOptions& options = {});

/// What the `npz` source does.
struct NpzOptions {
  std::vector<std::string> arrays = {};  ///< to read, as fields in this order; empty: all, by name
  bool rows = false;                     ///< each row of the arrays is a sample; else each file

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// The arrays of one or more NPZ files, stored or deflated, joined in the order of their names. Each file is
/// a sample, with a field per array as of open_npy, and the zip file's checksums are verified; or, with
/// `rows`, each row of arrays that are stored and have as many rows. The fingerprint covers relative names,
/// sizes, fields and numbers of samples. Throws as open_npy does; Error{not_found} for an array that a file
/// has not.
std::shared_ptr<const Source> open_npz(const Catalog& catalog, const NpzOptions& options = {});
std::shared_ptr<const Source> open_npz(const std::filesystem::path& path, const NpzOptions& options = {});

/// What the `tokens` source does.
struct TokensOptions {
  DType dtype = DType::uint16;  ///< of a token: uint16 or uint32
  std::int64_t length = 2048;   ///< tokens in a sample
  std::int64_t stride = 0;      ///< tokens from one sample to the next; 0: `length`

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// Windows over flat files of tokens in native byte order, joined in the order of their names; none reaches
/// from one file into the next, and tokens behind the last whole one are left out. One field `tokens`
/// [length]. The fingerprint covers relative names, sizes, and the options. Throws Error{not_found} for a
/// missing path or nothing there, Error{corrupt} for a file of no whole number of tokens.
std::shared_ptr<const Source> open_tokens(const Catalog& catalog, const TokensOptions& options = {});
std::shared_ptr<const Source> open_tokens(const std::filesystem::path& path,
                                          const TokensOptions& options = {});

/// What the `megatron` source does.
struct MegatronOptions {
  bool sequence_is_sample = false;  ///< else each document: the sequences that it was split into, joined
};

/// The documents, or their sequences, of one or more pairs X.idx, X.bin as Megatron-LM writes them, joined in
/// the order of their names: one ragged field `tokens`, of the type that the index says. A document without
/// sequences is a sample without tokens. The catalog holds the files X.idx, among others if it likes; X.bin
/// lies beside. The fingerprint covers relative names, sizes, numbers of samples, and which of the two they
/// are. Throws as open_tfrecord does; Error{corrupt} also for a document index that does not rise from 0 to
/// the number of sequences, unless these are the samples; Error{unsupported} for other versions, and for
/// documents whose sequences do not lie side by side.
std::shared_ptr<const Source> open_megatron(const Catalog& catalog, const MegatronOptions& options = {});
std::shared_ptr<const Source> open_megatron(const std::filesystem::path& path,
                                            const MegatronOptions& options = {});

/// What the `mds` source does.
struct MdsOptions {
  std::vector<std::string> columns = {};  ///< to read, as fields in this order; empty: all

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// The samples of MosaicML's shards (MDS, version 2): the catalog holds index.json, among others if it likes.
/// Numbers and arrays of a shape given in the encoding are fixed fields; arrays of one dimension, text and
/// encoded images ragged ones, their bytes as they are. A shard compressed by zstd is unpacked in shared
/// memory, as tar files are, unless it was unpacked beside. The fingerprint covers names of shards, sizes and
/// numbers of samples, all as unpacked. Throws as open_tfrecord does; Error{not_found} for a column that
/// there is not; Error{unsupported} for shards of other versions, pickles, arrays of any type or of more
/// dimensions, and other compressions.
std::shared_ptr<const Source> open_mds(const Catalog& catalog, const MdsOptions& options = {});
std::shared_ptr<const Source> open_mds(const std::filesystem::path& path, const MdsOptions& options = {});

/// The names of formats that `open` knows, "auto" first.
std::vector<std::string> formats();
/// The format that `open` takes for `catalog` by itself: as it was saved, or as a look shows, which the
/// catalog keeps. **Collective** as above. Throws Error{io} naming a file that cannot be read.
std::string find_format(const Catalog& catalog);

/// Opens a catalog with the source that suits what is there: `mds` where there is an index.json beside *.mds;
/// by signature `hdf5`, `tfrecord`, `tar` (compressed ones, too) or `npy`, where all files carry it; `lines`
/// where all are named *.jsonl or *.ndjson, and .gz, .zst or .zstd behind that if they like; `files`
/// otherwise. `format` forces one of these, or `npz`, `tokens` (with their
/// default options) or `megatron`; "auto" looks. Throws what that source throws, Error{corrupt} for a file
/// that is named as one of these formats and does not begin so, Error{invalid_argument} for others among such
/// files, and for an unknown format.
std::shared_ptr<const Source> open(const Catalog& catalog, const std::string& format = "auto");
std::shared_ptr<const Source> open(const std::filesystem::path& path, const std::string& format = "auto");
std::shared_ptr<const Source> open(const mpi::Communicator& comm, const std::filesystem::path& path,
                                   const std::string& format = "auto");

}  // namespace rota
