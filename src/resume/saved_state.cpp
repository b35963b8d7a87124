#include "resume/saved_state.hpp"

#include <cereal/external/base64.hpp>
#include <limits>
#include <set>

#include "core/failure.hpp"
#include "rota/fingerprint.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kDeepest = 8;
constexpr std::string_view kTensors = "tensors";

// Refuses also what the parser would take: keys that come twice, and any depth.
Json parse(std::string_view text, const SavedState& state) {
  using Event = Json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int /*depth*/, Event event, const Json& parsed) {
    if (event == Event::object_start || event == Event::array_start) keys.emplace_back();
    if (event == Event::object_end || event == Event::array_end) keys.pop_back();
    if (keys.size() > kDeepest) state.fail(fmt::format("its JSON is nested deeper than {} levels", kDeepest));
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second) {
      state.fail(fmt::format("its key \"{}\" comes twice", parsed.get<std::string>()));
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& error) {
    state.fail(fmt::format("it is no JSON ({})", error.what()));
  }
}

void require_kind(std::string_view kind, const SavedState& state) {
  const JsonObject head = state.object();
  if (const std::int64_t version = head.number("rota_state"); version != kVersion) {
    state.fail(version > kVersion ? ErrorCode::unsupported : ErrorCode::corrupt,
               fmt::format("its state is of version {}, and this rota reads up to {}", version, kVersion));
  }
  if (kind.empty() || head.text("kind") == kind) return;
  state.fail(
      ErrorCode::mismatch,
      fmt::format(
          "it has the state of a {} there, and this is a {}; restore each state into a loader of its kind",
          head.text("kind"), kind));
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  return cereal::base64::encode(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::string from_base64(const JsonObject& object, std::string_view key) {
  constexpr std::size_t kMost = std::size_t{1} << 20;  // cereal counts in int
  const std::string& text = object.text(key);
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); at += kMost) {
    bytes += cereal::base64::decode(text.substr(at, kMost));
  }
  if (to_base64(bytes) != text) object.fail(key, "is no base64");
  return bytes;
}

OrderedJson new_state(std::string_view kind) { return {{"rota_state", kVersion}, {"kind", kind}}; }

std::string part_of_loader(std::string_view name, std::string_view part) {
  return fmt::format("loader/{}/{}", name, part);
}

std::string digest_of(Json state) {
  state.erase("digest");
  return to_string(FingerprintBuilder().add(state.dump()).finish());
}

std::string sealed(OrderedJson state) {
  state["digest"] = digest_of(Json(state));
  return state.dump();
}

SavedState::SavedState(std::string_view kind, const Checkpoint& checkpoint, std::string_view name)
    : checkpoint_(&checkpoint),
      name_(name),
      kind_(kind),
      json_(parse(checkpoint.blob(part_of_loader(name, kState)), *this)) {
  require_kind(kind, *this);
}

SavedState::SavedState(std::string_view kind, std::string_view text)
    : kind_(kind), json_(parse(text, *this)) {
  require_kind(kind, *this);
}

JsonObject SavedState::object() const {
  return {json_, [this](std::string_view member, std::string_view why) {
            fail(member.empty() ? fmt::format("its state {}", why)
                                : fmt::format("\"{}\" of its state {}", member, why));
          }};
}

void SavedState::require_digest() const {
  if (checkpoint_ || object().text("digest") == digest_of(json_)) return;
  fail("it was changed: its digest is not that of what it says");
}

std::string_view SavedState::rule() const noexcept {
  return kind_ == kLoaderKind ? "a run can only go on in the order that it began"
                              : "a run can only go on with the data and the transforms that it began with";
}

void SavedState::fail(ErrorCode code, std::string_view why) const {
  constexpr std::size_t kMostSaid = 1000;
  const bool is_stream = kind_ == kStreamKind || kind_ == kDispatchKind;
  throw failure(code, "restore a {}loader from {}: {}{}", is_stream ? "stream " : "",
                checkpoint_ ? checkpoint_->info().path.string() : "a text", why.substr(0, kMostSaid),
                why.size() > kMostSaid ? " ..." : "");
}

void SavedState::fail(std::string_view why) const {
  fail(ErrorCode::corrupt, fmt::format("{}; take another one", why));
}

void SavedState::require(bool holds, std::string_view tensor, std::string_view why_not) const {
  if (!holds) fail(fmt::format("its tensor \"{}\" {}", part_of_loader(name_, tensor), why_not));
}

bool SavedState::has(std::string_view tensor) const {
  return checkpoint_ != nullptr && checkpoint_->has_tensor(part_of_loader(name_, tensor));
}

std::string SavedState::checked(std::string_view tensor, DType dtype, std::int64_t columns) const {
  std::string name = part_of_loader(name_, tensor);
  require(checkpoint_->has_tensor(name), tensor, "is missing");
  const TensorInfo& info = checkpoint_->tensor(name);
  const std::vector<std::int64_t> row_shape(columns > 0 ? 1 : 0, columns);
  const std::string rows = columns > 0 ? fmt::format("[rows, {}]", columns) : "[rows]";
  require(info.dtype == dtype && std::ranges::equal(std::span(info.shape).subspan(1), row_shape), tensor,
          fmt::format("is not {} {}", to_string(dtype), rows));
  return name;
}

std::vector<std::int64_t> SavedState::numbers(std::string_view tensor, std::int64_t columns) const {
  if (checkpoint_ != nullptr) return checkpoint_->read<std::int64_t>(checked(tensor, DType::int64, columns));
  using Limits = std::numeric_limits<std::int64_t>;
  const JsonObject tensors = object().object(kTensors);
  std::vector<std::int64_t> numbers;
  for (const Json& row : tensors.array(tensor)) {
    if (!row.is_array() || static_cast<std::int64_t>(row.size()) != columns)
      tensors.fail(tensor, fmt::format("is not [rows, {}]", columns));
    for (const Json& value : row)
      numbers.push_back(tensors.number_in(value, tensor, Limits::min(), Limits::max()));
  }
  return numbers;
}

const std::string& SavedState::decoded(std::string_view tensor) const {
  const auto known = decoded_.find(tensor);
  if (known != decoded_.end()) return known->second;
  return decoded_.emplace(tensor, from_base64(object().object(kTensors), tensor)).first->second;
}

std::int64_t SavedState::bytes(std::string_view tensor) const {
  if (checkpoint_ == nullptr) return std::ssize(decoded(tensor));
  return checkpoint_->tensor(checked(tensor, DType::uint8, 0)).rows();
}

void SavedState::read(std::string_view tensor, std::int64_t first, std::span<std::byte> out) const {
  if (checkpoint_ != nullptr) {
    return checkpoint_->read(part_of_loader(name_, tensor), {.first = first, .count = std::ssize(out)}, out);
  }
  const auto bytes = std::as_bytes(std::span(decoded(tensor)));
  std::copy_n(bytes.begin() + first, out.size(), out.begin());
}

}  // namespace rota::internal
