#include "core/state_text.hpp"

#include <fmt/format.h>

#include <cereal/external/base64.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <set>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "rota/fingerprint.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kNewest = 3;
constexpr std::size_t kDeepest = 8;

}  // namespace

Json parse_json(std::string_view text, const std::function<void(std::string_view why)>& refuse) {
  using Event = Json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int /*depth*/, Event event, const Json& parsed) {
    if (event == Event::object_start || event == Event::array_start) keys.emplace_back();
    if (event == Event::object_end || event == Event::array_end) keys.pop_back();
    if (keys.size() > kDeepest) refuse(fmt::format("its JSON is nested deeper than {} levels", kDeepest));
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second)
      refuse(fmt::format("its key \"{}\" comes twice", parsed.get<std::string>()));
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& error) {
    refuse(fmt::format("it is no JSON ({})", error.what()));
    std::terminate();
  }
}

std::string digest_of(Json state) {
  state.erase("digest");
  return to_string(FingerprintBuilder().add(state.dump()).finish());
}

OrderedJson new_state(std::string_view kind) { return {{"rota_state", 1}, {"kind", kind}}; }

std::string sealed(OrderedJson state) {
  state["digest"] = digest_of(Json(state));
  return state.dump();
}

SealedBut::SealedBut(OrderedJson state, std::string_view key) {
  const std::string nothing = "null";
  const auto split = [&](const std::string& text, const std::string& where) {
    const std::size_t at = text.find(where + nothing) + where.size();
    return Around{text.substr(0, at), text.substr(at + nothing.size())};
  };
  state[std::string(key)] = nullptr;
  state.erase("digest");
  const std::string named = fmt::format("\"{}\":", key);
  digested_ = split(Json(state).dump(), named);
  written_ = split(state.dump(), named);
  written_.behind.pop_back();  // the brace
}

std::string SealedBut::sealed(const OrderedJson& value) const {
  const std::string digested = digested_.before + Json(value).dump() + digested_.behind;
  return fmt::format(R"({}{}{},"digest":"{}"}})", written_.before, value.dump(), written_.behind,
                     to_string(FingerprintBuilder().add(digested).finish()));
}

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

StateText::StateText(std::string task, std::string_view kind, std::string_view text)
    : task_(std::move(task)), json_(parse_json(text, [this](std::string_view why) { fail(why); })) {
  const JsonObject head = object();
  if (const std::int64_t version = head.number("rota_state"); version < 1 || version > kNewest) {
    fail(version > kNewest ? ErrorCode::unsupported : ErrorCode::corrupt,
         fmt::format("its state is of version {}, and this rota reads up to {}", version, kNewest));
  }
  if (kind.empty() || head.text("kind") == kind) return;
  fail(ErrorCode::mismatch,
       fmt::format(
           "it has the state of a {} there, and this is a {}; restore each state into a loader of its kind",
           head.text("kind"), kind));
}

JsonObject StateText::object() const {
  return {json_, [this](std::string_view member, std::string_view why) {
            fail(member.empty() ? fmt::format("its state {}", why)
                                : fmt::format("\"{}\" of its state {}", member, why));
          }};
}

void StateText::require_digest() const {
  if (object().text("digest") == digest_of(json_)) return;
  fail("it was changed: its digest is not that of what it says");
}

void StateText::fail(ErrorCode code, std::string_view why) const {
  constexpr std::size_t kMostSaid = 1000;
  throw failure(code, "{}: {}{}", task_, why.substr(0, kMostSaid), why.size() > kMostSaid ? " ..." : "");
}

void StateText::fail(std::string_view why) const {
  fail(ErrorCode::corrupt, fmt::format("{}; take another one", why));
}

}  // namespace rota::internal
