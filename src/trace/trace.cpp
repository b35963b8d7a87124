#include "rota/trace.hpp"

#include <fmt/format.h>
#define XXH_STATIC_LINKING_ONLY  // a state that is a value
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "core/owned.hpp"
#include "files/descriptor.hpp"
#include "files/file.hpp"
#include "files/path.hpp"
#include "loader/loader_impl.hpp"
#include "ranks/collectives.hpp"
#include "stream/stream_loader_impl.hpp"
#include "trace/trace_file.hpp"

namespace rota {

/// The file of a rank. Of a run that is settled by hand the ledger writes, too, from any thread.
class internal::TraceLines {
 public:
  explicit TraceLines(const std::filesystem::path& path) : file_(path) {}
  ~TraceLines() { leave(); }
  TraceLines(const TraceLines&) = delete;
  TraceLines& operator=(const TraceLines&) = delete;

  [[nodiscard]] const LineWriter& file() const noexcept { return file_; }
  void append(std::string line) {
    if (!ledger_) return file_.append(std::move(line));
    ledger_->between([&] { file_.append(std::move(line)); });
  }
  /// Writes the first line, of what is out; then also what becomes of samples, if there is a ledger, with
  /// what is `common` to lines of this rank.
  void begin(std::shared_ptr<Ledger> ledger, const std::string& common,
             const std::function<std::string(SampleNames out)>& first_line);
  /// What a loader leaves out, if its plan says so; where it does not, `whole` is nothing.
  struct LeftOut {
    std::optional<Run> whole = {};  ///< the run with these steps
    Balance balance = {};
  };
  void leave_out(LeftOut what) { left_out_ = std::move(what); }
  [[nodiscard]] const LeftOut& left_out() const noexcept { return left_out_; }

  void leave() {
    if (ledger_) std::exchange(ledger_, nullptr)->dismiss(this);
  }
  void close() { file_.close(); }

