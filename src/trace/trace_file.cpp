#include "trace/trace_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <tuple>

#include "core/failure.hpp"
#include "core/json.hpp"
#include "files/descriptor.hpp"
#include "files/file.hpp"
#include "rota/fingerprint.hpp"

namespace rota::trace {
namespace {

using internal::Json;
using internal::JsonObject;

// A record that is not what the format says.
class Damage : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

JsonObject object_of(const Json& record) {
  if (!record.is_object()) throw Damage("not a JSON object");
  return {record, [](std::string_view member, std::string_view why) {
            throw Damage(fmt::format("\"{}\" {}", member, why));
          }};
}

std::int64_t natural(const JsonObject& record, std::string_view name) {
  return record.number(name, kMaxTraced);
}

int small(const JsonObject& record, std::string_view name) {
  return static_cast<int>(record.number(name, std::numeric_limits<int>::max()));
}

std::uint64_t to_digest(const Json& value) {
  std::string_view digits;
  if (value.is_string()) digits = value.get_ref<const std::string&>();
  std::uint64_t digest = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, digest, 16);
  if (digits.size() != 16 || error != std::errc() || end != last)
    throw Damage("a digest is not a text of 16 hexadecimal digits");
  return digest;
}

Position to_position(const JsonObject& record, bool is_stream) {
  return {.epoch = natural(record, "epoch"),
          .consumed = is_stream ? 0 : natural(record, "consumed"),
          .step = natural(record, "step")};
}

std::vector<TraceName> to_names(const JsonObject& record, std::string_view ids, std::string_view epochs) {
  const auto all_ids = record.numbers(ids, 0, kMaxTraced);
  const auto all_epochs = record.numbers(epochs, 0, kMaxTraced);
  if (all_ids.size() != all_epochs.size())
    throw Damage(fmt::format("{} {} and {} {}", all_ids.size(), ids, all_epochs.size(), epochs));
  std::vector<TraceName> names;
  for (std::size_t i = 0; i < all_ids.size(); ++i) names.push_back({all_epochs[i], all_ids[i]});
  return names;
}

std::vector<std::pair<std::int64_t, std::int64_t>> to_batches(const JsonObject& record) {
  std::vector<std::pair<std::int64_t, std::int64_t>> batches;
  for (const Json& pair : record.array("batches")) {
    if (!pair.is_array() || pair.size() != 2) throw Damage("\"batches\" are no pairs of a step and a size");
    batches.emplace_back(record.number_in(pair[0], "batches", 0, kMaxTraced),
                         record.number_in(pair[1], "batches", 1, kMaxTraced));
  }
  if (!std::ranges::is_sorted(batches)) throw Damage("\"batches\" are not in order");
  return batches;
}

TraceStart to_start(const JsonObject& record) {
  if (record.text("event") != "start") throw Damage("the first record is not the start record");
  const std::int64_t version = natural(record, "v");
  if (version != 1) throw Damage(fmt::format("trace version {}; this program reads version 1", version));
  TraceStart start{.phase = natural(record, "phase"),
                   .world = {.rank = small(record, "rank"), .size = small(record, "world")},
                   .workers = small(record, "workers"),
                   .batch = natural(record, "batch"),
                   .split = parse_split(record.text("split")),
                   .fingerprint = record.text("fingerprint")};
  if (record.has("shards")) {
    start.shards = natural(record, "shards");
  } else {
    start.tail = parse_tail(record.text("tail"));
    start.samples = record.numbers("samples", 0, kMaxTraced);
    std::int64_t rest = kMaxTraced;
    for (const std::int64_t samples : start.samples) {
      if ((rest -= samples) < 0) throw Damage("\"samples\" are too many");
    }
    if (start.samples.empty()) throw Damage("it has no dataset");
    start.is_by_hand = record.has("settle") && record.text("settle") == "by_hand";
    start.changes_by_epoch = record.has("content") && record.text("content") == "by_epoch";
    if (record.has("names")) {
      for (const Json& name : record.array("names"))
        start.names.push_back(name.is_string() ? name.get<std::string>() : "");
      if (start.names.size() != start.samples.size()) throw Damage("it has other names than datasets");
    }
    if (record.has("plan")) start.plan = record.text("plan");
    if (record.has("tokens_per_sample")) {
      for (const Json& mean : record.array("tokens_per_sample"))
        start.tokens.push_back(mean.is_number() ? mean.get<double>() : 0);
    }
    if (record.has("weights")) {
      FingerprintBuilder course;
      for (const std::int64_t weight : record.numbers("weights", 0, kMaxTraced)) course.add(weight);
      start.course = course.add(start.plan).finish().low | 1;
    }
    if (record.has("batches")) start.batches = to_batches(record);
    if (record.has("open")) start.open = to_names(record, "open", "open_epochs");
  }
  start.from = to_position(record, start.is_stream());
  start.world.validate();
  if (start.batch < 1) throw Damage("\"batch\" is 0");
  return start;
}

// Hands `take` the slots, each with its value of this list.
template <typename Take>
void read_list(const JsonObject& record, std::string_view name, std::vector<TraceSlot>& slots, Take take) {
  const Json& values = record.array(name);
  if (values.size() != slots.size())
    throw Damage(fmt::format("{} digests and {} {}", slots.size(), values.size(), name));
  auto slot = slots.begin();
  for (const Json& value : values) take(*slot++, value);
}

void read_naturals(const JsonObject& record, std::string_view name, std::vector<TraceSlot>& slots,
                   std::int64_t TraceSlot::*member) {
  read_list(record, name, slots, [&](TraceSlot& slot, const Json& value) {
    slot.*member = record.number_in(value, name, 0, kMaxTraced);
  });
}

void read_samples(const JsonObject& record, const TraceStart& start, TraceBatch& batch) {
  batch.n = natural(record, "n");
  read_naturals(record, "ids", batch.slots, &TraceSlot::id);
  if (record.has("mask")) {
    read_list(record, "mask", batch.slots, [&](TraceSlot& slot, const Json& value) {
      slot.kind = static_cast<SlotKind>(record.number_in(value, "mask", 0, 2));
    });
  }
  if (record.has("epochs")) read_naturals(record, "epochs", batch.slots, &TraceSlot::epoch);
  if (record.has("datasets")) read_naturals(record, "datasets", batch.slots, &TraceSlot::set);
  if (start.split != Split::by_sample) return read_naturals(record, "slots", batch.slots, &TraceSlot::slot);
  std::int64_t next = share(batch.n, start.world.rank, start.world.size);  // an equal share
  for (TraceSlot& slot : batch.slots) slot.slot = next++;
}

void read_stream(const JsonObject& record, TraceBatch& batch) {
  read_list(record, "ids", batch.slots, [](TraceSlot& slot, const Json& value) {
    const StreamId id = parse_stream_id(value.get_ref<const std::string&>());
    std::tie(slot.set, slot.id, slot.output) = std::tuple(id.shard.value, id.input, id.output);
  });
  read_naturals(record, "positions", batch.slots, &TraceSlot::slot);
  batch.n = 0;
}

// What is no number, or greater than any, counts as `other`: no sample is judged by times.
double seconds(const JsonObject& record, std::string_view name, double other = 0) {
  if (!record.has(name) || !record.at(name).is_number()) return other;
  const auto value = record.at(name).get<double>();
  return std::abs(value) <= static_cast<double>(kMaxTraced) ? value : other;
}

void read_times(const JsonObject& record, TraceBatch& batch) {
  batch.at = seconds(record, "at", -1);
  batch.times = {.wait_seconds = seconds(record, "wait"),
                 .read_seconds = seconds(record, "read"),
                 .transform_seconds = seconds(record, "transform"),
                 .slowest_seconds = seconds(record, "slowest_seconds")};
  if (record.has("slowest") && record.at("slowest").is_string()) batch.times.slowest = record.text("slowest");
  batch.costs = {.global = seconds(record, "cost_of_all"),
                 .rank = seconds(record, "cost"),
                 .most = seconds(record, "most_cost"),
                 .most_by_sample = seconds(record, "most_cost_by_sample")};
}

std::int64_t phase_in_name(const std::filesystem::path& path) {
  constexpr std::string_view kPrefix = "phase-";
  const std::string name = path.filename().string();
  std::int64_t phase = -1;
  if (!name.starts_with(kPrefix)) return phase;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), phase);
  const bool is_name = error == std::errc() && std::string_view(end).starts_with("-rank-");
  return is_name && phase < kMaxTraced ? phase : -1;
}

}  // namespace

