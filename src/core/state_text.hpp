#pragma once

// States as text: JSON, in checkpoints as well as on its own. Every one begins with its version and its kind:
//   {"rota_state": 1, "kind": "Loader", ...}
// Numbers are whole. What may need all 64 bits is text, for readers that know no more than floating point.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "core/json.hpp"
#include "rota/error.hpp"

namespace rota::internal {

using OrderedJson = nlohmann::ordered_json;  // to be written

/// Refuses also what the parser would take: keys that come twice, and any depth. `refuse` throws.
[[nodiscard]] Json parse_json(std::string_view text, const std::function<void(std::string_view why)>& refuse);

/// Kinds of loaders, as states have them.
inline constexpr std::string_view kLoaderKind = "Loader";
inline constexpr std::string_view kStreamKind = "StreamLoader";
inline constexpr std::string_view kDispatchKind = "StreamLoader of a Dispatch";

/// The head of a state of `kind`.
[[nodiscard]] OrderedJson new_state(std::string_view kind);

/// A state as a text, with a digest of all else in it, whatever the order of keys. A checkpoint has digests
/// of its own; a text that was changed anywhere is refused by this one, on all ranks alike.
[[nodiscard]] std::string sealed(OrderedJson state);
[[nodiscard]] std::string digest_of(Json state);

[[nodiscard]] std::string to_base64(std::string_view bytes);
/// Of a member that `to_base64` wrote, and of nothing else.
[[nodiscard]] std::string from_base64(const JsonObject& object, std::string_view key);

/// A state in which the value of one key changes, and nothing else: its texts, without the rest being made
/// again. *Immutable.*
class SealedBut {
 public:
  /// No object of `state` that comes before that key, in either order, has a null by the same name.
  SealedBut(OrderedJson state, std::string_view key);
  /// As `sealed`, with this value.
  [[nodiscard]] std::string sealed(const OrderedJson& value) const;

 private:
  struct Around {
    std::string before;
    std::string behind;
  };
  Around digested_;  // what the digest is of
  Around written_;
};

/// A state as it was saved, of which nothing is believed: what is wrong with it throws Error{corrupt}.
class StateText {
 public:
  /// `task` begins what is thrown. Throws Error{corrupt} for what is no state (no JSON object, a key twice,
  /// nested too deep), Error{unsupported} for one of a newer version, Error{mismatch} for one of another kind
  /// than `kind`, where that is not empty.
  StateText(std::string task, std::string_view kind, std::string_view text);
  /// Another text of the same origin.
  StateText(const StateText& other, Json json) : task_(other.task_), json_(std::move(json)) {}
  StateText(const StateText&) = delete;
  StateText& operator=(const StateText&) = delete;

  [[nodiscard]] JsonObject object() const;
  [[nodiscard]] const Json& json() const noexcept { return json_; }
  /// Throws Error{corrupt} for a text without its own digest.
  void require_digest() const;

  /// No more of `why` is said than people read: parts of it may be the state's own.
  [[noreturn]] void fail(ErrorCode code, std::string_view why) const;
  /// It is damaged, or was never such a state.
  [[noreturn]] void fail(std::string_view why) const;

 private:
  std::string task_;
  Json json_;
};

}  // namespace rota::internal
