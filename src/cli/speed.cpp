// `rota speed`: how fast samples of a dataset come, from where they are and by which way; and how many
// accelerators that feeds.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "catalog/files.hpp"
#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/verbs.hpp"
#include "core/failure.hpp"
#include "core/message.hpp"
#include "core/read_tally.hpp"
#include "ranks/collectives.hpp"
#include "ranks/nodes.hpp"
#include "rota/loader.hpp"
#include "rota/message.hpp"
#include "rota/open.hpp"
#include "source/read_plan.hpp"
#ifdef ROTA_MPI
#include "rota/mpi.hpp"
#endif

namespace rota::cli {
namespace {

/// What an accelerator takes.
struct Shape {
  std::string_view name = {};
  std::int64_t batch = 256;
  double step_ms = 0;
  double enough = 0;  // the accelerator utilisation (AU) that counts: the part of its time that it computes
};

// Of MLPerf Storage 3.0, for a B200 (mlcommons/storage, configs/dlio/workload). A sample of dlrm is a run of
// 4,096 rows. What samples are like is in python/rota/_generate.py.
constexpr std::array<Shape, 4> kShapes{{{"unet3d", 7, 162, 0.90},
                                        {"retinanet", 24, 47.6, 0.85},
                                        {"flux", 48, 1350, 0.90},
                                        {"dlrm", 4, 0.375, 0.70}}};

struct SpeedOptions {
  DatasetOptions dataset;
  std::string shape;
  std::optional<std::int64_t> batch;
  double step_ms = 0;
  std::int64_t workers = 2;
  std::int64_t seconds = 2;
  std::int64_t epochs = 2;
  double generate = 0;  // GiB
  bool is_cold = false;

  [[nodiscard]] Shape accelerator() const {
    const auto* const known = std::ranges::find(kShapes, shape, &Shape::name);
    Shape made = known == kShapes.end() ? Shape() : *known;
    if (batch || step_ms > 0) made.enough = 0;  // it is another workload
    made.batch = batch.value_or(made.batch);
    if (step_ms > 0) made.step_ms = step_ms;
    return made;
  }
};

using Clock = internal::ReadClock;
using internal::seconds_since;

/// What came in how long.
struct Read {
  std::int64_t batches = 0;
  std::int64_t samples = 0;
  std::int64_t bytes = 0;
  double of_disks = 0;  // its part that came from there
  double of_stores = 0;
  double seconds = 0;
  Durations waits = {};

