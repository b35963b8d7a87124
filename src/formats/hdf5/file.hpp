#pragma once

// What one HDF5 file of a dataset holds: its fields, and how many samples.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "files/dataset_file.hpp"
#include "formats/hdf5/layout.hpp"
#include "rota/source.hpp"

namespace rota::internal {

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

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(field.name, field.dtype, field.shape, field.ragged, values, target, offsets);
  }
};

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

  /// Tells the user what of the file was left out, if there was something.
  void tell_left_out(const std::string& path) const;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(datasets, left_out);
  }
};

/// Asks `file` for the `choice`; where that names none, it becomes all datasets of numbers in the file, by
/// name, or else all that can be read. External links are followed where it `may_leave` the file. Throws as
/// the format hdf5 does. Blocks on a file system under HDF5's lock, on a Storage without it.
Hdf5File ask_file(const DatasetFile& file, Hdf5Choice& choice, bool may_leave);

}  // namespace rota::internal
