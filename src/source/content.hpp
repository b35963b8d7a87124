#pragma once

// What a few samples hold: it tells datasets of the same names and sizes apart.

#include <cstdint>
#include <string>
#include <vector>

#include "rota/source.hpp"
#include "source/field_check.hpp"

namespace rota::internal {

/// One sample's.
struct SampleContent {
  std::string where;
  std::int64_t digest = 0;  // of the rows and first 4 KiB of each field, 62 bits; 0: it was not read
};

/// Looked at by a loader for its state.
inline constexpr std::int64_t kSamplesOfContent = 32;

/// Of up to `most` samples of `source`, from the first to the last, of 64 MiB together; the first `fields` of
/// them. Of one that `reads_parts`, read_rows reads no more than it is asked for.
[[nodiscard]] std::vector<SampleContent> read_content(const Source& source, std::int64_t most,
                                                      bool reads_parts, std::size_t fields = kMaxFields);

}  // namespace rota::internal
