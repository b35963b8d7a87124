#include "rota/trace.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "loader/access.hpp"
#include "rota/error.hpp"
#include "trace/lines.hpp"
#include "trace/record.hpp"
#include "trace/trace_file.hpp"
#include "values/owned.hpp"

namespace rota {
namespace {

// `,"name":[a,b,...]`.
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

template <typename Range>
void append_numbers(std::string& line, std::string_view name, const Range& values) {
  append_list(line, name, values, [&](auto value) { fmt::format_to(std::back_inserter(line), "{}", value); });
}

struct FreeState {
  void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
};

template <typename AnyBatch>
void append_digests(std::string& line, const AnyBatch& batch) {
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  if (!state) throw std::bad_alloc();
  std::vector<std::uint64_t> digests;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    XXH3_64bits_reset(state.get());
    for (std::size_t f = 0; f < batch.fields().size(); ++f) {
      const auto bytes = batch.bytes(f, i);
      XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
    }
    digests.push_back(XXH3_64bits_digest(state.get()));
  }
  append_list(line, "digests", digests,
              [&](std::uint64_t digest) { fmt::format_to(std::back_inserter(line), "\"{:016x}\"", digest); });
}

// Items that are dispatched by sample have no owner.
Split split_of(const StreamLoader& loader) {
  try {
    static_cast<void>(loader.owner(ShardId{0}));
    return Split::by_shard;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return Split::by_sample;
  }
}

std::string start_line(const Loader& loader) {
  const LoaderOptions& options = loader.options();
  const Position at = loader.position();
  std::vector<std::int64_t> samples;
  for (std::int64_t d = 0; d < loader.datasets(); ++d)
    samples.push_back(internal::LoaderAccess::order(loader, d).plan().samples());
  std::string line = fmt::format(
      R"("workers":{},"batch":{},"split":"{}","tail":"{}","epoch":{},"consumed":{},"step":{},"fingerprint":"{}")",
      options.workers, options.global_batch_size, to_string(options.rank_split), to_string(options.tail),
      at.epoch, at.consumed, at.step, to_string(loader.fingerprint()));
  append_numbers(line, "samples", samples);
  return line;
}

std::string start_line(const StreamLoader& loader) {
  const StreamPosition at = loader.position();
  return fmt::format(
      R"("workers":{},"batch":{},"split":"{}","epoch":{},"step":{},"fingerprint":"{}","shards":{})",
      loader.options().workers, loader.options().global_batch_size, to_string(split_of(loader)), at.epoch,
      at.step, to_string(loader.fingerprint()), loader.source().shards());
}

// For a trace that is begun without a communicator.
mpi::Communicator alone(const std::filesystem::path& directory, World world, const TraceOptions& options) {
  if (options.phase || world.size == 1) return {};
  throw Error(ErrorCode::invalid_argument,
              fmt::format("begin a trace in {}: rank {} of {} needs a communicator, so that all ranks write "
                          "the same phase; or give TraceOptions::phase",
                          directory.string(), world.rank, world.size));
}

// Makes the directory; returns the phase that is wanted, or the one behind all that are there.
std::int64_t prepare(const std::filesystem::path& directory, const std::optional<std::int64_t>& wanted) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    throw internal::write_error("create the directory of a trace,", directory.native(), error.value());
  const std::int64_t phase = wanted ? *wanted : trace::highest_phase(directory) + 1;
  if (phase >= 0 && phase < trace::kMaxTraced) return phase;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("begin a trace in {}: phase {} is not from 0 to 2^61 - 1", directory.string(), phase));
}

struct Begun {
  std::int64_t phase = 0;
  std::unique_ptr<trace::LineWriter> lines = nullptr;
};

template <typename AnyLoader>
Begun begin(const mpi::Communicator& comm, const std::filesystem::path& directory, const AnyLoader& loader,
            const TraceOptions& options) {
  const World world = loader.world();
  Begun begun;
  mpi::together(comm, "begin a trace", [&] {
    if (comm.rank() == 0) begun.phase = prepare(directory, options.phase);
  });
  mpi::broadcast(comm, std::as_writable_bytes(std::span(&begun.phase, 1)));
  const auto write_start = [&] {
    if (world.replica > 0) return;
    begun.lines =
        std::make_unique<trace::LineWriter>(directory / trace::trace_file_name(begun.phase, world.rank));
    begun.lines->append(fmt::format(R"({{"event":"start","v":1,"phase":{},"world":{},"rank":{},{}}})",
                                    begun.phase, world.size, world.rank, start_line(loader)));
  };
  try {
    mpi::together(comm, "begin a trace", write_start);
  } catch (...) {  // a phase of some ranks would spoil the trace
    if (begun.lines) begun.lines->remove();
    throw;
  }
  return begun;
}

}  // namespace

