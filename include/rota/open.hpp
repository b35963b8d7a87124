#pragma once

// The file formats that rota reads. Next: loader.hpp.

#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "rota/catalog.hpp"
#include "rota/source.hpp"

namespace rota {

namespace mpi {
class Communicator;
}

/// Options of `open_files`.
struct FilesOptions {
  /// Two more ragged fields of text, for labels: `path` of the file, relative to the dataset, and `folder`,
  /// the name of its directory ("cat" of "train/cat/0.jpg"; empty at the top).
  bool keys = false;
};

/// Each file is one sample, with one ragged field `data` of bytes. Throws Error{corrupt} where a file has
/// changed its size since it was listed.
///
/// All functions with a catalog are **collective** over the ranks that made it, which share the work of
/// looking into files. They throw Error{mismatch} on all ranks unless all ask for the same format and
/// options. A path in the place of a catalog is Catalog(path), for this process alone.
std::shared_ptr<const Source> open_files(const Catalog& catalog, const FilesOptions& options = {});

/// Options of `open_hdf5`.
struct Hdf5Options {
  /// Datasets to read, as fields in this order, e.g. {"/x", "/y"}. Empty: all of numbers in the first file,
  /// and a message names those of text and compounds that are left out; these, too, where there are no
  /// others. A pair `name`, `name_offsets` is one ragged field `name`.
  std::vector<std::string> datasets = {};
  /// Whether external links are followed, from the directory of their file. Empty `datasets` then includes
  /// them.
  bool allow_external_links = false;

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// The rows of HDF5 datasets that share a leading extent N; files are joined in order. Where some files are
/// named *.h5 or *.hdf5, others are ignored. Reads contiguous and chunked data, with the deflate, zstd
/// (32015) and shuffle filters. `name` [T, ...] with `name_offsets` [N + 1] is ragged. Elements become fields
/// as docs/open.md has it: numbers in any byte order; text and sequences, ragged; `name.member` for each
/// member of a compound. Reads by byte offset, without HDF5's lock. The fingerprint covers
/// relative names, field shapes and extents, and for allowed links the name and size of their files. Throws
/// - Error{not_found}: a missing path; a missing dataset, naming those that exist; a link to nothing, naming
///   both ends
/// - Error{corrupt}: a file that is truncated or not HDF5
/// - Error{invalid_argument}: unequal extents
/// - Error{unsupported}: other types and filters, virtual datasets, data in external files, links that are
///   not allowed
std::shared_ptr<const Source> open_hdf5(const Catalog& catalog, const Hdf5Options& options = {});

/// Options of `open_tfrecord`.
struct TfRecordOptions {
  bool verify = true;  ///< the checksum of each record that is read
};

/// The records of TFRecord files, joined in the order of their names: one ragged field `data` of bytes.
/// Checksums of lengths are always verified. A file cut between two records passes for a shorter one. The
/// fingerprint covers relative names, sizes and numbers of records. Throws Error{not_found} for a missing
/// path or no file in it. Throws Error{corrupt}, naming file and byte offset, for a file that is damaged, cut
/// short, or of another format.
std::shared_ptr<const Source> open_tfrecord(const Catalog& catalog, const TfRecordOptions& options = {});

/// Options of `open_tar`.
struct TarOptions {
  /// Extensions to read, in lower case, as fields in this order, e.g. {"jpg", "cls"}. Empty: all of the first
  /// file, by name. A sample without one has no bytes in it.
  std::vector<std::string> fields = {};
  bool keys = false;  ///< one more ragged field, `__key__`: the common part of a sample's names
  /// Accepts files without the two blocks of zeros that end a tar file, as some writers leave them. A file
  /// cut between two members then passes for whole: samples are missing, or fields of the last one have no
  /// bytes. A cut inside a member or its head remains an error.
  bool allow_missing_end = false;

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// The samples of tar files, as WebDataset writes them. Consecutive members with names that agree up to the
/// first dot of their last part are one sample. The rest, in lower case, names a ragged field of bytes:
/// `a/7.jpg` and `a/7.cls` are fields `jpg` and `cls`. Ignored are members without a dot, named `__...__`, or
/// that are no regular files. Long names may be GNU's or pax's. Files that begin as gzip or zstd are
/// decompressed once to be indexed, and for reading in memory that a node's ranks share
/// (CatalogOptions::share_files). Two blocks of zeros end a file, or one at its very end. As in GNU tar, what
/// follows is ignored, but another archive is an error. The fingerprint covers relative names, sizes and
/// numbers of samples. Throws as open_tfrecord does, and
/// - Error{corrupt}: a file without its end; one block of zeros before other data; an extension twice in a
///   sample
/// - Error{invalid_argument}: an extension that is no field, where `fields` is empty
/// - Error{unsupported}: other compressions
std::shared_ptr<const Source> open_tar(const Catalog& catalog, const TarOptions& options = {});

/// The lines of text or JSON-lines files, joined in the order of their names. One ragged field `text` of
/// bytes, without the newline and a carriage return before it. The last line may lack its newline, so a plain
/// file that was cut short passes for a shorter one. The index takes 16 bytes a line. Files may be compressed
/// as for open_tar. The fingerprint covers relative names, sizes and numbers of lines. Throws as
/// open_tfrecord does; also Error{corrupt} for a file named *.gz, *.zst or *.zstd that is not compressed,
/// Error{unsupported} for other compressions.
std::shared_ptr<const Source> open_lines(const Catalog& catalog);

/// Options of `open_npy`.
struct NpyOptions {
  bool file_is_sample = false;  ///< else each row of an array is one
};

/// The rows of the arrays in NPY files, joined in the order of their names. One field `data` of the type and
/// row shape that all arrays share. With `file_is_sample` each array is a sample, ragged if leading extents
/// differ; all other extents must agree. Elements become fields as those of open_hdf5 do, and members of a
/// structure `data.member`. Arrays in Fortran order
/// are turned into C's; with more than one dimension they need `file_is_sample`. The fingerprint covers
/// relative names, sizes, type and shapes. Throws as open_tfrecord does; also Error{unsupported} for other
/// types, Error{invalid_argument} for arrays that do not match.
std::shared_ptr<const Source> open_npy(const Catalog& catalog, const NpyOptions& options = {});

/// Options of `open_npz`.
struct NpzOptions {
  std::vector<std::string> arrays = {};  ///< to read, as fields in this order; empty: all, by name
  bool rows = false;                     ///< each row of the arrays is a sample; else each file

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// The arrays of NPZ files, stored or deflated, joined in the order of their names. Each file is a sample,
/// with a field per array as of open_npy; the zip file's checksums are verified. With `rows`, each row is a
/// sample: arrays must be stored, and have equal numbers of rows. The fingerprint covers relative names,
/// sizes, fields and numbers of samples. Throws as open_npy does, and Error{not_found} for an array that a
/// file lacks.
std::shared_ptr<const Source> open_npz(const Catalog& catalog, const NpzOptions& options = {});

/// Options of `open_tokens`.
struct TokensOptions {
  DType dtype = DType::uint16;  ///< of a token: uint16 or uint32
  std::int64_t length = 2048;   ///< tokens in a sample
  std::int64_t stride = 0;      ///< tokens from one sample to the next; 0: `length`

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// Windows over flat files of tokens in native byte order, joined in the order of their names: one field
/// `tokens` [length]. No window spans two files. Tokens behind a file's last whole window are left out. The
/// fingerprint covers relative names, sizes and options. Throws Error{not_found} for a missing path or no
/// file in it, Error{corrupt} for a file with part of a token.
std::shared_ptr<const Source> open_tokens(const Catalog& catalog, const TokensOptions& options = {});

/// Options of `open_megatron`.
struct MegatronOptions {
  bool sequence_is_sample = false;  ///< else each document is: its sequences, joined
};

/// The documents, or their sequences, of Megatron-LM's pairs X.idx, X.bin, joined in the order of their
/// names. One ragged field `tokens` of the index's type. A document without sequences is a sample without
/// tokens. The catalog must have the files X.idx, and may have others; X.bin lies beside. Or it has the files
/// X.bin alone, or was made of the path X. The fingerprint covers relative names, sizes, numbers of samples,
/// and the option. Throws as open_tfrecord does, and
/// - Error{corrupt}: a document index that does not rise from 0 to the number of sequences, unless these are
///   the samples
/// - Error{unsupported}: other versions; a document with sequences that do not lie side by side
std::shared_ptr<const Source> open_megatron(const Catalog& catalog, const MegatronOptions& options = {});

/// Options of `open_mds`.
struct MdsOptions {
  /// To read, as fields in this order; empty: all. "NAME.shape" is the shape of arrays of any shape: a byte
  /// of dimensions x 4 + log2(bytes of an extent), then the extents.
  std::vector<std::string> columns = {};

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// The samples of MosaicML's shards (MDS, version 2). The catalog must have index.json, and may have other
/// files. Numbers, and arrays with a shape in the encoding, are fixed fields. Arrays of other shapes, whose
/// "NAME.shape" is needed if they have more than one dimension, text, and encoded images are ragged fields.
/// Lists of images have one more, "NAME.sizes". Pickles, and arrays of any type, are bytes as they are.
/// A shard compressed by zstd, gz or bz2 is decompressed into shared memory, as for open_tar, unless it lies
/// decompressed beside. The fingerprint covers shards' names, sizes and numbers of samples, as decompressed.
/// Throws as open_tfrecord does, and Error{not_found} for a missing column. Throws Error{unsupported} for
/// other versions, compressions and encodings, and for arrays of more dimensions whose shapes are not read.
/// Throws Error{invalid_argument} that names the folders, where datasets are in these.
std::shared_ptr<const Source> open_mds(const Catalog& catalog, const MdsOptions& options = {});

/// The formats that `open` knows, "auto" first.
std::vector<std::string> formats();
/// The format that `open` finds for `catalog`: the saved one, or from a look, which the catalog remembers.
/// **Collective** as above. Throws Error{io} naming an unreadable file.
std::string find_format(const Catalog& catalog);

/// Opens a catalog with the source of its format. "auto" looks, in this order:
/// - `mds`: an index.json beside *.mds
/// - `hdf5`, `tfrecord`, `tar` (perhaps compressed) or `npy`: all files have its signature
/// - `megatron`: all files are X.idx with its signature, or X.bin beside one
/// - `lines`: all files are named *.jsonl or *.ndjson, perhaps with .gz, .zst or .zstd behind
/// - `files`: otherwise
///
/// `format` names one of these, or `npz` or `tokens` (both with default options). Throws what
/// that source throws. Throws Error{corrupt} for a file named as one of these formats that does not begin so.
/// Throws Error{invalid_argument} for other files beside such files, and for an unknown format.
std::shared_ptr<const Source> open(const Catalog& catalog, const std::string& format = "auto");
/// Names of arrays are options of a format's own function, such as open_hdf5.
std::shared_ptr<const Source> open(const std::filesystem::path&, std::initializer_list<const char*>) = delete;
std::shared_ptr<const Source> open(const mpi::Communicator&, const std::filesystem::path&,
                                   std::initializer_list<const char*>) = delete;
std::shared_ptr<const Source> open(const mpi::Communicator& comm, const std::filesystem::path& path,
                                   const std::string& format = "auto");

}  // namespace rota
