#pragma once

// What one HDF5 file of a dataset holds: its fields, and how many samples.

#include <cstdint>
#include <string>
#include <vector>

#include "rota/source.hpp"
#include "source/hdf5_layout.hpp"

namespace rota {

/// A field as one file stores it.
struct Hdf5Field {
  Field field;
  Hdf5Dataset values;
  std::vector<std::int64_t> offsets;  ///< ragged: sample i has the rows [offsets[i], offsets[i + 1])

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(field.name, field.dtype, field.shape, field.ragged, values, offsets);
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

/// Asks the file `path` of `bytes` bytes for `datasets`; where that is empty, it becomes the names of all
/// datasets of numbers in the file, by name. Throws as open_hdf5 does. Blocks on storage, under HDF5's lock.
Hdf5File ask_file(const std::string& path, std::int64_t bytes, std::vector<std::string>& datasets);

}  // namespace rota