std::int64_t TraceStart::batch_at(std::int64_t step) const noexcept {
  const auto next =
      std::ranges::upper_bound(batches, step, {}, &std::pair<std::int64_t, std::int64_t>::first);
  return next == batches.begin() ? batch : std::prev(next)->second;
}

Position TraceStart::settled(const Position& at) const noexcept {
  const std::int64_t n = epoch_samples();
  if (is_stream() || n == 0) return at;
  if (tail == Tail::carry) return {at.epoch + at.consumed / n, at.consumed % n, at.step};
  // The batch before has left what is too little for another of its size.
  const bool is_dropped = tail == Tail::drop && n - at.consumed < batch_at(at.step - 1);
  return slots_at(at) == 0 || is_dropped ? Position{at.epoch + 1, 0, at.step} : at;
}

bool TraceStart::follows(const Position& start, const Position& at) const noexcept {
  const bool is_next_epoch = is_stream() && start == Position{at.epoch + 1, 0, at.step};
  const bool has_too_little = !is_stream() && settled(start) == at;  // of a stage whose batches are larger
  return start == at || start == settled(at) || is_next_epoch || has_too_little;
}

std::int64_t TraceStart::slots_at(const Position& at) const noexcept {
  const std::int64_t left = epoch_samples() - at.consumed;
  const std::int64_t size = batch_at(at.step);
  if (left <= 0 || (tail == Tail::drop && left < size)) return 0;
  return tail == Tail::partial ? std::min(size, left) : size;
}

