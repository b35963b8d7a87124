#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rota/source.hpp"

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

}  // namespace rota::internal
