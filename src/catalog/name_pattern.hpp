#pragma once

// Names that are written as a pattern with fields for numbers, and files that are named so.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/catalog.hpp"
#include "rota/fingerprint.hpp"

namespace rota::internal {

/// Of which number a field is.
enum class NameField : std::uint8_t { none, index, folder, total };

/// The numbers that make a name of a pattern.
struct NameNumbers {
  std::int64_t index = 0;
  std::int64_t folder = 0;
  std::int64_t total = 0;
};

/// Text and fields by turns. *Immutable.*
class NamePattern {
 public:
  /// Text, and the field behind it.
  struct Part {
    std::string text;
    NameField field = NameField::none;
    int width = 1;  ///< at least so many digits, filled up with zeros in front
    friend bool operator==(const Part&, const Part&) = default;
  };
  static constexpr int kMostWidth = 18;

  NamePattern() = default;
  explicit NamePattern(std::vector<Part> parts) : parts_(std::move(parts)) {}
  /// As a user writes it: `{index}`, `{index:08}`, `{folder}`, `{total}`; `{{` and `}}` for braces. Throws
  /// Error{invalid_argument} naming what is wrong with it.
  static NamePattern parse(std::string_view written);

  /// Throws Error{invalid_argument} unless it names files: one index, and folders above it.
  void require_names() const;

  [[nodiscard]] const std::vector<Part>& parts() const noexcept { return parts_; }
  [[nodiscard]] bool has(NameField field) const noexcept { return count(field) > 0; }
  [[nodiscard]] std::size_t count(NameField field) const noexcept;
  /// As `parse` reads it: the same for all that make the same names.
  [[nodiscard]] std::string text() const;

  /// The text up to the path component that has the first field.
  [[nodiscard]] std::string directory() const;
  /// What comes behind that.
  [[nodiscard]] NamePattern below_directory() const;
  /// The path up to the end of the component that has the first such field.
  [[nodiscard]] NamePattern through(NameField field) const;
  /// The path without its last component: nothing at all for a pattern of one component.
  [[nodiscard]] NamePattern parent() const;

  [[nodiscard]] std::string name(const NameNumbers& numbers) const;

 private:
  [[nodiscard]] NamePattern up_to(std::size_t part, std::size_t end) const;

  std::vector<Part> parts_;  // what is behind the last field has no field of its own
};

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

}  // namespace rota::internal
