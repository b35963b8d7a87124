#pragma once

// What the targets of formats share: a dataset of what the fuzzer gives, opened and read.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/error.hpp"
#include "rota/open.hpp"
#include "target.hpp"
#include "temporary_directory.hpp"

namespace rota::test {

/// A directory for the files of one run after the other.
inline const rota::test::TemporaryDirectory& directory() {
  static const rota::test::TemporaryDirectory only;
  return only;
}

inline std::filesystem::path write_file(std::string_view name, std::span<const std::byte> bytes) {
  return directory().write(name, to_text(bytes));
}

/// Reads samples from the beginning of `source` and from its end.
inline void read_samples(const rota::Source& source) {
  constexpr std::int64_t kMost = 20;
  std::vector<rota::SampleId> ids;
  for (std::int64_t id = 0; id < source.size(); ++id) {
    if (id < kMost || id >= source.size() - kMost) ids.push_back({id});
  }
  for (const rota::SampleId id : ids) {
    std::vector<rota::BatchView::FieldMemory> memory;
    std::vector<std::vector<std::byte>> data;
    std::vector<std::vector<std::int64_t>> offsets;
    for (std::size_t f = 0; f < source.fields().size(); ++f) {
      const rota::Field& field = source.fields()[f];
      std::int64_t rows = 1;
      if (field.ragged) source.rows(std::span(&id, 1), f, std::span(&rows, 1));
      ROTA_FUZZ_EXPECT(rows >= 0);
      offsets.push_back({0, rows});
      data.emplace_back(static_cast<std::size_t>(rows) * field.row_bytes());
      memory.push_back(
          {data.back().data(), field.row_bytes(), field.ragged ? offsets.back().data() : nullptr});
    }
    source.read(std::span(&id, 1), rota::BatchView(memory, 0, 1));
    ROTA_FUZZ_EXPECT(!source.where(id).empty());
  }
}

/// Opens and reads what `open` gives, which may refuse it, and nothing worse.
template <typename Open>
void try_format(Open&& open) {
  try {
    const std::shared_ptr<const rota::Source> source = open();
    read_samples(*source);
  } catch (const rota::Error& error) {
    ROTA_FUZZ_EXPECT(error.code() != rota::ErrorCode::out_of_range);
  }
}

}  // namespace rota::test
