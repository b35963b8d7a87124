#include "resume/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cereal/external/base64.hpp>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "rota/fingerprint.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kDeepest = 8;

// Refuses also what the parser would take: keys that come twice, and any depth.
Json parse(std::string_view text, const Refusal& refusal) {
  using Event = Json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int /*depth*/, Event event, const Json& parsed) {
    if (event == Event::object_start || event == Event::array_start) keys.emplace_back();
    if (event == Event::object_end || event == Event::array_end) keys.pop_back();
    if (keys.size() > kDeepest) {
      refusal.fail(fmt::format("its JSON is nested deeper than {} levels", kDeepest));
    }
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second) {
      refusal.fail(fmt::format("its key \"{}\" comes twice", parsed.get<std::string>()));
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& error) {
    refusal.fail(fmt::format("it is no JSON ({})", error.what()));
  }
}

// Only what `to_base64` writes.
std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::size_t kMost = std::size_t{1} << 20;  // cereal counts in int
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); at += kMost) {
    bytes += cereal::base64::decode(std::string(text.substr(at, kMost)));
  }
  return to_base64(bytes) == text ? std::optional(std::move(bytes)) : std::nullopt;
}

}  // namespace

void Refusal::fail(ErrorCode code, std::string_view why) const {
  constexpr std::size_t kMostSaid = 1000;
  throw Error(code, fmt::format("restore {} from {}: {}{}", what, from, why.substr(0, kMostSaid),
                                why.size() > kMostSaid ? " ..." : ""));
}

void Refusal::fail(std::string_view why) const {
  fail(ErrorCode::corrupt, fmt::format("{}; take another one", why));
}

void Refusal::require(bool holds, std::string_view tensor, std::string_view why_not) const {
  if (!holds) fail(fmt::format("its tensor \"{}\" {}", tensor, why_not));
}

void Refusal::require_tensor(const Checkpoint& checkpoint, std::string_view tensor, DType dtype,
                             const std::vector<std::int64_t>& row_shape) const {
  require(checkpoint.has_tensor(tensor), tensor, "is missing");
  const TensorInfo& info = checkpoint.tensor(tensor);
  if (info.dtype == dtype && std::ranges::equal(std::span(info.shape).subspan(1), row_shape)) return;
  std::string shape = "[rows";
  for (const std::int64_t extent : row_shape) shape += fmt::format(", {}", extent);
  require(false, tensor, fmt::format("is not {} {}]", to_string(dtype), shape));
}

std::string to_base64(std::string_view bytes) {
  return cereal::base64::encode(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

OrderedJson new_state(std::string_view kind) { return {{"rota_state", kVersion}, {"kind", kind}}; }

std::string part_of_loader(std::string_view name, std::string_view part) {
  return fmt::format("loader/{}/{}", name, part);
}

Json parse_state(std::string_view text, const Refusal& refusal) {
  Json state = parse(text, refusal);
  const StateObject head(state, refusal);
  if (const std::int64_t version = head.number("rota_state"); version != kVersion) {
    refusal.fail(version > kVersion ? ErrorCode::unsupported : ErrorCode::corrupt,
                 fmt::format("its state is of version {}, and this rota reads up to {}", version, kVersion));
  }
  return state;
}

Json parse_state(std::string_view text, std::string_view kind, const Refusal& refusal) {
  Json state = parse_state(text, refusal);
  if (const std::string there = StateObject(state, refusal).text("kind"); there != kind) {
    refusal.fail(
        ErrorCode::mismatch,
        fmt::format(
            "it has the state of a {} there, and this is a {}; restore each state into a loader of its kind",
            there, kind));
  }
  return state;
}

std::string digest_of(Json state) {
  state.erase("digest");
  return to_string(FingerprintBuilder().add(state.dump()).finish());
}

std::string sealed(OrderedJson state) {
  state["digest"] = digest_of(Json(state));
  return state.dump();
}

void require_digest(const Json& state, const Refusal& refusal) {
  if (StateObject(state, refusal).text("digest") == digest_of(state)) return;
  refusal.fail("it was changed: its digest is not that of what it says");
}

StateObject::StateObject(const Json& object, const Refusal& refusal, std::string path)
    : object_(&object), refusal_(&refusal), path_(std::move(path)) {
  if (!object.is_object()) refusal.fail(fmt::format("it is no state: \"{}\" is no object", path_));
}

void StateObject::fail(std::string_view key, std::string_view why) const {
  refusal_->fail(fmt::format("\"{}{}\" of its state {}", path_, key, why));
}

bool StateObject::has(std::string_view key) const { return object_->contains(key); }

const Json& StateObject::at(std::string_view key) const {
  const auto found = object_->find(key);
  if (found == object_->end()) fail(key, "is missing");
  return *found;
}

StateObject StateObject::object(std::string_view key) const {
  return {at(key), *refusal_, fmt::format("{}{}.", path_, key)};
}

std::int64_t StateObject::any_number_of(const Json& value, std::string_view key) const {
  constexpr auto kMost = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  const bool fits =
      value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= kMost);
  if (!fits) fail(key, "is no whole number of 64 bits");
  return value.get<std::int64_t>();
}

std::int64_t StateObject::number_of(const Json& value, std::string_view key) const {
  const std::int64_t number = any_number_of(value, key);
  if (number < 0 || number > kMaxCount) fail(key, fmt::format("is not from 0 to {}", kMaxCount));
  return number;
}

std::int64_t StateObject::number(std::string_view key) const { return number_of(at(key), key); }

const Json& StateObject::array(std::string_view key) const {
  const Json& array = at(key);
  if (!array.is_array()) fail(key, "is no array");
  return array;
}

std::vector<std::int64_t> StateObject::numbers(std::string_view key) const {
  std::vector<std::int64_t> numbers;
  for (const Json& value : array(key)) numbers.push_back(number_of(value, key));
  return numbers;
}

std::vector<std::int64_t> StateObject::any_numbers(std::string_view key) const {
  std::vector<std::int64_t> numbers;
  for (const Json& value : array(key)) numbers.push_back(any_number_of(value, key));
  return numbers;
}

std::vector<std::int64_t> StateObject::rows(std::string_view key, std::size_t columns) const {
  std::vector<std::int64_t> numbers;
  for (const Json& row : array(key)) {
    if (!row.is_array() || row.size() != columns) fail(key, fmt::format("is not [rows, {}]", columns));
    for (const Json& value : row) numbers.push_back(any_number_of(value, key));
  }
  return numbers;
}

std::string StateObject::text(std::string_view key) const {
  const Json& text = at(key);
  if (!text.is_string()) fail(key, "is no text");
  return text.get<std::string>();
}

std::string StateObject::bytes(std::string_view key) const {
  auto bytes = from_base64(text(key));
  if (!bytes) fail(key, "is no base64");
  return *std::move(bytes);
}

}  // namespace rota::internal
