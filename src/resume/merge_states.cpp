#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "loader/loader_impl.hpp"
#include "order/open_samples.hpp"
#include "ranks/collectives.hpp"
#include "resume/loader_state.hpp"
#include "rota/resume.hpp"

namespace rota {
namespace internal {
namespace {

constexpr std::string_view kTask = "merge states";

/// What one rank says.
struct Part {
  Run run;  ///< behind all that was handed out, with what is open of this rank
  std::optional<int> rank = {};
  int size = 1;
  Position back = {};
  Drops dropped_before;  ///< the same on all
  Drops dropped = {};
  Json rest;  ///< must be the same on all
};

Part read_part(const std::string& text) {
  const StateText saved(std::string(kTask), kLoaderKind, text);
  saved.require_digest();
  const JsonObject state = saved.object();
  Part part{.run = steps_of(saved), .dropped_before = drops_in(state), .rest = Json::parse(text)};
  RunAccess::set_open(part.run, open_in(state, part.run));
  part.back = part.run.position();
  std::int64_t coming = std::ssize(RunAccess::open(part.run));
  if (state.has(kPart)) {
    const JsonObject own = state.object(kPart);
    part.size = static_cast<int>(own.number("size", std::numeric_limits<int>::max()));
    part.rank = static_cast<int>(own.number("rank", part.size - 1));
    part.back = position_in(own.object("back"));
    coming = own.number("coming");
    const Position at = part.run.position();
    if (part.back.step > at.step ||
        std::pair(part.back.epoch, part.back.consumed) > std::pair(at.epoch, at.consumed))
      own.fail("back", "is behind its place");
    part.dropped = drops_in(own);
  }
  for (const std::string_view key : {kPart, std::string_view("open"), std::string_view("digest"),
                                     std::string_view("rota_state"), std::string_view("skipped")})
    part.rest.erase(std::string(key));
  part.rest["coming"] = coming;
  return part;
}

void require_all(const std::vector<Part>& parts) {
  const auto refuse = [](const std::string& why) {
    throw failure(ErrorCode::invalid_argument, "{}: {}", kTask, why);
  };
  if (parts.empty()) refuse("there are none");
  std::vector<int> ranks;
  int size = 0;
  for (const Part& part : parts) {
    if (!part.rank) continue;
    ranks.push_back(*part.rank);
    size = std::max(size, part.size);
  }
  std::ranges::sort(ranks);
  if (const auto twice = std::ranges::adjacent_find(ranks); twice != ranks.end())
    refuse(fmt::format("two are of rank {}; give one of each", *twice));
  if (size > 0 && size != std::ssize(parts))
    refuse(fmt::format("{} are of a run of {} ranks; give one of each rank", parts.size(), size));
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].rest == parts.front().rest) continue;
    for (const auto& [key, value] : parts.front().rest.items()) {
      const Json other = parts[i].rest.value(key, Json());
      if (other != value)
        throw failure(ErrorCode::mismatch,
                      "{}: \"{}\" is {} in one and {} in another; they must be of one run, taken at "
                      "the same step",
                      kTask, key, value.dump(), other.dump());
    }
    throw failure(ErrorCode::mismatch, "{}: they are of runs that differ", kTask);
  }
}

// No more than a state can have.
void add(const Drops& more, Drops& dropped) {
  for (const auto& [reason, count] : more) dropped[reason] += std::min(count, kMaxCount - dropped[reason]);
}

constexpr std::string_view kMerge = "merge loaders";

// Those of all ranks, in one order.
OpenTurns gather(const Communicator& comm, const OpenTurns& own) {
  std::string all;
  const std::string bytes(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(OpenTurn));
  for (const std::string& of_rank : ranks::all_gather(comm, kMerge, bytes)) all += of_rank;
  OpenTurns turns(all.size() / sizeof(OpenTurn));
  std::ranges::copy(std::as_bytes(std::span(all)), std::as_writable_bytes(std::span(turns)).begin());
  std::ranges::sort(turns);
  return turns;
}

}  // namespace

Drops drops_in(const JsonObject& object) {
  Drops dropped;
  if (!object.has(kDropped)) return dropped;
  const JsonObject counts = object.object(kDropped);
  std::int64_t left = kMaxCount;
  for (const auto& [reason, count] : object.at(kDropped).items())
    left -= dropped[reason] = counts.number(reason, left);
  return dropped;
}

