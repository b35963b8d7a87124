#include "trace/trace_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "rota/error.hpp"
#include "rota/types.hpp"
#include "trace/record.hpp"

namespace rota::trace {
namespace {

Position to_position(const Json& record, bool is_stream) {
  return {.epoch = natural(record, "epoch"),
          .consumed = is_stream ? 0 : natural(record, "consumed"),
          .step = natural(record, "step")};
}

TraceStart to_start(const Json& record) {
  require_start(record);
  TraceStart start{.phase = natural(record, "phase"),
                   .world = {.rank = small(record, "rank"), .size = small(record, "world")},
                   .workers = small(record, "workers"),
                   .batch = natural(record, "batch"),
                   .split = parse_split(text(record, "split")),
                   .fingerprint = text(record, "fingerprint")};
  if (record.contains("shards")) {
    start.shards = natural(record, "shards");
  } else {
    start.tail = parse_tail(text(record, "tail"));
    read_naturals(record, "samples", start.samples);
    if (start.samples.empty()) throw Damage("it has no dataset");
    std::int64_t sum = 0;
    for (const std::int64_t samples : start.samples) {
      if ((sum += samples) > kMaxTraced) throw Damage("\"samples\" are too many");
    }
  }
  start.from = to_position(record, start.is_stream());
  start.world.validate();
  if (start.batch < 1) throw Damage("\"batch\" is 0");
  return start;
}

// The list of this name, or `otherwise` for each sample.
void read_or(const Json& record, const char* name, std::int64_t otherwise, std::vector<std::int64_t>& out,
             std::size_t size) {
  if (record.contains(name)) {
    read_naturals(record, name, out);
  } else {
    out.assign(size, otherwise);
  }
}

void read_mask(const Json& record, std::vector<SlotKind>& out, std::size_t size) {
  std::vector<std::int64_t> kinds;
  read_or(record, "mask", 0, kinds, size);
  out.clear();
  for (const std::int64_t kind : kinds) {
    if (kind > 2) throw Damage(fmt::format("a mask of {}; it may be 0, 1 or 2", kind));
    out.push_back(static_cast<SlotKind>(kind));
  }
}

void require_size(std::string_view name, std::size_t size, const TraceBatch& batch) {
  if (size != batch.size()) throw Damage(fmt::format("{} digests and {} {}", batch.size(), size, name));
}

void read_samples(const Json& record, const TraceStart& start, TraceBatch& batch) {
  batch.n = natural(record, "n");
  read_list(record, "ids", batch.ids);
  read_mask(record, batch.kinds, batch.size());
  read_or(record, "epochs", batch.start.epoch, batch.epochs, batch.size());
  read_or(record, "datasets", 0, batch.datasets, batch.size());
  if (start.split == Split::by_sample) {  // an equal share
    batch.slots.resize(batch.size());
    std::iota(batch.slots.begin(), batch.slots.end(), share(batch.n, start.world.rank, start.world.size));
  } else {
    read_naturals(record, "slots", batch.slots);
  }
  require_size("ids", batch.ids.size(), batch);
  require_size("mask", batch.kinds.size(), batch);
  require_size("slots", batch.slots.size(), batch);
  require_size("epochs", batch.epochs.size(), batch);
  require_size("datasets", batch.datasets.size(), batch);
}

void read_stream(const Json& record, TraceBatch& batch) {
  batch.stream_ids.clear();
  for (const Json& id : list(record, "ids"))
    batch.stream_ids.push_back(parse_stream_id(id.get<std::string>()));
  read_naturals(record, "positions", batch.positions);
  require_size("ids", batch.stream_ids.size(), batch);
  require_size("positions", batch.positions.size(), batch);
  batch.n = std::ssize(batch.stream_ids);
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

std::string to_string(const Position& place, bool is_stream) {
  if (is_stream) return fmt::format("epoch {}, step {}", place.epoch, place.step);
  return fmt::format("epoch {}, sample {}, step {}", place.epoch, place.consumed, place.step);
}

bool TraceStart::is_same_run(const TraceStart& other) const noexcept {
  return std::tie(samples, shards, fingerprint) == std::tie(other.samples, other.shards, other.fingerprint);
}

bool TraceStart::is_same_phase(const TraceStart& other) const noexcept {
  return is_same_run(other) &&
         std::tie(world.size, batch, tail, split, from) ==
             std::tie(other.world.size, other.batch, other.tail, other.split, other.from);
}

std::string trace_file_name(std::int64_t phase, int rank) {
  return fmt::format("phase-{:06}-rank-{:05}.jsonl", phase, rank);
}

std::vector<std::filesystem::path> trace_files(const std::filesystem::path& dir) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(dir, error), last; !error && entry != last;
       entry.increment(error)) {
    if (entry->path().extension() == ".jsonl") files.push_back(entry->path());
  }
  if (error) throw internal::system_error("read traces in", dir.native(), error.value());
  std::ranges::sort(files);
  return files;
}

std::int64_t highest_phase(const std::filesystem::path& dir) {
  std::int64_t highest = -1;
  for (const auto& path : trace_files(dir)) {
    highest = std::max(highest, phase_in_name(path));
    const TraceFile file(path);
    if (file.start()) highest = std::max(highest, file.start()->phase);
  }
  return highest;
}

TraceFile::TraceFile(const std::filesystem::path& path) : lines_(path) {
  if (!lines_.next()) return;
  try {
    start_ = to_start(parse_record(lines_.line()));
  } catch (const std::exception& error) {
    damage_ = lines_.damaged(error.what());
  }
}

TraceFile::Next TraceFile::next(TraceBatch& batch) {
  damage_.clear();
  while (lines_.next()) {
    try {
      if (take(batch)) return Next::batch;
    } catch (const std::exception& error) {
      damage_ = lines_.damaged(error.what());
      return Next::damaged;
    }
  }
  return Next::end;
}

bool TraceFile::take(TraceBatch& batch) {
  const Json record = parse_record(lines_.line());
  const std::string event = event_of(record);
  if (event == "start") throw Damage("a second start record");
  if (event != "batch" && event != "end") return false;
  require_owner(record, start_->phase, start_->world.rank);
  if (end_) throw Damage("a record behind the end record");
  const Position at = to_position(record, start_->is_stream());
  if (event == "end") {
    const TraceEnd end{.at = at, .batches = natural(record, "batches"), .slots = natural(record, "slots")};
    end_ = end;
    const std::int64_t last = read_.batches == 0 ? start_->from.step : read_.at.step;
    if (at.step != last)
      throw Damage(fmt::format("an end at step {}, where its batches lead to {}", at.step, last));
    if (end.batches == read_.batches && end.slots == read_.slots) return false;
    throw Damage(fmt::format("{} batches of {} slots, where the end record counts {} of {}", read_.batches,
                             read_.slots, end.batches, end.slots));
  }
  batch.start = at;
  read_digests(record, batch.digests);
  if (start_->is_stream()) {
    read_stream(record, batch);
  } else {
    read_samples(record, *start_, batch);
  }
  read_.at.step = at.step + 1;
  ++read_.batches;
  read_.slots += std::ssize(batch.digests);
  return true;
}

}  // namespace rota::trace
