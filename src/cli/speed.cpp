// `rota speed`: how fast samples of a dataset come, from where they are and by which way.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/files.hpp"
#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/verbs.hpp"
#include "core/failure.hpp"
#include "rota/loader.hpp"
#include "rota/message.hpp"
#include "rota/open.hpp"

namespace rota::cli {
namespace {

struct SpeedOptions {
  DatasetOptions dataset;
  std::int64_t batch = 256;
  std::int64_t workers = 2;
  std::int64_t seconds = 2;
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What came in how long.
struct Read {
  std::int64_t batches = 0;
  std::int64_t samples = 0;
  std::int64_t bytes = 0;
  double seconds = 0;

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

// Files that are decompressed into a node's memory come in no other order than these. They, whole files and
// those of a storage come by one way.
std::vector<Way> ways(const Source& source, bool has_one_access, std::int64_t workers) {
  const bool is_decompressed = source.node_files() != nullptr;
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
  Loader loader(source, {.global_batch_size = options.batch,
                         .shards = way.shuffle == Shuffle::none ? 1 : 256,
                         .interleave = source->node_files() == nullptr ? 0 : 8,
                         .shuffle = way.shuffle,
                         .epochs = kEndless,
                         .workers = static_cast<int>(way.workers)});
  const auto seconds = static_cast<double>(options.seconds);
  const std::int64_t batches = (source->size() + options.batch - 1) / options.batch;
  const Read cold = read_batches(loader, start, seconds, batches, false);
  read_batches(loader, Clock::now(), 10 * seconds, cold.batches, false);
  const Read warm = read_batches(loader, Clock::now(), seconds, cold.batches, true);
  print_cells(to_string(way.shuffle), to_string(way.access), grouped(way.workers), cold.sample_rate(),
              cold.byte_rate(), warm.sample_rate(), warm.byte_rate());
}

// Each row opens the dataset anew, which would say the same of it, perhaps by another path.
void say_each_once() {
  set_message_sink([mutex = std::make_shared<std::mutex>(),
                    said = std::make_shared<std::set<std::string>>()](std::string_view message) {
    const std::scoped_lock lock(*mutex);
    const bool is_of_opening = message.starts_with("open ");
    if (!is_of_opening && said->emplace(message).second) fmt::print(stderr, "rota: {}\n", message);
  });
}

int speed(const SpeedOptions& options) {
  ProgressBar bar;
  const Catalog catalog = make_catalog(options.dataset, {.progress = bar.function()});
  const auto source = open(catalog, options.dataset.format);
  if (source->size() == 0) {
    throw internal::failure(ErrorCode::invalid_argument, "read {}: it has no samples",
                            options.dataset.path.native());
  }
  say_each_once();
  const std::string sent = catalog.serialize();
  const bool has_one_access =
      format_of(options.dataset, catalog) == "files" || internal::files_of(catalog).location().is_stored();
  fmt::print("{}: {}, batches of {}\n\n", shown(options.dataset.path.native()),
             counted(source->size(), "sample"), options.batch);
  print_cells("shuffle", "access", "workers", "cold samples/s", "bytes", "warm samples/s", "bytes");
  for (const Way& way : ways(*source, has_one_access, options.workers)) print_row(options, sent, way);
  return 0;
}

}  // namespace

void add_speed(CLI::App& app, int& code) {
  const auto options = std::make_shared<SpeedOptions>();
  CLI::App& command =
      *app.add_subcommand("speed",
                          "Reads a dataset from storage and from the page cache, and shows how fast that is. "
                          "It drops the dataset from the page cache first.");
  add_dataset(command, options->dataset);
  add_number(command, "--batch", options->batch, 1, "samples of a batch", 1 << 20);
  add_number(command, "--workers", options->workers, 1, "reading threads, beside one", 4096);
  add_number(command, "--seconds", options->seconds, 1, "for each figure, about", 3600);
  command.callback([options, &code] { code = speed(*options); });
}

}  // namespace rota::cli