 private:
  LeftOut left_out_;
  LineWriter file_;
  std::shared_ptr<Ledger> ledger_;
};

namespace {

constexpr std::string_view kBegin = "begin a trace";

using Lines = std::unique_ptr<internal::TraceLines, internal::DeleteWhereMade>;

// `,"name":[a,b,...]`, each of what `text_of` makes of a value.
template <typename Range, typename TextOf = std::identity>
void append_list(std::string& line, std::string_view name, const Range& values, TextOf text_of = {}) {
  fmt::format_to(std::back_inserter(line), ",\"{}\":[", name);
  std::string_view comma;
  for (const auto& value : values) {
    fmt::format_to(std::back_inserter(line), "{}{}", comma, std::invoke(text_of, value));
    comma = ",";
  }
  line.push_back(']');
}

void append_names(std::string& line, std::string_view ids, std::string_view epochs,
                  internal::SampleNames names) {
  append_list(line, ids, names, [](const internal::SampleName& name) { return name.id.value; });
  append_list(line, epochs, names, &internal::SampleName::epoch);
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void append_digests(std::string& line, const Batch& batch) {
  XXH3_state_t state{};
  line += ",\"digests\":[";
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    XXH3_64bits_reset(&state);
    for (std::size_t f = 0; f < batch.fields().size(); ++f) {
      const auto bytes = batch.bytes(f, i);
      XXH3_64bits_update(&state, bytes.data(), bytes.size());
    }
    fmt::format_to(std::back_inserter(line), "{}\"{:016x}\"", i == 0 ? "" : ",", XXH3_64bits_digest(&state));
  }
  line.push_back(']');
}

// When it was handed over, and how it came about.
void append_times(std::string& line, const BatchTimes& times) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const auto out = std::back_inserter(line);
  fmt::format_to(out, R"(,"at":{:.3f},"wait":{:.6f},"read":{:.6f},"transform":{:.6f})", now.count(),
                 times.wait_seconds, times.read_seconds, times.transform_seconds);
  if (times.slowest.empty()) return;
  fmt::format_to(out, R"(,"slowest":{},"slowest_seconds":{:.6f})", quoted(times.slowest),
                 times.slowest_seconds);
}

std::string start_line(const Loader& loader, internal::SampleNames out) {
  const LoaderOptions& options = loader.options();
  const Position at = loader.position();
  std::vector<std::int64_t> samples;
  for (const internal::Order& order : internal::RunAccess::order(loader.run())->orders)
    samples.push_back(order.plan().samples());
  std::string line = fmt::format(
      R"("workers":{},"batch":{},"split":"{}","tail":"{}","epoch":{},"consumed":{},"step":{},"fingerprint":"{}")",
      options.workers, loader.run().global_batch_size(), to_string(options.rank_split),
      to_string(options.tail), at.epoch, at.consumed, at.step, to_string(loader.fingerprint()));
  const auto& taken_for = internal::RunAccess::order(loader.run())->taken_for;
  if (!taken_for.empty()) {
    append_list(line, "taken_for", taken_for, [](const auto& one) {
      return fmt::format(R"(["{}","{}"])", to_string(one.first), to_string(one.second));
    });
  }
  append_list(line, "samples", samples);
  if (const auto names = loader.names(); !names.empty()) append_list(line, "names", names, &quoted);
  std::vector<internal::Stretch> ahead = internal::RunAccess::path(loader.run()).stretches();
  std::erase_if(ahead, [&](const internal::Stretch& one) { return one.begin.step <= at.step; });
  if (!ahead.empty()) {
    append_list(line, "batches", ahead, [](const internal::Stretch& one) {
      return fmt::format("[{},{}]", one.begin.step, one.batch_size);
    });
  }
  const bool is_changed = !loader.names().empty() || !loader.run().plan().empty() ||
                          internal::RunAccess::path(loader.run()).stretches().size() > 1;
  if (loader.mixture() != nullptr && is_changed) append_list(line, "weights", loader.mixture()->weights);
  if (const RunPlan& plan = loader.run().plan(); !plan.empty())
    line += fmt::format(R"(,"plan":"{}")", internal::digest_of_plan(plan));
  if (const auto& tokens = loader.run().plan().tokens_per_sample; !tokens.empty())
    append_list(line, "tokens_per_sample", tokens);
  const internal::Settling& settling = internal::Behind::of(loader).settling;
  if (settling.is_by_hand()) line += R"(,"settle":"by_hand")";
  if (internal::PlannedSource::plan_of(loader.source())->changes_by_epoch())
    line += R"(,"content":"by_epoch")";
  const auto open = internal::names_of(loader.run(), settling.open(loader.run(), loader.world(), out));
  if (!open.empty()) append_names(line, "open", "open_epochs", open);
  return line;
}

// Also where nothing is settled by hand: what comes again may be dropped at the tail.
std::shared_ptr<internal::Ledger> ledger_of(const Loader& loader) {
  return internal::Behind::of(loader).settling.ledger();
}
std::shared_ptr<internal::Ledger> ledger_of(const StreamLoader& /*loader*/) { return nullptr; }

std::string start_line(const StreamLoader& loader, internal::SampleNames /*out*/) {
  const Position at = loader.position();
  const auto* const dispatch = internal::Behind::of(loader).dispatch();
  const Split split = dispatch == nullptr ? Split::by_shard : dispatch->plan().split;
  return fmt::format(
      R"("workers":{},"batch":{},"split":"{}","epoch":{},"step":{},"fingerprint":"{}","shards":{})",
      loader.options().workers, loader.options().global_batch_size, to_string(split), at.epoch, at.step,
      to_string(loader.fingerprint()), loader.source().shards());
}

// For a trace that is begun without a communicator.
Communicator alone(const std::filesystem::path& directory, World world, std::optional<std::int64_t> phase) {
  if (phase || world.size == 1) return {};
  throw internal::failure(ErrorCode::invalid_argument,
                          "begin a trace in {}: rank {} of {} needs a communicator, so that all ranks write "
                          "the same phase; or give the phase",
                          directory.string(), world.rank, world.size);
}

// Makes the directory; returns the phase that is wanted, or the one behind all that are there.
std::int64_t prepare(const std::filesystem::path& directory, std::optional<std::int64_t> wanted) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    throw internal::write_error("create the directory of a trace,", directory.native(), error.value());
  const std::int64_t phase = wanted ? *wanted : trace::highest_phase(directory) + 1;
  if (phase >= 0 && phase < trace::kMaxTraced) return phase;
  throw internal::failure(ErrorCode::invalid_argument,
                          "begin a trace in {}: phase {} is not from 0 to 2^61 - 1", directory.string(),
                          phase);
}

