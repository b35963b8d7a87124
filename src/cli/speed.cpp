// `rota speed`: how fast samples of a dataset come, from where they are and by which way.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "catalog/files.hpp"
#include "cli/dataset.hpp"
#include "cli/number_option.hpp"
#include "cli/progress_bar.hpp"
#include "cli/shown_text.hpp"
#include "cli/verbs.hpp"
#include "rota/loader.hpp"
#include "rota/open.hpp"

namespace rota::cli {
namespace {

struct SpeedOptions {
  DatasetOptions dataset;
  std::int64_t batch = 256;
  std::int64_t workers = 2;
  std::int64_t seconds = 2;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// What came in how long.
struct Read {
  std::int64_t batches = 0;
  std::int64_t samples = 0;
  std::int64_t bytes = 0;
  double seconds = 0;
};

// Batches from the beginning on, for so many seconds, and no more than `most_batches`.
Read read_batches(Loader& loader, double seconds, std::int64_t most_batches) {
  loader.seek({});
  Read read;
  const std::int64_t bytes = loader.stats().bytes;
  const auto start = std::chrono::steady_clock::now();
  while (read.batches < most_batches && seconds_since(start) < seconds) {
    const auto batch = loader.next();
    if (!batch) break;
    ++read.batches;
    read.samples += batch->size();
  }
  read.seconds = seconds_since(start);
  read.bytes = loader.stats().bytes - bytes;
  return read;
}

// Drops the dataset from the page cache, but for what others have mapped.
void evict(const Catalog& catalog) {
  const internal::FileList& files = internal::files_of(catalog);
  const auto names = files.read_names();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto file = files.place().open_descriptor((*names)[i]);
    (void)::fdatasync(file.get());
    (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

std::vector<std::string> cells(const Read& read) {
  const auto rate = [&](std::int64_t count) {
    return read.batches == 0 ? 0 : static_cast<std::int64_t>(static_cast<double>(count) / read.seconds);
  };
  return {grouped(rate(read.samples)), human_bytes(rate(read.bytes)) + "/s"};
}

/// How the dataset is read in a row of the table.
struct Way {
  Shuffle shuffle;
  Access access;
  std::int64_t workers;
};

// `sent` is the catalog, with what was found in the files.
std::vector<std::string> row(const SpeedOptions& options, const std::string& sent, const Way& way) {
  const Catalog catalog = Catalog::deserialize(sent, {.access = way.access});
  Loader loader(open(catalog, options.dataset.format), {.global_batch_size = options.batch,
                                                        .shards = way.shuffle == Shuffle::none ? 1 : 256,
                                                        .shuffle = way.shuffle,
                                                        .epochs = kEndless,
                                                        .workers = static_cast<int>(way.workers)});
  // From storage; and then the same again, from the page cache, where it has gone through that.
  evict(catalog);
  const auto seconds = static_cast<double>(options.seconds);
  const Read cold =
      read_batches(loader, seconds, (loader.source().size() + options.batch - 1) / options.batch);
  read_batches(loader, 10 * seconds, cold.batches);
  const Read warm = read_batches(loader, 10 * seconds, cold.batches);
  std::vector<std::string> all{std::string(to_string(way.shuffle)), std::string(to_string(way.access)),
                               grouped(way.workers)};
  for (const Read& one : {cold, warm}) {
    for (std::string& cell : cells(one)) all.push_back(std::move(cell));
  }
  return all;
}

void speed(const SpeedOptions& options) {
  std::vector<std::vector<std::string>> table{
      {"shuffle", "access", "workers", "cold samples/s", "bytes", "warm samples/s", "bytes"}};
  std::vector<Way> ways{{Shuffle::none, Access::cached, 1}};
  for (const Access access : {Access::cached, Access::direct, Access::mapped}) {
    ways.push_back({Shuffle::global, access, 1});
    if (options.workers > 1) ways.push_back({Shuffle::global, access, options.workers});
  }
  ProgressBar bar;
  CatalogOptions how;
  how.progress = bar.function();
  const Catalog catalog = make_catalog(options.dataset, how);
  const auto source = open(catalog, options.dataset.format);
  const std::string sent = catalog.serialize();
  for (const Way& way : ways) table.push_back(row(options, sent, way));
  fmt::print("{}: {}, batches of {}\n\n{}", shown(options.dataset.path.native()),
             counted(source->size(), "sample"), options.batch, table_text(table, 2));
}

}  // namespace

Verb add_speed(CLI::App& app) {
  const auto options = std::make_shared<SpeedOptions>();
  CLI::App& command = *app.add_subcommand(
      "speed",
      "Reads a dataset from storage and from the page cache, and tells how fast that is. It drops "
      "the dataset from the page cache first.");
  add_dataset(command, options->dataset);
  add_number(command, "--batch", options->batch, 1, "samples of a batch", 1 << 20);
  add_number(command, "--workers", options->workers, 1, "reading threads, beside one", 4096);
  add_number(command, "--seconds", options->seconds, 1, "for each figure, about", 3600);
  return {.command = &command, .run = [options] {
            speed(*options);
            return 0;
          }};
}

}  // namespace rota::cli