  [[nodiscard]] std::string sample_rate() const { return grouped(per_second(samples)); }
  [[nodiscard]] std::string byte_rate() const { return human_bytes(per_second(bytes)) + "/s"; }
  [[nodiscard]] std::int64_t per_second(std::int64_t count) const {
    return static_cast<std::int64_t>(static_cast<double>(count) / seconds);
  }
};

// The first `batches` batches, again and again where it `repeats`, until so many seconds are over. The loader
// stands at the first one, then and now.
Read read_batches(Loader& loader, Clock::time_point start, double seconds, std::int64_t batches,
                  bool repeats) {
  Read read;
  const std::int64_t bytes = loader.stats().bytes;
  do {
    for (std::int64_t k = 0; k < batches && (k == 0 || seconds_since(start) < seconds); ++k) {
      read.samples += loader.next().value().size();
      ++read.batches;
    }
    read.seconds = seconds_since(start);
    read.bytes = loader.stats().bytes - bytes;
    loader.seek({});
  } while (repeats && read.seconds < seconds);
  return read;
}

// Drops the dataset from the page cache, but for what others have mapped.
void evict(const Catalog& catalog) {
  const internal::FileList& files = internal::files_of(catalog);
  if (files.location().is_stored()) return;  // nothing of it is in there
  const auto names = files.read_names();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto file = files.location().open_descriptor((*names)[i]);
    (void)::fdatasync(file.get());
    (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

/// How the dataset is read in a row of the table.
struct Way {
  Shuffle shuffle;
  Access access;
  std::int64_t workers;
};

bool is_shared(const Source& source) {
  return internal::PlannedSource::plan_of(source)->sharing() != internal::Sharing::none;
}

// Files that are decompressed into a node's memory come in no other order than this.
LoaderOptions order_of(const Source& source, const Way& way) {
  const bool is_decompressed = is_shared(source);
  return {.shards = way.shuffle == Shuffle::none ? 1 : 256,
          .interleave = is_decompressed ? 8 : 0,
          .shuffle = is_decompressed && way.shuffle == Shuffle::global ? Shuffle::within : way.shuffle,
          .workers = static_cast<int>(way.workers)};
}

// Decompressed files, whole ones and those of a storage come by one way.
std::vector<Way> ways(const Source& source, bool has_one_access, std::int64_t workers) {
  const bool is_decompressed = is_shared(source);
  std::vector<Way> all{{Shuffle::none, Access::cached, 1}};
  for (const Access access : {Access::cached, Access::direct, Access::mapped}) {
    if ((is_decompressed || has_one_access) && access != Access::cached) continue;
    const Shuffle shuffle = is_decompressed ? Shuffle::within : Shuffle::global;
    all.push_back({shuffle, access, 1});
    if (workers > 1) all.push_back({shuffle, access, workers});
  }
  return all;
}

template <typename... Cells>
void print_cells(const Cells&... cells) {
  fmt::print("{:<8} {:<7} {:>7} {:>15} {:>12} {:>15} {:>12}\n", cells...);
  flush_output();  // the next row takes seconds
}

// `sent` is the catalog, with what was found in the files.
void print_row(const SpeedOptions& options, const std::string& sent, const Way& way) {
  const Catalog catalog = Catalog::deserialize(sent, {.access = way.access});
  // From storage; and then the same again, from the page cache, where it has gone through that. What a file
  // is mapped for stays in there, so this comes first; and a loader reads as soon as there is one.
  evict(catalog);
  const auto source = open(catalog, options.dataset.format);
  const auto start = Clock::now();
  LoaderOptions how = order_of(*source, way);
  how.global_batch_size = options.accelerator().batch;
  how.epochs = kEndless;
  Loader loader(source, how);
  const auto seconds = static_cast<double>(options.seconds);
  const std::int64_t batches =
      (source->size() + options.accelerator().batch - 1) / options.accelerator().batch;
  const Read cold = read_batches(loader, start, seconds, batches, false);
  read_batches(loader, Clock::now(), 10 * seconds, cold.batches, false);
  const Read warm = read_batches(loader, Clock::now(), seconds, cold.batches, true);
  print_cells(to_string(way.shuffle), to_string(way.access), grouped(way.workers), cold.sample_rate(),
              cold.byte_rate(), warm.sample_rate(), warm.byte_rate());
}

int show_ways(const SpeedOptions& options) {
  ProgressBar bar;
  const Catalog catalog = make_catalog(options.dataset, {.progress = bar.function()});
  const auto source = open(catalog, options.dataset.format);
  if (source->size() == 0) {
    throw internal::failure(ErrorCode::invalid_argument, "read {}: it has no samples",
                            options.dataset.path.native());
  }
  set_message_sink(
      [](std::string_view message) {  // each row opens the dataset anew, which would say the same
        if (!message.starts_with("open ")) fmt::print(stderr, "rota: {}\n", message);
      });
  const std::string sent = catalog.serialize();
  const bool has_one_access =
      format_of(options.dataset, catalog) == "files" || internal::files_of(catalog).location().is_stored();
  fmt::print("{}: {}, batches of {}\n\n", shown(options.dataset.path.native()),
             counted(source->size(), "sample"), options.accelerator().batch);
  print_cells("shuffle", "access", "workers", "cold samples/s", "bytes", "warm samples/s", "bytes");
  for (const Way& way : ways(*source, has_one_access, options.workers)) print_row(options, sent, way);
  return 0;
}

// ---- accelerators ----

// What an accelerator takes that computes for `step` seconds on each batch; from its second step on, as
// MLPerf has it. That this thread may sleep for longer than it asks costs the accelerator nothing.
Read take_all(Loader& loader, double step, internal::ProgressReporter& progress) {
  const auto length = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(step));
  (void)loader.next();
  const LoaderStats before = loader.stats();
  Read read;
  for (auto is_done = Clock::now() + length;; is_done += length) {
    std::this_thread::sleep_until(is_done);
    const auto asked = Clock::now();
    if (!loader.next()) break;
    is_done += Clock::now() - asked;
    read.waits.add(seconds_since(asked));
    progress.add(1, true);
  }
  progress.end();
  const LoaderStats after = loader.stats();
  const auto part = [&](std::int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(after.bytes);
  };
  for (const LoaderStats::Worker& worker : after.workers) read.of_stores += part(worker.stored_bytes);
  read.of_disks = part(after.disk_bytes);
  read.samples = after.samples - before.samples;
  read.bytes = after.bytes - before.bytes;
  read.seconds = step * static_cast<double>(read.waits.count()) + read.waits.seconds();
  return read;
}

// A row of each rank, on the first. Returns the least utilisation. **Collective.**
double show_ranks(const Communicator& comm, const Read& mine) {
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  const auto hosts = ranks::all_gather(comm, "name nodes", host.data());
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  std::vector<std::vector<std::string>> rows{
      {"rank", "node", "samples/s", "bytes/s", "AU", "of disks", "of stores", "wait p50", "p99", "longest"}};
  Read all{.seconds = 1};
  double least = 1;
  for (const Read& one : ranks::all_gather(comm, std::span(&mine, 1))) {
    const auto wait = [&](double share) { return fmt::format("{:.2f} ms", 1e3 * one.waits.quantile(share)); };
    const double utilisation = 1 - one.waits.seconds() / one.seconds;
    const std::size_t rank = rows.size() - 1;
    rows.push_back({std::to_string(rank), hosts[rank], one.sample_rate(), one.byte_rate(),
                    percent(utilisation), percent(one.of_disks), percent(one.of_stores), wait(0.5),
                    wait(0.99), wait(1)});
    least = std::min(least, utilisation);
    all.samples += one.per_second(one.samples);
    all.bytes += one.per_second(one.bytes);
  }
  if (comm.rank() == 0)
    fmt::print("{}  together {} samples/s, {}\n\n", table_text(rows, 2), all.sample_rate(), all.byte_rate());
  return least;
}

// Each epoch as accelerators take it, one for each rank; then what rota can give them out of memory.
// **Collective.**
int feed(const SpeedOptions& options, const Communicator& comm) {
  const Shape shape = options.accelerator();
  const bool speaks = comm.rank() == 0;
  ProgressBar bar;
  const ProgressFunction shown = speaks ? bar.function() : ProgressFunction();
  const Catalog catalog = make_catalog(options.dataset, {.progress = shown}, comm);
  const auto source = open(catalog, options.dataset.format);
  ranks::require_same(comm, "measure together",
                      fmt::format("batches of {}, {} ms, {} epochs, cold: {}", shape.batch, shape.step_ms,
                                  options.epochs, options.is_cold));
  const ranks::Nodes nodes(comm.duplicate());
  LoaderOptions how = order_of(*source, {Shuffle::global, {}, options.workers});
  how.global_batch_size = shape.batch * comm.size();
  how.tail = Tail::drop;
  const std::int64_t steps = source->size() / how.global_batch_size;
  if (steps < 2) {
    throw internal::failure(ErrorCode::invalid_argument, "read {}: it has {}, and two steps take {}",
                            options.dataset.path.native(), counted(source->size(), "sample"),
                            grouped(2 * how.global_batch_size));
  }
  double utilisation = 1;
  for (; std::cmp_less(how.seed, options.epochs); ++how.seed) {
    comm.together("drop files from the page cache", [&] {
      if ((options.is_cold || how.seed == 0) && nodes.leads()) evict(catalog);
    });
    Loader loader(source, how, comm.world());
    internal::ProgressReporter progress(shown, "take batches", steps - 1, "steps");
    const Read read = take_all(loader, shape.step_ms / 1e3, progress);
    if (speaks)
      fmt::print("epoch {}: {}, each of {} and {:g} ms\n", how.seed, counted(steps, "step"),
                 counted(shape.batch, "sample"), shape.step_ms);
    utilisation = std::min(utilisation, show_ranks(comm, read));
    flush_output();
  }
  how.seed = 0;
  Loader loader(source, how, comm.world());
  const auto seconds = static_cast<double>(options.seconds);
  const std::int64_t batches = read_batches(loader, Clock::now(), seconds, steps, false).batches;
  const Read again = read_batches(loader, Clock::now(), seconds, batches, true);
  std::array<std::int64_t, 1> rate{again.per_second(again.samples)};
  comm.min(rate);
  if (!speaks) return 0;
  if (shape.enough > 0) {
    fmt::print("{} asks for an AU of {:g} %: this {} {}\n", shape.name, 100 * shape.enough,
               utilisation < shape.enough ? "does not feed" : "feeds", counted(comm.size(), "accelerator"));
  }
  fmt::print("read again from {} without steps: {} samples/s for a rank, as {:.1f} accelerators take\n",
             internal::files_of(catalog).location().is_stored() ? "the store" : "memory", grouped(rate[0]),
             static_cast<double>(rate[0]) * shape.step_ms / 1e3 / static_cast<double>(shape.batch));
  return 0;
}

// By the ranks that this process was started with.
int feed(const SpeedOptions& options) {
  if (world_from_environment().size == 1) return feed(options, Communicator());
#ifdef ROTA_MPI
  int argc = 0;
  char** argv = nullptr;
  mpi::Session session(argc, argv);
  return session.run([&] { return feed(options, session.comm()); });
#else
  throw Error(ErrorCode::unsupported, "measure with several ranks: this rota is built without MPI");
#endif
}

int speed(const SpeedOptions& options) {
  if (options.generate > 0)
    become_module("_generate", {options.shape, options.dataset.path, fmt::format("{}", options.generate)});
  return options.accelerator().step_ms > 0 ? feed(options) : show_ways(options);
}

}  // namespace

void add_speed(CLI::App& app, int& code) {
  const auto options = std::make_shared<SpeedOptions>();
  const auto amount = [](const std::string& text) -> std::string {
    const double value = std::atof(text.c_str());
    return value >= 1e-3 && value <= 1e9 ? "" : text + " is not 0.001 to 1e9";  // nor is NaN
  };
  CLI::App& command = *app.add_subcommand(
      "speed",
      "Shows how fast a dataset is read, from storage, for which it is dropped from the page cache, and "
      "from the page cache. With --shape or --step-ms: how many accelerators that feeds. Each process that "
      "mpirun starts is one.");
  add_dataset(command, options->dataset);
  add_number(command, "--batch", options->batch, 1, "samples of a batch, of one process: 256, or of --shape",
             1 << 20);
  add_number(command, "--workers", options->workers, 1, "reading threads, beside one", 4096);
  add_number(command, "--seconds", options->seconds, 1, "for each figure, about", 3600);
  command.add_option("--step-ms", options->step_ms, "how long an accelerator takes for a batch")
      ->check(amount);
  std::vector<std::string> names;
  names.reserve(kShapes.size());
  for (const Shape& one : kShapes) names.emplace_back(one.name);
  CLI::Option* const shape =
      command
          .add_option("--shape", options->shape,
                      fmt::format("a workload of MLPerf Storage 3.0: {}", fmt::join(names, ", ")))
          ->check(CLI::IsMember(names).description(""));
  const CLI::Option* const epochs =
      &add_number(command, "--epochs", options->epochs, 1, "that accelerators take", 1'000'000);
  const CLI::Option& cold = *command.add_flag(
      "--cold", options->is_cold, "drops the dataset from the page cache before each of them, and not once");
  command
      .add_option("--generate", options->generate,
                  "GiB: writes so much data of --shape to PATH, by Python, and measures nothing")
      ->check(amount)
      ->needs(shape);
  command.callback([options, &code, epochs, &cold] {
    if (options->accelerator().step_ms == 0 && epochs->count() + cold.count() > 0)
      throw CLI::ValidationError("--epochs, --cold", "they go with --shape or --step-ms");
    code = speed(*options);
  });
}

}  // namespace rota::cli
