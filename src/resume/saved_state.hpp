#pragma once

// States as text: JSON, in checkpoints as well as on its own. Every one begins with its version and its kind:
//   {"rota_state": 1, "kind": "Loader", ...}
// Numbers are whole. What may need all 64 bits is text, for readers that know no more than floating point.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "rota/checkpoint.hpp"
#include "rota/error.hpp"

namespace rota::internal {

using OrderedJson = nlohmann::ordered_json;  // to be written

/// Kinds of loaders, as states have them.
inline constexpr std::string_view kLoaderKind = "Loader";
inline constexpr std::string_view kStreamKind = "StreamLoader";
inline constexpr std::string_view kDispatchKind = "StreamLoader of a Dispatch";

/// The head of a state of `kind`.
[[nodiscard]] OrderedJson new_state(std::string_view kind);

/// The name in a checkpoint of a tensor or blob, "cursors" say, of loader `name`, whatever its kind.
[[nodiscard]] std::string part_of_loader(std::string_view name, std::string_view part);
/// Those that every kind has.
inline constexpr std::string_view kState = "state";
inline constexpr std::string_view kCursors = "cursors";

/// A state as a text, with a digest of all else in it, whatever the order of keys. A checkpoint has digests
/// of its own; a text that was changed anywhere is refused by this one, on all ranks alike.
[[nodiscard]] std::string sealed(OrderedJson state);
[[nodiscard]] std::string digest_of(Json state);

[[nodiscard]] std::string to_base64(std::string_view bytes);
/// Of a member that `to_base64` wrote, and of nothing else.
[[nodiscard]] std::string from_base64(const JsonObject& object, std::string_view key);

/// A state as it was saved, of which nothing is believed: what is wrong with it throws Error{corrupt}.
/// Tensors go by the last part of the names that they have in a checkpoint.
class SavedState {
 public:
  /// Of loader `name` of a checkpoint, which must outlive it. Throws Error{not_found} where there is none,
  /// Error{corrupt} for what is no state (no JSON object, a key twice, nested too deep), Error{unsupported}
  /// for one of a newer version, Error{mismatch} for one of another kind than `kind`, where that is not
  /// empty.
  SavedState(std::string_view kind, const Checkpoint& checkpoint, std::string_view name);
  /// In a text, where tensors are in object "tensors", those of bytes as base64. Throws the same.
  SavedState(std::string_view kind, std::string_view text);
  SavedState(const SavedState&) = delete;
  SavedState& operator=(const SavedState&) = delete;

  [[nodiscard]] JsonObject object() const;
  /// Throws Error{corrupt} for a text without its own digest.
  void require_digest() const;
  /// "the checkpoint" or "the text"
  [[nodiscard]] std::string_view where() const noexcept {
    return checkpoint_ ? "the checkpoint" : "the text";
  }

  // Refusals, before anything was moved.

  /// No more of `why` is said than people read: parts of it may be the state's own.
  [[noreturn]] void fail(ErrorCode code, std::string_view why) const;
  /// It is damaged, or was never such a state.
  [[noreturn]] void fail(std::string_view why) const;
  /// Unless `holds` of a tensor.
  void require(bool holds, std::string_view tensor, std::string_view why_not) const;
  template <typename Value>
  void require_same(std::string_view part, const Value& then, const Value& now) const {
    if (then == now) return;
    fail(ErrorCode::mismatch,
         fmt::format("{} differs: {} has {}, this loader has {}; {}", part, where(), then, now, rule()));
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
  Json json_;
  mutable std::map<std::string, std::string, std::less<>> decoded_;  // tensors of bytes, of a text
};

/// Of loader `name` of a checkpoint. Throws as SavedState.
[[nodiscard]] inline std::string kind_of_loader(const Checkpoint& checkpoint, std::string_view name) {
  return SavedState("", checkpoint, name).object().text("kind");
}

}  // namespace rota::internal
