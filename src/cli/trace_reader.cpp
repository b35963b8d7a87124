#include "cli/trace_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "cli/trace_record.hpp"
#include "rota/error.hpp"

namespace rota::tracing {
namespace {

Mark to_mark(const Json& value) {
  const std::int64_t mark = to_integer(value, "mask");
  if (mark < 0 || mark > 2) throw Damage(fmt::format("a mask of {}; it may be 0, 1 or 2", mark));
  return static_cast<Mark>(mark);
}

TraceStart to_start(const Json& record) {
  require_start(record);
  const Json& resumed = member(record, "resumed_from");
  if (!resumed.is_object()) throw Damage("\"resumed_from\" is of another type");
  TraceStart start;
  start.phase = natural(record, "phase");
  start.world = {.rank = small(record, "rank"), .size = small(record, "world")};
  start.workers = small(record, "workers");
  start.samples = natural(record, "samples");
  start.batch = natural(record, "batch");
  start.tail = parse_tail(text(record, "tail"));
  if (record.contains("split")) start.split = parse_split(text(record, "split"));
  start.resumed_from = {natural(resumed, "epoch"), natural(resumed, "consumed")};
  if (start.world.rank >= start.world.size) throw Damage("\"rank\" is not below \"world\"");
  if (start.batch < 1) throw Damage("\"batch\" is 0");
  return start;
}

// Those that the record tells, or else an equal share of them.
void to_slots(const Json& record, const TraceStart& start, TraceBatch& batch) {
  if (start.split == Split::by_sample) {
    batch.slots.resize(batch.ids.size());
    std::iota(batch.slots.begin(), batch.slots.end(), share(batch.n, start.world.rank, start.world.size));
    return;
  }
  read_list(record, "slots", batch.slots);
  if (batch.slots.size() == batch.ids.size()) return;
  throw Damage(fmt::format("{} ids and {} slots", batch.ids.size(), batch.slots.size()));
}

void to_batch(const Json& record, const TraceStart& start, TraceBatch& batch) {
  batch.place = {natural(record, "epoch"), natural(record, "first")};
  batch.n = natural(record, "n");
  read_list(record, "ids", batch.ids);
  read_digests(record, batch.digests);
  batch.marks.clear();
  if (record.contains("mask")) {
    for (const Json& mark : list(record, "mask")) batch.marks.push_back(to_mark(mark));
  } else {
    batch.marks.assign(batch.ids.size(), Mark::real);
  }
  if (batch.digests.size() != batch.ids.size() || batch.marks.size() != batch.ids.size()) {
    throw Damage(fmt::format("{} ids, {} digests and {} masks", batch.ids.size(), batch.digests.size(),
                             batch.marks.size()));
  }
  to_slots(record, start, batch);
}

double seconds(const Json& record, const char* name) {
  const auto found = record.find(name);
  return found != record.end() && found->is_number() ? found->get<double>() : 0;
}

TraceEnd to_end(const Json& record) {
  return {.steps = natural(record, "steps"),
          .samples = natural(record, "samples"),
          .restore_seconds = seconds(record, "restore_seconds"),
          .save_seconds = seconds(record, "save_seconds")};
}

}  // namespace

std::vector<std::filesystem::path> trace_files(const std::filesystem::path& dir) {
  if (!std::filesystem::is_directory(dir)) {
    throw Error(ErrorCode::not_found,
                fmt::format("read traces in {}: there is no such directory", dir.string()));
  }
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(dir, error), last; !error && entry != last;
       entry.increment(error)) {
    if (entry->path().extension() == ".jsonl") files.push_back(entry->path());
  }
  if (error) {
    throw Error(ErrorCode::io, fmt::format("read traces in {}: {}", dir.string(), error.message()));
  }
  std::ranges::sort(files);
  return files;
}

std::int64_t phase_in_name(const std::filesystem::path& path) {
  constexpr std::string_view kPrefix = "phase-";
  const std::string name = path.filename().string();
  std::int64_t phase = -1;
  if (!name.starts_with(kPrefix)) return phase;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), phase);
  return error == std::errc() && std::string_view(end).starts_with("-rank-") ? phase : -1;
}

std::int64_t highest_phase(const std::filesystem::path& dir) {
  std::int64_t highest = -1;
  if (!std::filesystem::exists(dir)) return highest;
  for (const auto& path : trace_files(dir)) {
    highest = std::max(highest, phase_in_name(path));
    TraceFile file(path);
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
      const Json record = parse_record(lines_.line());
      const std::string event = event_of(record);
      if (event == "start") throw Damage("a second start record");
      if (event == "batch") {
        require_owner(record, start_->phase, start_->world.rank);
        to_batch(record, *start_, batch);
        return Next::batch;
      }
      if (event == "end") end_ = to_end(record);
    } catch (const std::exception& error) {
      damage_ = lines_.damaged(error.what());
      return Next::damaged;
    }
  }
  return Next::end;
}

}  // namespace rota::tracing
