#pragma once

// States as text: JSON, in checkpoints as well as on its own. Every one begins with its version and its kind:
//   {"rota_state": 1, "kind": "Loader", ...}
// Numbers are whole. What may need all 64 bits is text, for readers that know no more than floating point.

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/checkpoint.hpp"
#include "rota/error.hpp"
#include "rota/types.hpp"

namespace rota::internal {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // to be written

/// How a saved state is refused, before anything was moved.
struct Refusal {
  std::string_view what;   ///< is to be restored: "a loader", say
  std::string from;        ///< the path of a checkpoint, or "a text"
  std::string_view saved;  ///< "the checkpoint", or "the text"
  std::string_view rule;   ///< what must not change

  /// No more of `why` is said than people read: parts of it may be the state's own.
  [[noreturn]] void fail(ErrorCode code, std::string_view why) const;
  /// It is damaged, or was never such a state.
  [[noreturn]] void fail(std::string_view why) const;
  /// Unless `holds` of a tensor.
  void require(bool holds, std::string_view tensor, std::string_view why_not) const;
  /// Unless this tensor is there, and of such rows.
  void require_tensor(const Checkpoint& checkpoint, std::string_view tensor, DType dtype,
                      const std::vector<std::int64_t>& row_shape) const;
  template <typename Value>
  void require_same(std::string_view part, const Value& then, const Value& now) const {
    if (then == now) return;
    fail(ErrorCode::mismatch,
         fmt::format("{} differs: {} has {}, this loader has {}; {}", part, saved, then, now, rule));
  }
};

/// The head of a state of `kind`.
[[nodiscard]] OrderedJson new_state(std::string_view kind);

/// Kinds of loaders, as states have them.
inline constexpr std::string_view kLoaderKind = "Loader";
inline constexpr std::string_view kStreamKind = "StreamLoader";
inline constexpr std::string_view kDispatchKind = "StreamLoader of a Dispatch";

/// The name in a checkpoint of a tensor or blob, "cursors" say, of loader `name`, whatever its kind.
[[nodiscard]] std::string part_of_loader(std::string_view name, std::string_view part);
/// Those that every kind has.
[[nodiscard]] inline std::string state_name(std::string_view name) { return part_of_loader(name, "state"); }
[[nodiscard]] inline std::string cursors_name(std::string_view name) {
  return part_of_loader(name, "cursors");
}

/// Throws Error{corrupt} for text that is no state (no JSON object, a key twice, nested too deep),
/// Error{unsupported} for one of a newer version.
[[nodiscard]] Json parse_state(std::string_view text, const Refusal& refusal);
/// The same, and Error{mismatch} for one of another kind.
[[nodiscard]] Json parse_state(std::string_view text, std::string_view kind, const Refusal& refusal);

/// A state as a text, with a digest of all else in it, whatever the order of keys. A checkpoint has digests
/// of its own; a text that was changed anywhere is refused by this one, on all ranks alike.
[[nodiscard]] std::string sealed(OrderedJson state);
[[nodiscard]] std::string digest_of(Json state);
/// Throws Error{corrupt} unless `state` has its own digest.
void require_digest(const Json& state, const Refusal& refusal);

/// An object in a state, of which nothing is believed: what is not there, or is of another type, throws
/// Error{corrupt} that names it. `object` and `refusal` must outlive it.
class StateObject {
 public:
  StateObject(const Json& object, const Refusal& refusal, std::string path = {});

  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] StateObject object(std::string_view key) const;
  /// 0 to kMaxCount.
  [[nodiscard]] std::int64_t number(std::string_view key) const;
  /// Such numbers.
  [[nodiscard]] std::vector<std::int64_t> numbers(std::string_view key) const;
  /// Any numbers of 64 bits with sign.
  [[nodiscard]] std::vector<std::int64_t> any_numbers(std::string_view key) const;
  /// The same, [n, columns].
  [[nodiscard]] std::vector<std::int64_t> rows(std::string_view key, std::size_t columns) const;
  [[nodiscard]] std::string text(std::string_view key) const;
  /// As `to_base64` wrote them.
  [[nodiscard]] std::string bytes(std::string_view key) const;

 private:
  [[nodiscard]] const Json& at(std::string_view key) const;
  [[nodiscard]] const Json& array(std::string_view key) const;
  [[nodiscard]] std::int64_t any_number_of(const Json& value, std::string_view key) const;
  [[nodiscard]] std::int64_t number_of(const Json& value, std::string_view key) const;
  [[noreturn]] void fail(std::string_view key, std::string_view why) const;

  const Json* object_;
  const Refusal* refusal_;
  std::string path_;  // to it, for messages
};

[[nodiscard]] std::string to_base64(std::string_view bytes);

}  // namespace rota::internal
