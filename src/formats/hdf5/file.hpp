#pragma once

// What one HDF5 file of a dataset holds: its fields, and how many samples; how HDF5 gets to read it; and its
// links, which are followed here, for HDF5 would not tell which file the addresses are of.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/caught.hpp"
#include "files/dataset_file.hpp"
#include "formats/hdf5/layout.hpp"
#include "hdf5/hdf5.hpp"
#include "rota/source.hpp"
#include "source/scaling.hpp"

namespace rota::internal {

/// Lets HDF5 read files, and keeps what is thrown meanwhile, which it would only tell as damage. A storage is
/// not waited for under HDF5's lock: there, a read of bytes that have not come fails, `fetch` brings them,
/// and HDF5 is asked anew.
class Hdf5Reads {
 public:
  /// Both must outlive what is returned. At most one file may be in a storage.
  hdf5::FileBytes of(const DatasetFile& file) {
    return {file.bytes(), [this, &file](std::uint64_t offset, std::span<std::byte> to) {
              if (file.storage() != nullptr) return copy(offset, to);
              const auto error = thrown_by([&] { file.read(offset, to); });
              if (error_ == nullptr) error_ = error;
              return error == nullptr;
            }};
  }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

  /// What was thrown.
  void forget() noexcept { error_ = nullptr; }

  /// Whether HDF5 wanted bytes that had not come.
  [[nodiscard]] bool is_missing() const noexcept { return missing_bytes_ > 0; }
  /// Brings them, and what follows, much where it is asked for piece by piece. Throws as DatasetFile::read
  /// does.
  void fetch(const DatasetFile& file) {
    std::vector<std::byte> piece(std::min(pace_.next(missing_, missing_bytes_), file.bytes() - missing_));
    file.read(missing_, piece);
    pieces_.insert_or_assign(missing_, std::move(piece));
    missing_bytes_ = 0;
  }

 private:
  // HDF5 asks again for just what it was refused, so that a read need not be put together.
  bool copy(std::uint64_t offset, std::span<std::byte> to) noexcept {
    if (to.empty()) return true;
    auto piece = pieces_.upper_bound(offset);
    if (piece != pieces_.begin()) {
      --piece;
      const std::span<const std::byte> bytes = piece->second;
      const std::uint64_t skipped = offset - piece->first;
      if (skipped <= bytes.size() && to.size() <= bytes.size() - skipped) {
        std::ranges::copy(bytes.subspan(skipped, to.size()), to.begin());
        return true;
      }
    }
    if (is_missing()) return false;
    missing_ = offset;
    missing_bytes_ = to.size();
    return false;
  }

  std::exception_ptr error_;
  std::map<std::uint64_t, std::vector<std::byte>> pieces_;  // by where they begin
  std::uint64_t missing_ = 0;
  std::size_t missing_bytes_ = 0;
  ReadPace pace_{{.least = std::uint64_t{256} << 10, .most = std::uint64_t{16} << 20}};
};

/// Where HDF5's signature stands: at byte 0 or, after a user block, at 512, 1024, 2048, ... (HDF5 File Format
/// Specification 3.0, II.A). Throws what `bytes.read` throws; nothing, too, where that fails.
std::optional<std::uint64_t> find_hdf5_signature(const hdf5::FileBytes& bytes);

/// Throws Error{corrupt} where `file`, whose bytes are `bytes`, has no signature of HDF5; Error{busy} where
/// it is being written, or was left so by its writer. The file says so, from version 2 of its superblock on,
/// or a lock does: what was written may not be there yet, and would be read as zeros. One whose writer lets
/// others read `may_grow`; returns whether it is one.
bool require_finished(const DatasetFile& file, const hdf5::FileBytes& bytes, bool may_grow = false);

/// Another file, into which an external link leads.
struct Hdf5Target {
  std::string link;  ///< its name, as the link has it
  std::string path;
  std::int64_t bytes = 0;
  std::size_t index = 0;  ///< among all that the source reads; not of ask_file

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(link, path, bytes);
  }
};

/// A field as one file stores it.
struct Hdf5Field {
  Field field;
  Hdf5Dataset values;
  std::optional<Hdf5Target> target;   ///< the file of `values`, if it is another
  std::vector<std::int64_t> offsets;  ///< ragged: sample i has the rows [offsets[i], offsets[i + 1])
  std::vector<Hdf5Dataset> samples;   ///< one for each, in a file of groups; `values` is the first
  Scaling scaling;                    ///< as NetCDF has it; its scale is NaN where it cannot be undone
  DType meant = DType::uint8;         ///< what is behind it; of integers without a scale the same
  bool is_of_other_sign = false;      ///< of integers: `_Unsigned` says so

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(field.name, field.dtype, field.shape, field.ragged, values, target, offsets, samples,
            scaling.scale, scaling.offset, scaling.missing, meant, is_of_other_sign);
  }
  /// Which has a sample.
  [[nodiscard]] const Hdf5Dataset& dataset(std::int64_t sample) const noexcept {
    return samples.empty() ? values : samples[static_cast<std::size_t>(sample)];
  }
  [[nodiscard]] std::span<const Hdf5Dataset> datasets() const noexcept {
    return samples.empty() ? std::span(&values, 1) : std::span(samples);
  }
};

