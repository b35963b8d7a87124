#pragma once

// Names that are written as a pattern with fields for numbers.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace rota::internal
