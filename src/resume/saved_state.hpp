#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/state_text.hpp"
#include "rota/checkpoint.hpp"
#include "rota/error.hpp"

namespace rota::internal {

/// The name in a checkpoint of a tensor or blob, "cursors" say, of loader `name`, whatever its kind.
[[nodiscard]] std::string part_of_loader(std::string_view name, std::string_view part);
/// Those that every kind has.
inline constexpr std::string_view kState = "state";
inline constexpr std::string_view kCursors = "cursors";

/// The state of a loader as it was saved, with tensors, which go by the last part of the names that they have
/// in a checkpoint.
class SavedState : public StateText {
 public:
  /// Of loader `name` of a checkpoint, which must outlive it. Throws as StateText, and Error{not_found} where
  /// there is none.
  SavedState(std::string_view kind, const Checkpoint& checkpoint, std::string_view name);
  /// In a text, where tensors are in object "tensors", those of bytes as base64. Throws the same.
  SavedState(std::string_view kind, std::string_view text);

  /// The same with another state, of other datasets.
  SavedState(const SavedState& other, Json json)
      : StateText(other, std::move(json)),
        checkpoint_(other.checkpoint_),
        name_(other.name_),
        kind_(other.kind_) {}

  /// Throws Error{corrupt} for a text without its own digest. A checkpoint has others.
  void require_digest() const {
    if (checkpoint_ == nullptr) StateText::require_digest();
  }
  /// "the checkpoint" or "the text"
  [[nodiscard]] std::string_view where() const noexcept {
    return checkpoint_ ? "the checkpoint" : "the text";
  }

  // Refusals, before anything was moved.

  /// Unless `holds` of a tensor.
  void require(bool holds, std::string_view tensor, std::string_view why_not) const;
  template <typename Value>
  void require_same(std::string_view part, const Value& then, const Value& now,
                    const std::string& else_rule = {}) const {
    if (then == now) return;
    fail(ErrorCode::mismatch, fmt::format("{} differs: {} has {}, this loader has {}; {}{}", part, where(),
                                          then, now, rule(), else_rule));
  }
  /// What must not change in a run.
  [[nodiscard]] std::string_view rule() const noexcept;

  [[nodiscard]] bool has(std::string_view tensor) const;
  /// The name in the checkpoint of a tensor [n, columns], or [n] for 0 columns. Throws Error{corrupt} where
  /// it is another one.
  [[nodiscard]] std::string checked(std::string_view tensor, DType dtype, std::int64_t columns) const;
  /// All of a tensor int64.
  [[nodiscard]] std::vector<std::int64_t> numbers(std::string_view tensor, std::int64_t columns) const;
  /// The same as a struct of numbers for each row.
  template <typename Row>
  [[nodiscard]] std::vector<Row> rows(std::string_view tensor) const {
    const auto all = numbers(tensor, sizeof(Row) / sizeof(std::int64_t));
    std::vector<Row> rows(all.size() * sizeof(std::int64_t) / sizeof(Row));
    std::ranges::copy(std::as_bytes(std::span(all)), std::as_writable_bytes(std::span(rows)).begin());
    return rows;
  }
  /// Bytes of a tensor uint8.
  [[nodiscard]] std::int64_t bytes(std::string_view tensor) const;
  void read(std::string_view tensor, std::int64_t first, std::span<std::byte> out) const;

 private:
  [[nodiscard]] const std::string& decoded(std::string_view tensor) const;

  const Checkpoint* checkpoint_ = nullptr;  // null: it is a text
  std::string name_;
  std::string_view kind_;
  mutable std::map<std::string, std::string, std::less<>> decoded_;  // tensors of bytes, of a text
};

/// Of loader `name` of a checkpoint. Throws as SavedState.
[[nodiscard]] inline std::string kind_of_loader(const Checkpoint& checkpoint, std::string_view name) {
  return SavedState("", checkpoint, name).object().text("kind");
}

}  // namespace rota::internal