bool TraceStart::is_same_run(const TraceStart& other) const noexcept {
  if (!names.empty() && !other.names.empty()) {
    const std::size_t both = std::min(names.size(), other.names.size());
    return std::ranges::equal(std::span(names).first(both), std::span(other.names).first(both)) &&
           std::ranges::equal(std::span(samples).first(both), std::span(other.samples).first(both));
  }
  return std::tie(samples, shards, fingerprint) == std::tie(other.samples, other.shards, other.fingerprint);
}

bool TraceStart::is_same_phase(const TraceStart& other) const noexcept {
  return is_same_run(other) && samples == other.samples &&
         std::tie(world.size, batch, batches, tail, split, from, is_by_hand) ==
             std::tie(other.world.size, other.batch, other.batches, other.tail, other.split, other.from,
                      other.is_by_hand);
}

std::int64_t set_of(const TraceStart& start, const TraceSlot& slot) {
  if (start.is_stream()) return slot.set;
  std::int64_t set = 0;
  for (std::int64_t end = start.samples[0]; end <= slot.id && set + 1 < std::ssize(start.samples);)
    end += start.samples[static_cast<std::size_t>(++set)];
  return set;
}

std::int64_t epoch_of(const TraceStart& start, const Position& at, const TraceSlot& slot) {
  if (start.is_mixture()) return slot.epoch;
  const bool is_carried = !start.is_stream() && start.tail == Tail::carry;
  return at.epoch + (is_carried ? (at.consumed + slot.slot) / start.epoch_samples() : 0);
}

bool is_share(const TraceStart& start, int rank, std::int64_t n, const std::vector<TraceSlot>& slots) {
  const std::int64_t world = start.world.size;
  if (start.split == Split::by_sample)
    return std::ssize(slots) == share(n, rank + 1, world) - share(n, rank, world);
  const auto is_its = [&](const TraceSlot& slot) { return slot.slot % world == rank; };
  return start.split != Split::interleaved || std::ranges::all_of(slots, is_its);
}

std::string name_of(const TraceStart& start, const TraceSlot& slot) {
  return start.is_stream() ? to_string(StreamId{{slot.set}, slot.id, slot.output})
                           : fmt::format("sample {}", slot.id);
}

std::string trace_file_name(std::int64_t phase, int rank) {
  return fmt::format("phase-{:06}-rank-{:05}.jsonl", phase, rank);
}

std::vector<std::filesystem::path> trace_files(const std::filesystem::path& dir) {
  std::vector<std::filesystem::path> files;
  for (const std::string& name : internal::list_names(internal::posix_file_system(), dir)) {
    if (name.ends_with(".jsonl")) files.push_back(dir / name);
  }
  std::ranges::sort(files);
  return files;
}

std::int64_t highest_phase(const std::filesystem::path& dir) {
  std::int64_t highest = -1;
  for (const auto& path : trace_files(dir)) highest = std::max(highest, phase_in_name(path));
  return highest;
}