void put_drops(const Drops& dropped, OrderedJson& object) {
  for (const auto& [reason, count] : dropped) object[std::string(kDropped)][reason] = count;
}

std::string own_text(const Run& run, const Settling& settling, const World& world, std::int64_t skipped,
                     const AskContent& ask_content) {
  auto [saved, back, before, since] = settling.as_saved(run, world);
  OrderedJson json = state_of(saved, skipped, world.size);
  if (!back) add(since, before);
  put_drops(before, json);
  if (back) {
    json["rota_state"] = std::max(json["rota_state"].get<int>(), 2);
    OrderedJson& part = json[std::string(kPart)] = {{"rank", world.rank},
                                                    {"size", world.size},
                                                    {"back", json_of(*back)},
                                                    {"coming", std::ssize(settling.coming(run, world))}};
    put_drops(since, part);
  }
  add_content(ask_content(), json);
  return sealed(std::move(json));
}

// What was given up on any rank waits on all of them, in one order. Where others do not come, it stays given
// up.
bool merge(const Communicator& comm, Run& run, Settling& settling, const World& world,
           const std::function<std::string()>& own_state) {
  Ledger& ledger = *settling.ledger();
  std::string part;
  std::int64_t changes = 0;
  comm.together(kMerge, [&] {
    const World place = comm.world();
    if (place.rank != world.rank || place.size != world.size) {
      throw failure(ErrorCode::invalid_argument,
                    "{}: this one is of rank {} of {}, and by the communicator it would be of rank {} of {}",
                    kMerge, world.rank, world.size, place.rank, place.size);
    }
    changes = ledger.changes();
    part = own_state();
  });
  if (world.size == 1) return false;
  std::string whole = whole_state(comm, part, world);
  const auto names = ledger.take_given_up(true);
  try {
    settling.wait_for(gather(comm, world.replica == 0 ? turns_of(run, names) : OpenTurns()));
  } catch (...) {
    ledger.give_back(names);
    throw;
  }
  const bool gives = !settling.give(run, world, false).empty();
  std::string now = own_state();
  if (ledger.changes() == changes)
    settling.keep(std::move(now), std::move(whole));  // else it is not whole any more
  return gives;
}

// Replicas are given what number 0 is given, and know no more.
std::string whole_state(const Communicator& comm, const std::string& part, const World& world) {
  auto parts = ranks::all_gather(comm, kMerge, world.replica == 0 ? part : std::string());
  std::erase(parts, std::string());
  return merge_states(parts);
}

}  // namespace internal

std::string merge_states(std::span<const std::string> states) {
  std::vector<internal::Part> parts;
  for (const std::string& text : states) parts.push_back(internal::read_part(text));
  internal::require_all(parts);
  internal::Part& merged =
      *std::ranges::max_element(parts, {}, [](const internal::Part& part) { return part.back.step; });
  internal::OpenTurns open;
  internal::Drops dropped = parts.front().dropped_before;
  for (const internal::Part& part : parts) {
    const auto own = internal::RunAccess::open(part.run);
    open.insert(open.end(), own.begin(), own.end());
    internal::add(part.dropped, dropped);
  }
  std::ranges::sort(open);
  open.erase(std::unique(open.begin(), open.end()), open.end());  // what comes again is in all
  internal::RunAccess::go_back(merged.run, merged.back);
  std::erase_if(open, [&](const internal::OpenTurn& one) { return !internal::is_before(one, merged.run); });
  internal::RunAccess::set_open(merged.run, std::move(open));
  auto json = internal::OrderedJson::parse(states.front());
  json.erase(std::string(internal::kPart));
  internal::put_drops(dropped, json);
  internal::put_where(merged.run, json);
  return internal::sealed(std::move(json));
}

void Loader::merge(const Communicator& comm) {
  const auto own_state = [&] { return internal::own_state(*this); };
  comm.together(internal::kMerge, [&] { static_cast<void>(impl().settling.require_ledger("merge")); });
  if (internal::merge(comm, impl().delivered, impl().settling, impl().world, own_state)) impl().restart();
}

}  // namespace rota
