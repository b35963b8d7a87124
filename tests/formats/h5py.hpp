#pragma once

// HDF5 files made by h5py, a writer that is not ours.

#include "test.hpp"

namespace rota::test {

/// Runs `script` in a Python that has h5py, numpy as np, the open file `f` = `name` in `directory`, made with
/// the keyword arguments `options`, and `dump(name, array)`, which writes an array's bytes to a file for
/// `dumped`. Returns the path of the file. Throws std::runtime_error where Python fails.
std::filesystem::path h5py(const TemporaryDirectory& directory, std::string_view name,
                           std::string_view script, std::string_view options = "");

/// The bytes of an array that the script dumped.
std::string dumped(const TemporaryDirectory& directory, std::string_view name);

}  // namespace rota::test
