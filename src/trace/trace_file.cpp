#include "trace/trace_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "rota/error.hpp"
#include "rota/types.hpp"
#include "storage/descriptor.hpp"

namespace rota::trace {
namespace {

using nlohmann::json;

// A record that is not what the format says.
class Damage : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

json parse_record(const std::string& line) {
  json record = json::parse(line, nullptr, false);
  if (!record.is_object()) throw Damage("not a JSON object");
  return record;
}

const json& member(const json& record, const char* name) {
  const auto found = record.find(name);
  if (found == record.end()) throw Damage(fmt::format("there is no \"{}\"", name));
  return *found;
}

std::string text(const json& record, const char* name) {
  const json& value = member(record, name);
  if (!value.is_string()) throw Damage(fmt::format("\"{}\" is not a text", name));
  return value.get<std::string>();
}

const json& list(const json& record, const char* name) {
  const json& value = member(record, name);
  if (!value.is_array()) throw Damage(fmt::format("\"{}\" is not a list", name));
  return value;
}

std::int64_t to_natural(const json& value, const char* name, std::int64_t most = kMaxTraced) {
  const bool is_natural =
      value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
  if (!is_natural) {
    throw Damage(fmt::format("\"{}\" is {}, and not from 0 to {}", name,
                             value.is_number() ? value.dump() : std::string(value.type_name()), most));
  }
  return value.get<std::int64_t>();
}

std::int64_t natural(const json& record, const char* name) { return to_natural(member(record, name), name); }

int small(const json& record, const char* name) {
  return static_cast<int>(to_natural(member(record, name), name, std::numeric_limits<int>::max()));
}

void read_digests(const json& record, std::vector<std::uint64_t>& out) {
  out.clear();
  for (const json& value : list(record, "digests")) {
    if (!value.is_string()) throw Damage("a digest is not a text");
    const auto digits = value.get<std::string>();
    std::uint64_t digest = 0;
    const char* const last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, digest, 16);
    if (digits.size() != 16 || error != std::errc() || end != last)
      throw Damage("a digest is not 16 hexadecimal digits");
    out.push_back(digest);
  }
}

Position to_position(const json& record, bool is_stream) {
  return {.epoch = natural(record, "epoch"),
          .consumed = is_stream ? 0 : natural(record, "consumed"),
          .step = natural(record, "step")};
}

TraceStart to_start(const json& record) {
  if (text(record, "event") != "start") throw Damage("the first record is not the start record");
  const std::int64_t version = natural(record, "v");
  if (version != 1) throw Damage(fmt::format("trace version {}; this program reads version 1", version));
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
    std::int64_t sum = 0;
    for (const json& samples : list(record, "samples")) {
      start.samples.push_back(to_natural(samples, "samples"));
      if ((sum += start.samples.back()) > kMaxTraced) throw Damage("\"samples\" are too many");
    }
    if (start.samples.empty()) throw Damage("it has no dataset");
  }
  start.from = to_position(record, start.is_stream());
  start.world.validate();
  if (start.batch < 1) throw Damage("\"batch\" is 0");
  return start;
}

void require_size(const char* name, std::size_t size, std::size_t expected) {
  if (size != expected) throw Damage(fmt::format("{} digests and {} {}", expected, size, name));
}

void read_naturals(const json& record, const char* name, std::vector<std::int64_t>& out, std::size_t size) {
  out.clear();
  for (const json& value : list(record, name)) out.push_back(to_natural(value, name));
  require_size(name, out.size(), size);
}

// The list of this name, or `otherwise` for each sample.
void read_or(const json& record, const char* name, std::int64_t otherwise, std::vector<std::int64_t>& out,
             std::size_t size) {
  if (record.contains(name)) return read_naturals(record, name, out, size);
  out.assign(size, otherwise);
}

void read_mask(const json& record, std::vector<SlotKind>& out, std::size_t size) {
  std::vector<std::int64_t> kinds;
  read_or(record, "mask", 0, kinds, size);
  out.clear();
  for (const std::int64_t kind : kinds) {
    if (kind > 2) throw Damage(fmt::format("a mask of {}; it may be 0, 1 or 2", kind));
    out.push_back(static_cast<SlotKind>(kind));
  }
}

void read_samples(const json& record, const TraceStart& start, TraceBatch& batch) {
  batch.n = natural(record, "n");
  read_naturals(record, "ids", batch.ids, batch.size());
  read_mask(record, batch.kinds, batch.size());
  read_or(record, "epochs", batch.start.epoch, batch.epochs, batch.size());
  read_or(record, "datasets", 0, batch.datasets, batch.size());
  if (start.split == Split::by_sample) {  // an equal share
    batch.slots.resize(batch.size());
    std::iota(batch.slots.begin(), batch.slots.end(), share(batch.n, start.world.rank, start.world.size));
  } else {
    read_naturals(record, "slots", batch.slots, batch.size());
  }
}

void read_stream(const json& record, TraceBatch& batch) {
  batch.stream_ids.clear();
  for (const json& id : list(record, "ids"))
    batch.stream_ids.push_back(parse_stream_id(id.get<std::string>()));
  require_size("ids", batch.stream_ids.size(), batch.size());
  read_naturals(record, "positions", batch.positions, batch.size());
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

TraceFile::TraceFile(const std::filesystem::path& path) : path_(path) {
  std::error_code error;
  const bool is_regular = std::filesystem::is_regular_file(path, error);  // to open a pipe would wait
  if (error) throw internal::system_error("open trace file", path.native(), error.value());
  if (!is_regular)
    throw Error(ErrorCode::io, fmt::format("open trace file {}: it is no regular file", path.string()));
  errno = 0;
  stream_.open(path);
  if (!stream_) throw internal::system_error("open trace file", path.native(), errno == 0 ? EIO : errno);
  if (!read_line()) return;
  try {
    start_ = to_start(parse_record(line_));
  } catch (const std::exception& damage) {
    damage_ = fmt::format("{}:{}: {}", path_.filename().string(), line_number_, damage.what());
  }
}

TraceFile::Next TraceFile::next(TraceBatch& batch) {
  damage_.clear();
  while (read_line()) {
    try {
      if (take(batch)) return Next::batch;
    } catch (const std::exception& damage) {
      damage_ = fmt::format("{}:{}: {}", path_.filename().string(), line_number_, damage.what());
      return Next::damaged;
    }
  }
  return Next::end;
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
  const json record = parse_record(line_);
  const std::string event = text(record, "event");
  if (event == "start") throw Damage("a second start record");
  if (event != "batch" && event != "end") return false;
  const std::int64_t phase = natural(record, "phase");
  const std::int64_t rank = natural(record, "rank");
  if (phase != start_->phase || rank != start_->world.rank)
    throw Damage(fmt::format("a record of phase {}, rank {}, in the file of another", phase, rank));
  if (end_) throw Damage("a record behind the end record");
  const Position at = to_position(record, start_->is_stream());
  if (event == "end") {
    take_end({.at = at, .batches = natural(record, "batches"), .slots = natural(record, "slots")});
    return false;
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

void TraceFile::take_end(const TraceEnd& end) {
  end_ = end;
  const std::int64_t last = read_.batches == 0 ? start_->from.step : read_.at.step;
  if (end.at.step != last)
    throw Damage(fmt::format("an end at step {}, where its batches lead to {}", end.at.step, last));
  if (end.batches == read_.batches && end.slots == read_.slots) return;
  throw Damage(fmt::format("{} batches of {} slots, where the end record counts {} of {}", read_.batches,
                           read_.slots, end.batches, end.slots));
}

}  // namespace rota::trace