TraceFile::TraceFile(const std::filesystem::path& path) : path_(path) {
  std::error_code error;
  const bool is_regular = std::filesystem::is_regular_file(path, error);  // to open a pipe would wait
  if (error) throw internal::system_error("open trace file", path.native(), error.value());
  if (!is_regular)
    throw internal::failure(ErrorCode::io, "open trace file {}: it is no regular file", path.string());
  errno = 0;
  stream_.open(path);
  if (!stream_) throw internal::system_error("open trace file", path.native(), errno == 0 ? EIO : errno);
  if (!read_line()) return;
  try {
    const Json record = Json::parse(line_, nullptr, false);
    start_ = to_start(object_of(record));
  } catch (const std::exception& damage) {
    add_damage(damage);
  }
}

void TraceFile::add_damage(const std::exception& damage) {
  damage_.push_back(fmt::format("{}:{}: {}", path_.filename().string(), line_number_, damage.what()));
}

bool TraceFile::next(TraceBatch& batch) {
  damage_.clear();
  fates_.clear();
  while (read_line()) {
    try {
      if (take(batch)) return true;
    } catch (const std::exception& damage) {
      add_damage(damage);
    }
  }
  return false;
}

bool TraceFile::read_line() {
  if (!std::getline(stream_, line_) || stream_.eof()) {  // at eof: the line has no end
    if (stream_.bad()) throw internal::system_error("read trace file", path_.native(), EIO);
    return false;
  }
  ++line_number_;
  return true;
}

bool TraceFile::take(TraceBatch& batch) {
  const Json parsed = Json::parse(line_, nullptr, false);
  const JsonObject record = object_of(parsed);
  const std::string& event = record.text("event");
  if (event == "start") throw Damage("a second start record");
  const bool is_fate = !start_->is_stream() && (event == "settled" || event == "dropped" || event == "again");
  if (event != "batch" && event != "end" && !is_fate) return false;
  const std::int64_t phase = natural(record, "phase");
  const std::int64_t rank = natural(record, "rank");
  if (phase != start_->phase || rank != start_->world.rank)
    throw Damage(fmt::format("a record of phase {}, rank {}, in the file of another", phase, rank));
  if (end_) throw Damage("a record behind the end record");
  if (event == "settled" || event == "dropped") {
    const auto kind = event == "settled" ? TraceFate::Kind::settled : TraceFate::Kind::dropped;
    fates_.push_back({.kind = kind, .names = to_names(record, "ids", "epochs")});
    return false;
  }
  const Position at = to_position(record, start_->is_stream());
  if (event == "end") {
    end_ = at;
    check_end(natural(record, "batches"), natural(record, "slots"));
    return false;
  }
  TraceBatch read{.start = at, .slots = {}, .times = {}};
  const bool is_left_out = !record.has("digests") && !start_->is_stream() && event == "batch";
  if (is_left_out) read.slots.resize(record.array("ids").size(), {.epoch = at.epoch, .is_left_out = true});
  for (const Json& digest : is_left_out ? Json::array() : record.array("digests"))
    read.slots.push_back({.epoch = at.epoch, .digest = to_digest(digest)});
  if (start_->is_stream()) {
    read_stream(record, read);
  } else {
    read_samples(record, *start_, read);
  }
  if (is_left_out && std::ranges::count(read.slots, SlotKind::sample, &TraceSlot::kind) > 0)
    throw Damage("it has samples and no digests");
  if (event == "again") {
    fates_.push_back({.kind = TraceFate::Kind::again, .slots = std::move(read.slots)});
    return false;
  }
  read_times(record, read);
  batch = std::move(read);
  next_step_ = at.step + 1;
  ++batches_;
  slots_ += std::ssize(batch.slots);
  return true;
}

void TraceFile::check_end(std::int64_t batches, std::int64_t slots) const {
  const std::int64_t step = batches_ == 0 ? start_->from.step : next_step_;
  if (end_->step != step)
    throw Damage(fmt::format("an end at step {}, where its batches lead to {}", end_->step, step));
  if (batches == batches_ && slots == slots_) return;
  throw Damage(fmt::format("{} batches of {} slots, where the end record counts {} of {}", batches_, slots_,
                           batches, slots));
}

}  // namespace rota::trace
