#pragma once

// Files whose names are computed from their numbers.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "catalog/listing.hpp"
#include "catalog/name_pattern.hpp"
#include "rota/catalog.hpp"
#include "rota/fingerprint.hpp"

namespace rota::internal {

/// floor(a x b / c) of numbers from 0 on, whatever a x b is; c is above 0, and what comes of it is below
/// 2^63.
std::int64_t scaled(std::int64_t a, std::int64_t b, std::int64_t c) noexcept;

/// All that makes the names of files. Their order is by index; where each folder counts anew, by folder and
/// then by index.
struct NameSeries {
  NamePattern pattern;  ///< relative to a directory
  std::int64_t files = 0;
  std::int64_t first_index = 0;
  std::int64_t folders = 1;
  std::int64_t first_folder = 0;
  FolderLayout layout = FolderLayout::round_robin;

  /// Those of file i.
  [[nodiscard]] NameNumbers numbers(std::int64_t i) const noexcept;
  [[nodiscard]] std::string name(std::int64_t i) const { return pattern.name(numbers(i)); }
  /// Of the pattern and the numbers, not of each name: another than that of the same files when listed.
  [[nodiscard]] Fingerprint fingerprint() const;
};

/// The names of a series. It takes no memory for each.
class PatternListing final : public Listing {
 public:
  explicit PatternListing(NameSeries series) : series_(std::move(series)) {}

  [[nodiscard]] std::size_t size() const noexcept override { return static_cast<std::size_t>(series_.files); }
  [[nodiscard]] std::unique_ptr<Reader> read_names() const override;
  /// Nothing is known of the files.
  [[nodiscard]] FileStat stat(std::size_t /*i*/) const override { return {}; }
  [[nodiscard]] bool is_computed() const noexcept override { return true; }

 private:
  NameSeries series_;
};

}  // namespace rota::internal
