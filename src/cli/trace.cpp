#include "cli/trace.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "rota/error.hpp"

namespace rota::tracing {
namespace {

static_assert(std::is_nothrow_move_constructible_v<TraceWriter>);
static_assert(std::is_nothrow_move_assignable_v<TraceWriter>);

[[noreturn]] void fail(const char* what, const std::filesystem::path& path) {
  throw Error(ErrorCode::io, fmt::format("{} trace file {}: {}", what, path.string(),
                                         std::generic_category().message(errno)));
}

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
    : path_(dir / trace_file_name(start.phase, start.world.rank)),
      phase_(start.phase),
      rank_(start.world.rank),
      tells_slots_(start.split != Split::by_sample) {
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) fail("create", path_);
  append(fmt::format(
      R"({{"event":"start","v":1,"phase":{},"world":{},"rank":{},"workers":{},"samples":{},"batch":{},)"
      R"("tail":"{}","split":"{}","resumed_from":{{"epoch":{},"consumed":{}}}}})",
      phase_, start.world.size, rank_, start.workers, start.samples, start.batch, to_string(start.tail),
      to_string(start.split), start.resumed_from.epoch, start.resumed_from.consumed));
}

TraceWriter::~TraceWriter() {
  if (file_ >= 0) ::close(file_);
}

TraceWriter::TraceWriter(TraceWriter&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      path_(std::move(other.path_)),
      phase_(other.phase_),
      rank_(other.rank_),
      tells_slots_(other.tells_slots_) {}

TraceWriter& TraceWriter::operator=(TraceWriter&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  std::swap(phase_, other.phase_);
  std::swap(rank_, other.rank_);
  std::swap(tells_slots_, other.tells_slots_);
  return *this;
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
  append(line);
}

void TraceWriter::end(const TraceEnd& summary) {
  append(fmt::format(
      R"({{"event":"end","phase":{},"rank":{},"steps":{},"samples":{},"restore_seconds":{:.6f},"save_seconds":{:.6f}}})",
      phase_, rank_, summary.steps, summary.samples, summary.restore_seconds, summary.save_seconds));
}

void TraceWriter::append(const std::string& line) {
  const std::string record = line + '\n';
  for (std::size_t done = 0; done < record.size();) {
    const ssize_t wrote = ::write(file_, record.data() + done, record.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail("write", path_);
    done += static_cast<std::size_t>(wrote);
  }
}

}  // namespace rota::tracing