/// Whether NetCDF's attributes say that it is the scale of a dimension: where samples lie along that.
bool is_dimension_scale(const hdf5::Dataset& dataset);
/// Whether the group of the dataset `name` says that it holds a sparse matrix by columns (AnnData's
/// "csc_matrix").
bool is_by_columns(const Hdf5Subject& subject, const std::string& name);
/// Asks for NetCDF's scale_factor, add_offset, _FillValue, missing_value and _Unsigned of a dataset of
/// numbers.
void ask_scaling(const hdf5::Dataset& dataset, Hdf5Field& field);
/// The field of the integers that it says it has.
void change_sign(Hdf5Field& field);

/// What both end with.
[[nodiscard]] std::vector<std::int64_t> shared_end(std::span<const std::int64_t> a,
                                                   std::span<const std::int64_t> b);

struct Hdf5File {
  std::int64_t samples = 0;
  std::vector<Hdf5Field> fields;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(samples, fields);
  }
};

/// Which datasets are read.
struct Hdf5Choice {
  std::vector<std::string> datasets;
  std::vector<std::string> left_out = {};  ///< each with what it is, in words
  bool are_in_groups = false;              ///< of those names in each group, which is a sample
  std::string offsets = {};                ///< Hdf5Options has it, and the next
  std::string groups = {};
  bool swmr = false;
  bool are_named = false;  ///< the datasets, by the user

  /// Of a dataset, the name of that of its offsets, should it be ragged.
  [[nodiscard]] std::string offsets_of(const std::string& name) const;
  /// Tells the user what of the file was left out, if there was something.
  void tell_left_out(const std::string& path) const;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(datasets, left_out, are_in_groups, offsets, groups, swmr, are_named);
  }
};

/// Of the names of datasets, the groups that are a sample each, in order: those that the choice names, or at
/// the top of the file those that differ by a number alone, and hold datasets of the same names; else none.
std::vector<std::string> groups_of(const std::vector<std::string>& datasets, const Hdf5Choice& choice);

/// Asks `file` for the `choice`; where that names none, it becomes all datasets of numbers in the file, by
/// name, or else all that can be read; or, of groups that differ by a number alone and hold datasets of the
/// same names, those names. External links are followed where it `may_leave` the file. Throws as
/// the format hdf5 does. Blocks on a file system under HDF5's lock, on a Storage without it.
Hdf5File ask_file(const DatasetFile& file, Hdf5Choice& choice, bool may_leave);

class Hdf5Links;
/// Whether `name`, or where it leads, is one. Throws Error{unsupported} for what HDF5 cannot open.
bool is_dataset(Hdf5Links& links, const std::string& name);
/// The field of datasets `name` in these groups, which are a sample each: as large as they are, or ragged
/// where extents differ. Throws Error{not_found} where a group has none.
Hdf5Field ask_samples(Hdf5Links& links, const std::vector<std::string>& groups, const std::string& name);

/// An object, or what would be one, named by hard links alone.
struct Hdf5Object {
  const Hdf5Subject* subject;
  std::string name;
  std::string link = {};   ///< the file's name, as the external link says that leads here; empty: none does
  bool is_linked = false;  ///< an external link leads to itself, and not to a group that would hold it
};

/// Follows links from one file, and keeps those open that they lead into. One thread, under HDF5's lock.
class Hdf5Links {
 public:
  /// External links are errors, unless `from` may be left.
  Hdf5Links(const Hdf5Subject& from, Hdf5Reads& reads) : from_(from), reads_(reads) {}

  [[nodiscard]] const Hdf5Subject& from() const noexcept { return from_; }
  /// Where `name` leads. Valid as long as this lives. Throws Error{unsupported} for an external link that
  /// must not be followed, and for too many links; Error{not_found} naming link and file where that is
  /// missing.
  [[nodiscard]] Hdf5Object follow(const std::string& name);
  /// The names of all external links.
  [[nodiscard]] std::vector<std::string> external() const;
  /// Of datasets of any type, in any group, by name; and of external links to anything, if it may leave.
  [[nodiscard]] std::vector<std::string> datasets() const;
  /// The same by each of their names, and of the groups that they are in: those of links inside the file,
  /// too.
  [[nodiscard]] std::vector<std::string> datasets_by_all_names() const;

 private:
  struct Other;

  bool step(Hdf5Object& at, const std::string& what);
  void leave(Hdf5Object& at, const std::string& file, const std::string& what);

  const Hdf5Subject& from_;
  Hdf5Reads& reads_;
  std::map<std::string, std::shared_ptr<Other>> others_;  // by path
};

}  // namespace rota::internal
