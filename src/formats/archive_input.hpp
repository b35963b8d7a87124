#pragma once

#include <archive.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include "core/caught.hpp"
#include "files/dataset_file.hpp"

namespace rota::internal {

/// Reads a file for libarchive, through whose C nothing may be thrown: `error` is what was. *One thread.*
struct ArchiveInput {
  const DatasetFile& file;
  std::vector<std::byte> block;  ///< that is read at a time
  std::uint64_t next = 0;
  std::exception_ptr error = nullptr;

  static la_ssize_t read(archive* /*of*/, void* self, const void** bytes) noexcept {
    auto& input = *static_cast<ArchiveInput*>(self);
    *bytes = input.block.data();
    std::size_t got = 0;
    const auto failed = thrown_by([&] { got = input.file.read_up_to_end(input.next, input.block); });
    if (failed != nullptr) input.error = failed;
    input.next += got;
    return failed == nullptr ? static_cast<la_ssize_t>(got) : -1;
  }
  static la_int64_t skip(archive* /*of*/, void* self, la_int64_t bytes) noexcept {
    auto& input = *static_cast<ArchiveInput*>(self);
    const std::uint64_t left = input.file.bytes() - std::min(input.file.bytes(), input.next);
    const auto skipped = std::min(static_cast<std::uint64_t>(bytes), left);
    input.next += skipped;
    return static_cast<la_int64_t>(skipped);
  }
};

}  // namespace rota::internal
