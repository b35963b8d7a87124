#pragma once

// Samples that are read outside of a loader, and what a few hold, which tells datasets of the same names and
// sizes apart.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "order/order.hpp"
#include "rota/source.hpp"
#include "source/field_check.hpp"

namespace rota::internal {

/// A sample in memory of its own, read outside of a loader. *One thread.* The source must outlive it.
class OneSample {
 public:
  /// Asks how many rows it has. Throws as Source::rows, and Error{callback} for an impossible number.
  OneSample(const Source& source, SampleId id);

  [[nodiscard]] std::int64_t rows(std::size_t field) const { return rows_[field]; }
  /// Of all fields.
  [[nodiscard]] std::size_t bytes() const noexcept;

  /// Throws as Source::read, and Error{io} where there is not so much memory.
  void read();
  /// Of a field, once all is read.
  [[nodiscard]] std::vector<std::byte>& data(std::size_t field) { return data_[field]; }

 private:
  const Source& source_;
  SampleId id_;
  std::vector<std::int64_t> rows_;
  std::vector<std::vector<std::byte>> data_;
};

/// One sample's.
struct SampleContent {
  std::string where;
  std::int64_t digest = 0;  // of the rows and first 4 KiB of each field, 62 bits; 0: it was not read
};

/// Looked at by a loader for its state.
inline constexpr std::int64_t kSamplesOfContent = 32;

/// Of up to `most` of samples `of` of `source`, from the first to the last, of 64 MiB together; the first
/// `fields` of them. Of one that `reads_parts`, read_rows reads no more than it is asked for.
[[nodiscard]] std::vector<SampleContent> read_content(const Source& source, std::int64_t most, SampleRange of,
                                                      bool reads_parts, std::size_t fields = kMaxFields);

}  // namespace rota::internal
