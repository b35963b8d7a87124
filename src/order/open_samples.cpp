#include "order/open_samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

namespace rota::internal {
namespace {

constexpr int kDigit = 7;  // bits of a number that a byte has; its highest bit says that more follow

std::int64_t samples_of(const Run& run, std::size_t dataset) {
  return RunAccess::order(run)->orders[dataset].plan().samples();
}

void put_number(i128 number, std::string& bytes) {
  for (; number >> kDigit != 0; number >>= kDigit) bytes.push_back(static_cast<char>(0x80 | (number & 0x7F)));
  bytes.push_back(static_cast<char>(number));
}

// Takes one off the front; nothing where there is none, or one that no sum of two may have.
std::optional<i128> take_number(std::string_view& bytes) {
  i128 number = 0;
  for (int bits = 0; !bytes.empty() && bits < 126; bits += kDigit) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    number |= i128{byte & 0x7FU} << bits;
    if ((byte & 0x80U) == 0) return byte == 0 && bits > 0 ? std::nullopt : std::optional(number);
  }
  return std::nullopt;
}

// Of each dataset how many there are, and their ordinals, each as its distance from the one before.
std::string packed(const Run& run) {
  std::string bytes;
  OpenTurns open(RunAccess::open(run).begin(), RunAccess::open(run).end());
  std::ranges::sort(open);
  auto one = open.begin();
  for (std::size_t d = 0; d < RunAccess::order(run)->orders.size(); ++d) {
    const auto end = std::ranges::upper_bound(open, static_cast<std::int64_t>(d), {}, &OpenTurn::dataset);
    put_number(end - one, bytes);
    i128 next = 0;
    for (; one != end; ++one) {
      const i128 ordinal = i128{one->epoch} * samples_of(run, d) + one->turn;
      put_number(ordinal - next, bytes);
      next = ordinal + 1;
    }
  }
  return bytes;
}

// False where they are of no such run.
bool unpack(std::string_view bytes, const Run& run, OpenTurns& out) {
  for (std::size_t d = 0; d < RunAccess::order(run)->orders.size(); ++d) {
    const std::int64_t samples = samples_of(run, d);
    i128 next = 0;
    for (auto left = take_number(bytes); left != 0; --*left) {
      const auto number = left && samples > 0 ? take_number(bytes) : std::nullopt;
      if (!number || (next + *number) / samples > kMaxCount) return false;
      next += *number;
      out.push_back({static_cast<std::int64_t>(d), static_cast<std::int64_t>(next / samples),
                     static_cast<std::int64_t>(next % samples)});
      ++next;
    }
  }
  return bytes.empty();
}

// All of them, in order, none twice.
bool can_be_open(const OpenTurns& open, const Run& run) {
  const auto datasets = std::ssize(RunAccess::order(run)->orders);
  return std::ranges::is_sorted(open, std::ranges::less_equal()) &&
         std::ranges::all_of(open, [&](const OpenTurn& one) {
           return one.dataset >= 0 && one.dataset < datasets && one.epoch >= 0 && one.turn >= 0 &&
                  one.turn < samples_of(run, static_cast<std::size_t>(one.dataset)) && is_before(one, run);
         });
}

}  // namespace

bool is_before(const OpenTurn& one, const Run& run) {
  const auto d = static_cast<std::size_t>(one.dataset);
  const auto* const mixed = std::get_if<MixtureSteps>(&RunAccess::steps(run));
  const Position at = mixed != nullptr ? mixed->place(d, run.position()) : run.position();
  return std::pair(one.epoch, one.turn) < std::pair(at.epoch, at.consumed);
}

void refuse_part(const StateText& saved) {
  if (!saved.object().has(kPart)) return;
  const JsonObject part = saved.object().object(kPart);
  saved.fail(ErrorCode::mismatch,
             fmt::format("it is the part of rank {} of {}, and others may have samples that are open; give "
                         "merge_states those of all ranks, or call the loader's merge before state",
                         part.number("rank"), part.number("size")));
}

void put_open(const Run& run, OrderedJson& state) {
  const bool has_none = RunAccess::open(run).empty();
  state["rota_state"] = has_none ? 1 : 2;
  if (has_none) {
    state.erase(std::string(kOpen));
  } else {
    state[std::string(kOpen)] = to_base64(packed(run));
  }
}

OpenTurns open_in(const JsonObject& state, const Run& run) {
  OpenTurns open;
  if (state.has(kOpen) && state.number("rota_state") < 2)
    state.fail(kOpen, "is of version 2, and it says that it is of version 1");
  if (state.has(kOpen) && !(unpack(from_base64(state, kOpen), run, open) && can_be_open(open, run)))
    state.fail(kOpen, "has samples that cannot be open at its place");
  return open;
}

}  // namespace rota::internal
