#include "cli/trace.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace rota::tracing {
namespace {

struct FreeState {
  void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
};

// `"name":[a,b,...]` with a leading comma.
template <typename Range, typename Format>
void append_list(std::string& line, std::string_view name, const Range& values, Format format) {
  fmt::format_to(std::back_inserter(line), ",\"{}\":[", name);
  bool is_first = true;
  for (const auto& value : values) {
    if (!is_first) line.push_back(',');
    is_first = false;
    format(value);
  }
  line.push_back(']');
}

}  // namespace

std::string to_string(const Place& place) {
  return fmt::format("epoch {}, sample {}", place.epoch, place.consumed);
}

std::string trace_file_name(std::int64_t phase, int rank) {
  return fmt::format("phase-{:06}-rank-{:05}.jsonl", phase, rank);
}

std::uint64_t sample_digest(const Batch& batch, std::int64_t i) {
  const std::size_t fields = batch.fields().size();
  if (fields == 1) {
    const auto bytes = batch.bytes(0, i);
    return XXH3_64bits(bytes.data(), bytes.size());
  }
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  if (!state) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  for (std::size_t f = 0; f < fields; ++f) {
    const auto bytes = batch.bytes(f, i);
    XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
  }
  return XXH3_64bits_digest(state.get());
}

TraceWriter::TraceWriter(const std::filesystem::path& dir, const TraceStart& start)
    : lines_(dir / trace_file_name(start.phase, start.world.rank)),
      phase_(start.phase),
      rank_(start.world.rank),
      tells_slots_(start.split != Split::by_sample) {
  lines_.append(fmt::format(
      R"({{"event":"start","v":1,"phase":{},"world":{},"rank":{},"workers":{},"samples":{},"batch":{},)"
      R"("tail":"{}","split":"{}","resumed_from":{{"epoch":{},"consumed":{}}}}})",
      phase_, start.world.size, rank_, start.workers, start.samples, start.batch, to_string(start.tail),
      to_string(start.split), start.resumed_from.epoch, start.resumed_from.consumed));
}

void TraceWriter::write(const Batch& batch) {
  std::string line =
      fmt::format(R"({{"event":"batch","phase":{},"rank":{},"epoch":{},"first":{},"n":{})", phase_, rank_,
                  batch.start().epoch, batch.start().consumed, batch.global_size());
  const auto out = std::back_inserter(line);
  append_list(line, "ids", batch.ids(), [&](SampleId id) { fmt::format_to(out, "{}", id.value); });
  if (tells_slots_) {
    append_list(line, "slots", batch.slots(), [&](std::int64_t slot) { fmt::format_to(out, "{}", slot); });
  }

  std::vector<std::uint64_t> digests(static_cast<std::size_t>(batch.size()));
  for (std::size_t i = 0; i < digests.size(); ++i) {
    digests[i] = sample_digest(batch, static_cast<std::int64_t>(i));
  }
  append_list(line, "digests", digests, [&](std::uint64_t d) { fmt::format_to(out, "\"{:016x}\"", d); });

  const auto marks = batch.marks();
  if (!std::ranges::all_of(marks, [](Mark mark) { return mark == Mark::real; })) {
    append_list(line, "mask", marks, [&](Mark mark) { fmt::format_to(out, "{}", static_cast<int>(mark)); });
  }
  line.push_back('}');
  lines_.append(std::move(line));
}

void TraceWriter::end(const TraceEnd& summary) {
  lines_.append(fmt::format(
      R"({{"event":"end","phase":{},"rank":{},"steps":{},"samples":{},"restore_seconds":{:.6f},"save_seconds":{:.6f}}})",
      phase_, rank_, summary.steps, summary.samples, summary.restore_seconds, summary.save_seconds));
}

}  // namespace rota::tracing
