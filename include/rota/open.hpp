#pragma once

// The file formats that rota reads. Next: loader.hpp.

#include <concepts>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rota/catalog.hpp"
#include "rota/source.hpp"

namespace rota {

class Communicator;

/// The format `files`. Each file is one sample, with one ragged field `data` of bytes. Throws Error{corrupt}
/// where a file has changed its size since it was listed.
struct FilesOptions {
  /// Two more ragged fields of text, for labels: `path` of the file, relative to the dataset, and `folder`,
  /// the name of its directory ("cat" of "train/cat/0.jpg"; empty at the top).
  bool keys = false;
};

/// The format `hdf5`: the rows of HDF5 datasets that share a leading extent N; files are joined in order.
/// Where some files are named *.h5 or *.hdf5, others are ignored. Reads contiguous and chunked data, with the
/// filters deflate, zstd, lz4, lzf, shuffle and fletcher32, without HDF5's lock. With others, and of virtual
/// datasets, HDF5 reads, under its lock. `name` [T, ...] with `name_offsets` [N + 1] is ragged. Elements
/// become fields as docs/open.md has it: numbers in any byte order; text and sequences, ragged; `name.member`
/// for each member of a compound. In a file of groups that differ by a number alone ("demo_7"), and hold
/// datasets of the same names, each group is a sample. The fingerprint covers relative names, field shapes
/// and extents, and for allowed links the name and size of their files. Throws
/// - Error{not_found}: a missing path; a missing dataset, naming those that exist; a link to nothing, naming
///   both ends
/// - Error{corrupt}: a file that is truncated or not HDF5
/// - Error{invalid_argument}: unequal extents
/// - Error{unsupported}: other types, filters without a plug-in, data in external files; virtual datasets
///   with gaps; links that are not allowed, and views of files outside of the file's directory
struct Hdf5Options {
  /// Datasets to read, as fields in this order, e.g. {"/x", "/y"}. Empty: all of numbers in the first file,
  /// and a message names those of text and compounds that are left out; these, too, where there are no
  /// others. A pair `name`, `name_offsets` is one ragged field `name`.
  std::vector<std::string> datasets = {};
  /// How offsets are called in the group of their fields, if not `name_offsets`: "indptr", say, where
  /// {"X/data", "X/indices"} are the sparse rows of an AnnData file.
  std::string offsets = {};
  /// Whether external links are followed, from the directory of their file. Empty `datasets` then includes
  /// them.
  bool allow_external_links = false;
  /// Undoes NetCDF's attributes, of each file its own: numbers times `scale_factor` plus `add_offset`, as
  /// float32, or float64 where one of these is that wide or the numbers need it; NaN for `_FillValue` and
  /// `missing_value`. Integers without a scale stay; `_Unsigned` says which they are. Workers do it.
  bool unpack = false;
  /// Groups that are a sample each, by a glob: "/data/demo_*", or "/*". "/" is the whole file: each file is a
  /// sample. `datasets` are then names in the group; scalars are fields, too, and fields whose extents differ
  /// are ragged, by rows of the extents that all end with. Groups of numbers come in their order. Empty:
  /// those at the top that differ by a number.
  std::string groups = {};
  /// Reads files that a writer has open and lets others read (h5py: `swmr_mode`): the rows that it had
  /// flushed when they were opened. Later ones are another dataset's.
  bool swmr = false;

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// The format `tfrecord`: the records of TFRecord files, joined in the order of their names: one ragged field
/// `data` of bytes. Checksums of lengths are always verified. A file cut between two records passes for a
/// shorter one. The fingerprint covers relative names, sizes and numbers of records. Throws Error{not_found}
/// for a missing path or no file in it. Throws Error{corrupt}, naming file and byte offset, for a file that
/// is damaged, cut short, or of another format.
struct TfRecordOptions {
  bool verify = true;  ///< the checksum of each record that is read
};

/// A field of `tar`: an extension, or several that are one field.
struct TarField {
  std::string name;
  std::vector<std::string> extensions;  ///< in lower case; a sample has at most one of them

