#include "cli/trace_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <string_view>

#include "rota/error.hpp"

namespace rota::tracing {
namespace {

using Json = nlohmann::json;

// Sums of two such numbers do not overflow.
constexpr std::int64_t kMaxCount = std::int64_t{1} << 61;

// A record that is not what the format says. Never leaves this file.
class Damage : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::int64_t to_integer(const Json& value, const char* what) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (!fits) throw Damage(fmt::format("\"{}\" is not an integer", what));
  return value.get<std::int64_t>();
}

const Json& member(const Json& record, const char* name) {
  const auto found = record.find(name);
  if (found == record.end()) throw Damage(fmt::format("there is no \"{}\"", name));
  return *found;
}

std::int64_t natural(const Json& record, const char* name) {
  const std::int64_t value = to_integer(member(record, name), name);
  if (value < 0 || value > kMaxCount) throw Damage(fmt::format("\"{}\" is {}", name, value));
  return value;
}

int small(const Json& record, const char* name) {
  const std::int64_t value = natural(record, name);
  if (value > std::numeric_limits<int>::max()) throw Damage(fmt::format("\"{}\" is {}", name, value));
  return static_cast<int>(value);
}

const Json& list(const Json& record, const char* name) {
  const Json& value = member(record, name);
  if (!value.is_array()) throw Damage(fmt::format("\"{}\" is not a list", name));
  return value;
}

std::uint64_t to_digest(const Json& value) {
  const auto* text = value.get_ptr<const std::string*>();
  std::uint64_t digest = 0;
  if (text != nullptr && text->size() == 16) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + 16, digest, 16);
    if (error == std::errc() && end == text->data() + 16) return digest;
  }
  throw Damage("a digest is not 16 hexadecimal digits");
}

Mark to_mark(const Json& value) {
  const std::int64_t mark = to_integer(value, "mask");
  if (mark < 0 || mark > 2) throw Damage(fmt::format("a mask of {}; it may be 0, 1 or 2", mark));
  return static_cast<Mark>(mark);
}

Json parse(const std::string& line) {
  Json record = Json::parse(line, nullptr, false);
  if (!record.is_object()) throw Damage("not a JSON object");
  return record;
}

std::string event_of(const Json& record) {
  const Json& event = member(record, "event");
  if (!event.is_string()) throw Damage("\"event\" is not a text");
  return event.get<std::string>();
}

TraceStart to_start(const Json& record) {
  if (event_of(record) != "start") throw Damage("the first record is not the start record");
  const std::int64_t version = natural(record, "v");
  if (version != 1) throw Damage(fmt::format("trace version {}; this program reads version 1", version));
  const Json& resumed = member(record, "resumed_from");
  const Json& tail = member(record, "tail");
  if (!resumed.is_object() || !tail.is_string())
    throw Damage("\"resumed_from\" or \"tail\" is of another type");
  TraceStart start;
  start.phase = natural(record, "phase");
  start.world = {.rank = small(record, "rank"), .size = small(record, "world")};
  start.workers = small(record, "workers");
  start.samples = natural(record, "samples");
  start.batch = natural(record, "batch");
  start.tail = parse_tail(tail.get<std::string>());
  if (record.contains("split")) start.split = parse_split(record["split"].get<std::string>());
  start.resumed_from = {natural(resumed, "epoch"), natural(resumed, "consumed")};
  if (start.world.rank >= start.world.size) throw Damage("\"rank\" is not below \"world\"");
  if (start.batch < 1) throw Damage("\"batch\" is 0");
  return start;
}

// Those that the record tells, or else an equal share of them.
void to_slots(const Json& record, const TraceStart& start, TraceBatch& batch) {
  batch.slots.clear();
  if (start.split == Split::by_sample) {
    batch.slots.resize(batch.ids.size());
    std::iota(batch.slots.begin(), batch.slots.end(), share(batch.n, start.world.rank, start.world.size));
    return;
  }
  for (const Json& slot : list(record, "slots")) batch.slots.push_back(to_integer(slot, "slots"));
  if (batch.slots.size() == batch.ids.size()) return;
  throw Damage(fmt::format("{} ids and {} slots", batch.ids.size(), batch.slots.size()));
}

void to_batch(const Json& record, const TraceStart& start, TraceBatch& batch) {
  batch.place = {natural(record, "epoch"), natural(record, "first")};
  batch.n = natural(record, "n");
  batch.ids.clear();
  batch.digests.clear();
  for (const Json& id : list(record, "ids")) batch.ids.push_back(to_integer(id, "ids"));
  for (const Json& digest : list(record, "digests")) batch.digests.push_back(to_digest(digest));
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

TraceFile::TraceFile(const std::filesystem::path& path) : path_(path), stream_(path) {
  if (!stream_)
    throw Error(ErrorCode::io, fmt::format("open trace file {}: it cannot be read", path.string()));
  if (!read_line()) return;
  try {
    start_ = to_start(parse(line_));
  } catch (const std::exception& error) {
    damage_ = fmt::format("{}:{}: {}", path_.filename().string(), line_number_, error.what());
  }
}

TraceFile::Next TraceFile::next(TraceBatch& batch) {
  damage_.clear();
  while (read_line()) {
    try {
      const Json record = parse(line_);
      const std::string event = event_of(record);
      if (event == "start") throw Damage("a second start record");
      if (event == "batch") {
        check_owner(natural(record, "phase"), natural(record, "rank"));
        to_batch(record, *start_, batch);
        return Next::batch;
      }
      if (event == "end") end_ = to_end(record);
    } catch (const std::exception& error) {
      damage_ = fmt::format("{}:{}: {}", path_.filename().string(), line_number_, error.what());
      return Next::damaged;
    }
  }
  return Next::end;
}

bool TraceFile::read_line() {
  if (!std::getline(stream_, line_) || stream_.eof()) return false;  // at eof: the line has no end
  ++line_number_;
  return true;
}

void TraceFile::check_owner(std::int64_t phase, std::int64_t rank) const {
  if (start_ && phase == start_->phase && rank == start_->world.rank) return;
  throw Damage(fmt::format("a batch of phase {}, rank {}, in the file of another", phase, rank));
}

}  // namespace rota::tracing
