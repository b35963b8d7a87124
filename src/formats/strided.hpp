#pragma once

// Samples of one size at equal distances in files: rows of arrays, windows of tokens.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "catalog/files.hpp"
#include "rota/source.hpp"

namespace rota::internal {

/// Where the samples of one file are.
struct StridedFile {
  std::uint64_t first = 0;  ///< byte of sample 0
  std::int64_t samples = 0;
};

/// One field, of fixed shape; a sample begins `stride_bytes` after the one before.
struct StridedLayout {
  std::string format;  ///< as `open` names it
  Field field;
  std::uint64_t stride_bytes = 0;
  std::vector<StridedFile> files;
};

/// The samples of `files`, which must lie inside them.
std::shared_ptr<const Source> make_strided_source(FileList files, StridedLayout layout);

}  // namespace rota::internal