  /// One extension.
  template <std::convertible_to<std::string> Text>
  // NOLINTNEXTLINE(google-explicit-constructor): a list of names is one of fields
  TarField(Text extension) : name(std::move(extension)), extensions{name} {}
  TarField(std::string field, std::vector<std::string> of)
      : name(std::move(field)), extensions(std::move(of)) {}
};

/// The format `tar`: the samples of tar files, as WebDataset writes them. Consecutive members with names that
/// agree up to the first dot of their last part are one sample. The rest, in lower case, names a ragged field
/// of bytes: `a/7.jpg` and `a/7.cls` are fields `jpg` and `cls`. Ignored are members without a dot, named
/// `__...__`, or that are no regular files. Long names may be GNU's or pax's. Files that begin as gzip or
/// zstd are decompressed once to be indexed, and for reading in memory that a node's ranks share
/// (CatalogOptions::share_files). Two blocks of zeros end a file, or one at its very end. As in GNU tar, what
/// follows is ignored, but another archive is an error. The fingerprint covers relative names, sizes and
/// numbers of samples. Throws as `tfrecord` does, and
/// - Error{corrupt}: a file without its end; one block of zeros before other data; an extension twice in a
///   sample, or two of one field
/// - Error{invalid_argument}: an extension that is no field, where `fields` is empty
/// - Error{unsupported}: other compressions
struct TarOptions {
  /// Extensions to read, in lower case, as fields in this order, e.g. {"jpg", "cls"}. Several may be one
  /// field: {{"image", {"jpg", "jpeg", "png"}}, "cls"}; the fingerprint then covers which. Empty: all of the
  /// first file, by name. A sample without one has no bytes in it.
  std::vector<TarField> fields = {};
  bool keys = false;  ///< one more ragged field, `__key__`: the common part of a sample's names
  /// Accepts files without the two blocks of zeros that end a tar file, as some writers leave them. A file
  /// cut between two members then passes for whole: samples are missing, or fields of the last one have no
  /// bytes. A cut inside a member or its head remains an error.
  bool allow_missing_end = false;

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// The format `npy`: the rows of the arrays in NPY files, joined in the order of their names. One field
/// `data` of the type and row shape that all arrays share. With `file_is_sample` each array is a sample,
/// ragged if leading extents differ; all other extents must agree. Elements become fields as those of `hdf5`
/// do, and members of a structure `data.member`. Arrays in Fortran order are turned into C's; with more than
/// one dimension they need `file_is_sample`. The fingerprint covers relative names, sizes, type and shapes.
/// Throws as `tfrecord` does; also Error{unsupported} for other types, Error{invalid_argument} for arrays
/// that do not match.
struct NpyOptions {
  bool file_is_sample = false;  ///< else each row of an array is one
};

/// The format `npz`: the arrays of NPZ files, stored or deflated, joined in the order of their names. Each
/// file is a sample, with a field per array as of `npy`; the zip file's checksums are verified. With `rows`,
/// each row is a sample: arrays must be stored, and have equal numbers of rows. The fingerprint covers
/// relative names, sizes, fields and numbers of samples. Throws as `npy` does, and Error{not_found} for an
/// array that a file lacks.
struct NpzOptions {
  std::vector<std::string> arrays = {};  ///< to read, as fields in this order; empty: all, by name
  bool rows = false;                     ///< each row of the arrays is a sample; else each file

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// The format `tokens`: windows over flat files of tokens in native byte order, joined in the order of their
/// names: one field `tokens` [length]. No window spans two files. Tokens behind a file's last whole window
/// are left out. The fingerprint covers relative names, sizes and options. Throws Error{not_found} for a
/// missing path or no file in it, Error{corrupt} for a file with part of a token.
struct TokensOptions {
  DType dtype = DType::uint16;  ///< of a token: uint16 or uint32
  std::int64_t length = 2048;   ///< tokens in a sample
  std::int64_t stride = 0;      ///< tokens from one sample to the next; 0: `length`
  std::int64_t skip_bytes =
      0;  ///< of a head before the first token of each file; 0: that of llm.c, if it is there

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// The format `megatron`: the documents, or their sequences, of Megatron-LM's pairs X.idx, X.bin, joined in
/// the order of their names. One ragged field `tokens` of the index's type. A document without sequences is a
/// sample without tokens. The catalog must have the files X.idx, and may have others; X.bin lies beside. Or
/// it has the files X.bin alone, or was made of the path X. The fingerprint covers relative names, sizes,
/// numbers of samples, and the option. Throws as `tfrecord` does, and
/// - Error{corrupt}: a document index that does not rise from 0 to the number of sequences, unless these are
///   the samples
/// - Error{unsupported}: other versions; a document with sequences that do not lie side by side
struct MegatronOptions {
  bool sequence_is_sample = false;  ///< else each document is: its sequences, joined
};

/// The format `mds`: the samples of MosaicML's shards (MDS, version 2). The catalog must have index.json, and
/// may have other files. Numbers, and arrays with a shape in the encoding, are fixed fields. Arrays of other
/// shapes, whose "NAME.shape" is needed if they have more than one dimension, text, and encoded images are
/// ragged fields. Lists of images have one more, "NAME.sizes". Pickles, and arrays of any type, are bytes as
/// they are. A shard compressed by zstd, gz or bz2 is decompressed into shared memory, as for `tar`, unless
/// it lies decompressed beside. The fingerprint covers shards' names, sizes and numbers of samples, as
/// decompressed. Throws as `tfrecord` does, and Error{not_found} for a missing column. Throws
/// Error{unsupported} for other versions, compressions and encodings, and for arrays of more dimensions whose
/// shapes are not read. Throws Error{invalid_argument} that names the folders, where datasets are in these.
struct MdsOptions {
  /// To read, as fields in this order; empty: all. "NAME.shape" is the shape of arrays of any shape: a byte
  /// of dimensions x 4 + log2(bytes of an extent), then the extents.
  std::vector<std::string> columns = {};
  /// Checks the hash that index.json has of each shard (xxh32, xxh64, xxh128, xxh3_64) when it is indexed,
  /// which reads all of it. Error{unsupported} where it has none of these.
  bool verify = false;