TraceWriter::TraceWriter(const mpi::Communicator& comm, const std::filesystem::path& directory,
                         const Loader& loader, const TraceOptions& options)
    : world_(loader.world()), split_(loader.options().rank_split), is_mixture_(loader.datasets() > 1) {
  Begun begun = begin(comm, directory, loader, options);
  phase_ = begun.phase;
  lines_ = std::move(begun.lines);
}

TraceWriter::TraceWriter(const mpi::Communicator& comm, const std::filesystem::path& directory,
                         const StreamLoader& loader, const TraceOptions& options)
    : world_(loader.world()), is_stream_(true) {
  Begun begun = begin(comm, directory, loader, options);
  phase_ = begun.phase;
  lines_ = std::move(begun.lines);
}

TraceWriter::TraceWriter(const std::filesystem::path& directory, const Loader& loader,
                         const TraceOptions& options)
    : TraceWriter(alone(directory, loader.world(), options), directory, loader, options) {}
TraceWriter::TraceWriter(const std::filesystem::path& directory, const StreamLoader& loader,
                         const TraceOptions& options)
    : TraceWriter(alone(directory, loader.world(), options), directory, loader, options) {}

TraceWriter::~TraceWriter() = default;
TraceWriter::TraceWriter(TraceWriter&& other) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&& other) noexcept = default;

void TraceWriter::write(const Batch& batch) {
  if (world_.replica > 0) return;
  require_open(false);
  const Position& at = batch.start();
  std::string line =
      fmt::format(R"({{"event":"batch","phase":{},"rank":{},"epoch":{},"consumed":{},"step":{},"n":{})",
                  phase_, world_.rank, at.epoch, at.consumed, at.step, batch.global_size());
  append_list(line, "ids", batch.ids(),
              [&](SampleId id) { fmt::format_to(std::back_inserter(line), "{}", id.value); });
  if (split_ != Split::by_sample) append_numbers(line, "slots", batch.slots());
  if (is_mixture_) append_numbers(line, "datasets", batch.datasets());
  const bool is_one_epoch =
      std::ranges::all_of(batch.epochs(), [&](auto epoch) { return epoch == at.epoch; });
  if (is_mixture_ || !is_one_epoch) append_numbers(line, "epochs", batch.epochs());
  append_digests(line, batch);
  if (!std::ranges::all_of(batch.kinds(), [](SlotKind kind) { return kind == SlotKind::sample; })) {
    append_list(line, "mask", batch.kinds(), [&](SlotKind kind) {
      fmt::format_to(std::back_inserter(line), "{}", static_cast<int>(kind));
    });
  }
  add(line + '}', batch.size());
}

void TraceWriter::write(const StreamBatch& batch) {
  if (world_.replica > 0) return;
  require_open(true);
  std::string line = fmt::format(R"({{"event":"batch","phase":{},"rank":{},"epoch":{},"step":{})", phase_,
                                 world_.rank, batch.start().epoch, batch.start().step);
  append_list(line, "ids", batch.ids(), [&](const StreamId& id) { line += '"' + to_string(id) + '"'; });
  append_numbers(line, "positions", batch.positions());
  append_digests(line, batch);
  add(line + '}', batch.size());
}

void TraceWriter::end(const Loader& loader) {
  if (world_.replica > 0) return;
  require_open(false);
  end(loader.position());
}

void TraceWriter::end(const StreamLoader& loader) {
  if (world_.replica > 0) return;
  require_open(true);
  end({.epoch = loader.position().epoch, .consumed = 0, .step = loader.position().step});
}

void TraceWriter::end(const Position& position) {
  std::string line =
      fmt::format(R"({{"event":"end","phase":{},"rank":{},"epoch":{})", phase_, world_.rank, position.epoch);
  if (!is_stream_) line += fmt::format(R"(,"consumed":{})", position.consumed);
  lines_->append(line +
                 fmt::format(R"(,"step":{},"batches":{},"slots":{}}})", position.step, steps_, samples_));
  lines_->close();
}

void TraceWriter::add(const std::string& line, std::int64_t samples) {
  lines_->append(line);
  ++steps_;
  samples_ += samples;
}

void TraceWriter::require_open(bool is_stream) const {
  const char* why = !internal::owned(lines_, "a trace writer").is_open() ? "it has ended"
                    : is_stream == is_stream_                            ? nullptr
                    : is_stream_ ? "it is of a StreamLoader, and this is of a Loader"
                                 : "it is of a Loader, and this is of a StreamLoader";
  if (why == nullptr) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("write trace file {}: {}", lines_->path().string(), why));
}

}  // namespace rota