// The phase, and this rank's file of it; none on replicas. Collective, once all know that no loader was moved
// from.
template <typename AnyLoader>
std::pair<std::int64_t, Lines> begin(const Communicator& comm, const std::filesystem::path& written,
                                     const AnyLoader& loader, std::optional<std::int64_t> wanted) {
  std::filesystem::path directory;
  comm.together(kBegin, [&] {
    directory = internal::path_on_disk(written, "traces go to a file system; name a directory there");
  });
  ranks::require_same(comm, kBegin, wanted ? fmt::format("phase {} given", *wanted) : "no phase given");
  const World world = loader.world();
  Lines lines;
  const std::int64_t phase = ranks::on_first_rank(comm, kBegin, [&] { return prepare(directory, wanted); });
  const auto write_start = [&] {
    if (world.replica > 0) return;
    lines.reset(new internal::TraceLines(directory / trace::trace_file_name(phase, world.rank)));
    lines->begin(ledger_of(loader), fmt::format(R"("phase":{},"rank":{})", phase, world.rank),
                 [&](internal::SampleNames out) {
                   return fmt::format(R"({{"event":"start","v":1,"phase":{},"world":{},"rank":{},{}}})",
                                      phase, world.size, world.rank, start_line(loader, out));
                 });
  };
  try {
    comm.together(kBegin, write_start);
  } catch (...) {  // a phase of some ranks would spoil the trace
    if (lines) lines->file().remove();
    throw;
  }
  return {phase, std::move(lines)};
}

}  // namespace

void internal::TraceLines::begin(std::shared_ptr<Ledger> ledger, const std::string& common,
                                 const std::function<std::string(SampleNames out)>& first_line) {
  if (!ledger) return file_.append(first_line({}));
  const auto write = [this, common](SampleNames names, std::optional<std::string_view> reason) {
    std::string line = fmt::format(R"({{"event":"{}",{})", reason ? "dropped" : "settled", common);
    append_names(line, "ids", "epochs", names);
    if (reason) line += R"(,"reason":)" + quoted(std::string(*reason));
    file_.append(line + '}');
  };
  ledger_ = std::move(ledger);
  ledger_->admit(this, write, [&](SampleNames open) { file_.append(first_line(open)); });
}

TraceWriter::TraceWriter(const Communicator& comm, const std::filesystem::path& directory,
                         const Loader& loader, std::optional<std::int64_t> phase) {
  comm.together(kBegin, [&] {
    world_ = loader.world();
    split_ = loader.options().rank_split;
    is_mixture_ = loader.datasets() > 1 || !loader.names().empty();
  });
  std::tie(phase_, lines_) = begin(comm, directory, loader, phase);
  next_step_ = loader.position().step;
  if (lines_ && !loader.run().plan().skip.empty())
    lines_->leave_out({internal::RunAccess::without_skip(loader.run()), loader.options().balance});
}

TraceWriter::TraceWriter(const Communicator& comm, const std::filesystem::path& directory,
                         const StreamLoader& loader, std::optional<std::int64_t> phase)
    : is_stream_(true) {
  comm.together(kBegin, [&] { world_ = loader.world(); });
  std::tie(phase_, lines_) = begin(comm, directory, loader, phase);
}

TraceWriter::TraceWriter(const std::filesystem::path& directory, const Loader& loader,
                         std::optional<std::int64_t> phase)
    : TraceWriter(alone(directory, loader.world(), phase), directory, loader, phase) {}
TraceWriter::TraceWriter(const std::filesystem::path& directory, const StreamLoader& loader,
                         std::optional<std::int64_t> phase)
    : TraceWriter(alone(directory, loader.world(), phase), directory, loader, phase) {}

TraceWriter::~TraceWriter() = default;
TraceWriter::TraceWriter(TraceWriter&& other) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&& other) noexcept = default;

void TraceWriter::write(const Batch& batch) {
  if (!may_write(batch.size() == 0 ? is_stream_ : !batch.stream_ids().empty())) return;
  if (!batch.is_again()) write_left_out(batch.start().step);
  write_line(batch);
  if (!batch.is_again()) next_step_ = batch.end().step;
}