  /// Throws Error{invalid_argument} naming the option that is out of its range.
  void validate() const;
};

/// A format by its name, with default options, or by its options.
///
/// "auto" looks, in this order:
/// - `mds`: an index.json beside *.mds
/// - `hdf5`, `tfrecord`, `tar` (perhaps compressed) or `npy`: all files have its signature
/// - `megatron`: all files are X.idx with its signature, or X.bin beside one
/// - `lines`: all files are named *.jsonl or *.ndjson, perhaps with .gz, .zst or .zstd behind
/// - `files`: otherwise
///
/// `npz` (*.npz is refused unless it is named), `tokens`, and `lines` with other names, are not recognised.
/// `lines`, which has no options, is the lines of text or JSON-lines files, joined in the order of their
/// names. One ragged field `text` of bytes, without the newline and a carriage return before it. The last
/// line may lack its newline, so a plain file that was cut short passes for a shorter one. The index takes 16
/// bytes a line. Files may be compressed as for `tar`. The fingerprint covers relative names, sizes and
/// numbers of lines. Throws as `tfrecord` does; also Error{corrupt} for a file named *.gz, *.zst or *.zstd
/// that is not compressed, Error{unsupported} for other compressions.
using Format = std::variant<std::string, FilesOptions, Hdf5Options, TfRecordOptions, TarOptions, NpyOptions,
                            NpzOptions, TokensOptions, MegatronOptions, MdsOptions>;

/// Opens the files of `catalog` as `format`:
///
///     auto images = rota::open(catalog, rota::TarOptions{.fields = {"jpg", "cls"}});
///
/// **Collective** over the ranks that made the catalog, which share the work of looking into files. A path
/// in its place is Catalog(path), for this process alone. Throws what the format throws, and on all ranks
/// - Error{mismatch}: not all ask for the same format and options
/// - Error{invalid_argument}: an unknown format; other files beside those of the format that was found
/// - Error{corrupt}: a file named as one of the formats that does not begin so
std::shared_ptr<const Source> open(const Catalog& catalog, const Format& format = "auto");
/// The same of Catalog(comm, path).
std::shared_ptr<const Source> open(const Communicator& comm, const std::filesystem::path& path,
                                   const Format& format = "auto");

/// The names of formats, "auto" first.
std::vector<std::string> formats();
/// The format that "auto" is of `catalog`: the saved one, or from a look, which the catalog remembers.
/// **Collective** as `open`. Throws Error{io} naming an unreadable file.
std::string find_format(const Catalog& catalog);

}  // namespace rota