// Steps that nobody reads: this rank's samples of them, as skipped ones. It goes on where it has failed.
// Behind the last one, if there were any.
std::optional<Position> TraceWriter::write_left_out(std::int64_t end) {
  const auto& [whole, balance] = lines_->left_out();
  std::optional<Run> run = whole && next_step_ < end ? whole->at(next_step_) : std::nullopt;
  if (!run) return std::nullopt;
  const auto pool =
      std::make_shared<internal::BatchPool>(std::vector<Field>(), Allocator(), std::size_t{1}, 0);
  for (; next_step_ < end; ++next_step_) {
    auto memory = pool->take();
    if (!run->slice(*memory, world_, split_, balance)) break;
    run->advance(*memory);
    std::ranges::replace(memory->kinds, SlotKind::sample, SlotKind::skipped);
    write_line(pool->wrap(std::move(memory)));
  }
  return run->position();
}

void TraceWriter::write_line(const Batch& batch) {
  const Position& at = batch.start();
  std::string line = fmt::format(R"({{"event":"{}","phase":{},"rank":{},"epoch":{})",
                                 batch.is_again() ? "again" : "batch", phase_, world_.rank, at.epoch);
  const auto out = std::back_inserter(line);
  if (is_stream_) {
    fmt::format_to(out, R"(,"step":{})", at.step);
    append_list(line, "ids", batch.stream_ids(),
                [](const StreamId& id) { return '"' + to_string(id) + '"'; });
    append_list(line, "positions", batch.positions());
  } else {
    fmt::format_to(out, R"(,"consumed":{},"step":{},"n":{})", at.consumed, at.step, batch.global_size());
    append_list(line, "ids", batch.ids(), &SampleId::value);
    if (split_ != Split::by_sample) append_list(line, "slots", batch.slots());
    if (is_mixture_) append_list(line, "datasets", batch.datasets());
    const auto is_first = [&](std::int64_t epoch) { return epoch == at.epoch; };
    if (is_mixture_ || !std::ranges::all_of(batch.epochs(), is_first)) {
      append_list(line, "epochs", batch.epochs());
    }
  }
  if (!batch.fields().empty()) append_digests(line, batch);  // else nobody read it
  if (batch.real() != batch.size()) {
    append_list(line, "mask", batch.kinds(), [](SlotKind kind) { return static_cast<int>(kind); });
  }
  append_times(line, batch.times());
  if (const BatchCosts costs = batch.costs(); costs.global > 0) {
    fmt::format_to(out, R"(,"cost":{},"most_cost":{},"most_cost_by_sample":{},"cost_of_all":{})", costs.rank,
                   costs.most, costs.most_by_sample, costs.global);
  }
  lines_->append(line + '}');
  if (batch.is_again()) return;  // it is no step
  ++steps_;
  samples_ += batch.size();
}

void TraceWriter::end(const Loader& loader) {
  if (!may_write(false)) return;
  // Of a run that is over, all steps that are not there are left out. Of very many no line is written.
  constexpr std::int64_t kMostLines = 100'000;
  const auto& whole = lines_->left_out().whole;
  const bool is_end = whole && loader.run().is_over() && !whole->at(next_step_ + kMostLines);
  const auto behind = is_end ? write_left_out(kMaxCount) : std::nullopt;
  end(behind.value_or(loader.position()));
}
void TraceWriter::end(const StreamLoader& loader) {
  if (may_write(true)) end(loader.position());
}

void TraceWriter::end(const Position& position) {
  std::string line =
      fmt::format(R"({{"event":"end","phase":{},"rank":{},"epoch":{})", phase_, world_.rank, position.epoch);
  if (!is_stream_) line += fmt::format(R"(,"consumed":{})", position.consumed);
  lines_->leave();
  lines_->append(line +
                 fmt::format(R"(,"step":{},"batches":{},"slots":{}}})", position.step, steps_, samples_));
  lines_->close();
}

bool TraceWriter::may_write(bool is_stream) const {
  if (world_.replica > 0) return false;
  const char* why = !internal::owned(lines_, "a trace writer").file().is_open() ? "it has ended"
                    : is_stream == is_stream_                                   ? nullptr
                    : is_stream_ ? "it is of a StreamLoader, and this is of a Loader"
                                 : "it is of a Loader, and this is of a StreamLoader";
  if (why == nullptr) return true;
  throw internal::failure(ErrorCode::invalid_argument, "write trace file {}: {}", lines_->file().path(), why);
}

}  // namespace rota
