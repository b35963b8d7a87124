// `rota plan`: what an epoch takes, for several settings side by side, by its order alone. No sample is read.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/uses.hpp"
#include "cli/verbs.hpp"
#include "core/enumerators.hpp"
#include "core/state_text.hpp"
#include "files/reads.hpp"
#include "loader/ahead.hpp"
#include "rota/loader.hpp"
#include "rota/open.hpp"

namespace rota::cli {
namespace {

using internal::OrderedJson;

constexpr double kSamplesLooked = 1 << 22;  // samples of an epoch; those beyond are taken to be like them

struct PlanOptions {
  DatasetOptions dataset;
  std::int64_t batch = 256;
  int ranks = 1;
  std::int64_t workers = 1;
  std::int64_t node = 8;  // ranks of it
  std::int64_t decoded_bytes = CatalogOptions().decoded_bytes;
  std::vector<std::string> shuffles{"none", "within", "block", "global"};
  std::vector<std::int64_t> interleaves{0};
  std::int64_t shards = 0;
  LengthColumn column;  // without a field there is no balance
  bool is_json = false;
};

// How far the next neighbour on disk is, on the mean, in units of what it is among as many drawn at random.
double nearest(std::span<const SampleId> sorted, std::int64_t samples) {
  if (sorted.size() < 2) return 1;
  std::int64_t sum = 0;
  std::int64_t before = samples;
  for (std::size_t i = 1; i <= sorted.size(); ++i) {
    const std::int64_t after = i < sorted.size() ? sorted[i].value - sorted[i - 1].value : samples;
    sum += std::min(std::exchange(before, after), after);
  }
  const auto all = static_cast<double>(samples);
  const auto n = static_cast<double>(sorted.size());
  const double at_random = all / (n + 1) * (n + 2) / (2 * n) / (1 - n / (2 * all));  // without repetition
  return static_cast<double>(sum) / n / at_random;
}

// Of all these samples.
std::int64_t bytes_of(const Source& source, std::span<const SampleId> ids) {
  std::int64_t bytes = 0;
  std::vector<std::int64_t> rows;
  for (std::size_t f = 0; f < source.fields().size(); ++f) {
    const Field& field = source.fields()[f];
    rows.assign(ids.size(), 1);
    if (field.ragged) source.rows(ids, f, rows);
    bytes += std::reduce(rows.begin(), rows.end()) * static_cast<std::int64_t>(field.row_bytes());
  }
  return bytes;
}

/// A line of what is found. Without a head it is in JSON only; without a value nowhere.
struct Row {
  std::string name;
  std::string head;
  OrderedJson value;
};

/// An epoch in one order: its batches, and then what ranks and workers read of them.
class Epoch {
 public:
  Epoch(const PlanOptions& options, const std::shared_ptr<const Source>& source,
        const std::vector<std::int64_t>& files, const LoaderOptions& order)
      : options_(options), order_(order), source_(*source), run_(Loader(source, order).run()), files_(files) {
    look_at_batches();
    for (World world{.size = options.ranks}; world.rank < world.size; ++world.rank) look_at(world);
  }

  [[nodiscard]] std::vector<Row> rows() const {
    const double scale = static_cast<double>(source_.size()) / std::max(looked_, 1.0);
    const double chunks = std::max(std::round(decoded_chunks_ * scale * chunks_of_ranks_.used()), 1.0);
    const auto steps = static_cast<double>(std::max<std::int64_t>(steps_, 1));
    const auto whole = [](double value) { return OrderedJson(std::llrint(value)); };
    const auto decimal = [](double value, int digits) {
      return std::stod(fmt::format("{:.{}f}", value, digits));
    };
    const auto chunked = [&](const OrderedJson& value) { return chunks_.empty() ? OrderedJson() : value; };
    const auto balanced = [&](double value) {
      return order_.rank_split == Split::balanced ? OrderedJson(decimal(value / steps, 3)) : OrderedJson();
    };
    const auto bare = [&](double value) { return chunks_.empty() ? whole(value) : OrderedJson(); };
    return {
        {"steps", "steps", run_.steps_per_epoch()},
        {"looked_at", "", whole(looked_)},
        {"samples_a_step", "samples a step, of a rank", {std::min(least_, most_), most_}},
        {"bytes_a_step", "bytes a step, of a rank", step_bytes_},
        {"cost_by_sample", "costliest rank of mean, equal slices", balanced(cost_by_sample_)},
        {"cost", "costliest rank of mean, in balance", balanced(cost_)},
        {"least_cost", "costliest rank of mean, at best", balanced(least_cost_)},
        {"bytes", "bytes", whole(bytes_ * scale)},
        {"mixing", "mixing (1: full shuffle)", steps_ == 0 ? 1.0 : decimal(mixing_ / steps, 3)},
        {"files", "files", files_.size()},
        {"files_a_step", "files a step", decimal(files_of_batches_.count() / steps, 1)},
        {"files_at_once", "files at once, of a rank", whole(files_of_ranks_.most_at_once())},
        {"reads", "reads", whole(reads_ * scale)},
        {"requests", "requests, of a store", bare(requests_ * scale)},
        {"requested_bytes", "bytes, of a store", bare(requested_bytes_ * scale)},
        {"fetches_by_ranks", "file fetches, by ranks", whole(files_of_ranks_.count_of_all())},
        {"fetches_by_nodes", "file fetches, by nodes", whole(files_of_nodes_.count_of_all())},
        {"chunks", "chunks", chunked(chunks_.size())},
        {"decodes_of_a_chunk", "decodes of a chunk", chunked(decimal(decodes_ / chunks, 3))},
        {"decoded_bytes_to_hold", "decoded memory, of a rank",
         chunked(whole(chunks_of_ranks_.most_samples() * sample_bytes_))},
        {"read_ahead_bytes", "read-ahead memory, of a node",
         std::min(order_.read_ahead_bytes, (order_.read_ahead_batches + 1) * step_bytes_) *
             std::min<std::int64_t>(options_.ranks, options_.node)},
        {"shared_bytes", "files in use, of a node", whole(files_of_nodes_.most_samples() * sample_bytes_)},
    };
  }

 private:
  void look_at_batches() {
    Run run = run_;
    RunSlice batch;
    // Each rank deals whole batches.
    const double most =
        order_.rank_split == Split::balanced ? kSamplesLooked / options_.ranks : kSamplesLooked;
    for (; looked_ < most && run.slice(batch); run.advance(batch), ++steps_) {
      looked_ += static_cast<double>(batch.ids.size());
      bytes_ += static_cast<double>(bytes_of(source_, batch.ids));
      for (const SampleId id : batch.ids) files_of_batches_.add(id, steps_);
      files_of_batches_.end_group();
      std::ranges::sort(batch.ids, {}, &SampleId::value);
      mixing_ += nearest(batch.ids, source_.size());
    }
    sample_bytes_ = bytes_ / std::max(looked_, 1.0);
  }

  void look_at(World world) {
    Run run = run_;
    RunSlice slice;
    const auto decodes = internal::plan_reads(source_, run_, order_)->without_bytes();
    std::optional<internal::SamplesAhead> ahead;
    if (decodes) ahead.emplace(*decodes, order_, world);
    for (std::int64_t step = 0; step < steps_ && internal::slice_of(run, slice, world, order_);
         ++step, run.advance(slice)) {
      if (world.rank == 0) add_costs(slice.costs);
      if (ahead) ahead->follow(run, slice.global_size);
      const std::int64_t size = std::ssize(slice.ids);
      for (std::int64_t w = 0; w < options_.workers; ++w) {
        const auto first = slice.ids.begin() + share(size, w, options_.workers);
        const std::span part(first, slice.ids.begin() + share(size, w + 1, options_.workers));
        read(part, step);
        if (decodes) decodes->pass(part);
      }
      step_bytes_ = std::max(step_bytes_, bytes_of(source_, slice.ids));
      if (step > 0 && step + 1 == steps_) continue;  // the last one may be short
      least_ = std::min(least_, size);
      most_ = std::max(most_, size);
    }
    files_of_ranks_.end_group();
    chunks_of_ranks_.end_group();
    if ((world.rank + 1) % options_.node == 0 || world.rank + 1 == world.size) files_of_nodes_.end_group();
    if (!decodes) return;
    decodes_ += static_cast<double>(decodes->counts().decodes);
    decoded_chunks_ += decodes->counts().chunks;
  }

  void add_costs(const BatchCosts& costs) {
    const double mean = std::max(costs.global, 1.0) / options_.ranks;
    cost_by_sample_ += costs.most_by_sample / mean;
    cost_ += costs.most / mean;
    least_cost_ += std::max(costs.largest / mean, 1.0);
  }

  // What a worker reads at once, as if samples lay bare in their files.
  void read(std::span<const SampleId> ids, std::int64_t step) {
    ranges_.clear();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto offset_of = [&](std::int64_t id) {
        return static_cast<std::uint64_t>(std::llrint(static_cast<double>(id) * sample_bytes_));
      };
      const std::int64_t id = ids[i].value;
      const std::size_t file = files_of_ranks_.add(ids[i], step);
      files_of_nodes_.add(ids[i], step);
      if (!chunks_.empty()) chunks_of_ranks_.add(ids[i], step);
      const bool goes_on = is_fixed_ && i > 0 && id == ids[i - 1].value + 1 && file == ranges_.back().file;
      if (!goes_on) ranges_.push_back({.file = file, .offset = offset_of(id)});
      ranges_.back().to.bytes = offset_of(id + 1) - ranges_.back().offset;
    }
    std::ranges::sort(ranges_, {}, &Range::offset);
    internal::JoinedReads<const Range> reads(ranges_, {});
    while (reads.next()) ++reads_;
    internal::JoinedReads<const Range> requests(ranges_, internal::kRequests);
    while (const auto request = requests.next()) {
      ++requests_;
      requested_bytes_ += static_cast<double>(request->end - request->begin);
    }
  }

  struct Range {
    struct Bytes {
      [[nodiscard]] std::uint64_t size() const noexcept { return bytes; }
      std::uint64_t bytes = 0;
    };
    std::size_t file = 0;
    std::uint64_t offset = 0;
    Bytes to = {};
  };

  const PlanOptions& options_;
  const LoaderOptions& order_;
  const Source& source_;
  const Run run_;
  const std::vector<std::int64_t>& files_;
  const std::vector<std::int64_t> chunks_ = source_.unit_sizes();
  const bool is_fixed_ = std::ranges::none_of(source_.fields(), &Field::ragged);
  std::int64_t steps_ = 0;  // that were looked at
  double looked_ = 0;       // samples
  double bytes_ = 0;
  double sample_bytes_ = 0;  // on the mean
  double mixing_ = 0;        // sum of all batches
  Uses files_of_batches_{files_};
  Uses files_of_ranks_{files_};
  Uses files_of_nodes_{files_};
  Uses chunks_of_ranks_{chunks_};
  double decodes_ = 0;
  double decoded_chunks_ = 0;
  std::int64_t least_ = kMaxBatchSize;  // samples of a rank in a step
  std::int64_t most_ = 0;
  std::int64_t step_bytes_ = 0;  // the most of a rank in a step
  double cost_by_sample_ = 0;    // sums of all steps
  double cost_ = 0;
  double least_cost_ = 0;
  double reads_ = 0;
  double requests_ = 0;
  double requested_bytes_ = 0;
  std::vector<Range> ranges_;
};

// Of files that say nothing of their samples, each may be one.
std::vector<std::int64_t> file_sizes(const Source& source, std::int64_t files) {
  std::vector<std::int64_t> sizes = source.part_sizes();
  if (!sizes.empty()) return sizes;
  if (files != source.size()) return {source.size()};
  return std::vector<std::int64_t>(static_cast<std::size_t>(files), 1);
}

std::string cell(const std::string& name, const OrderedJson& value) {
  if (value.is_array()) return cell(name, value[0]) + " - " + cell(name, value[1]);
  const auto number = value.get<std::int64_t>();
  if (name.find("bytes") != std::string::npos) return human_bytes(number);
  return grouped(number) + (value.is_number_float() ? value.dump().substr(value.dump().find('.')) : "");
}

/// All settings, as JSON and as the columns of a table.
struct Plans {
  OrderedJson json = OrderedJson::array();
  std::vector<std::vector<std::string>> table{{""}};

  void add(const std::string& shuffle, std::int64_t interleave, const std::vector<Row>& rows) {
    json.push_back({{"setting", {{"shuffle", shuffle}, {"interleave", interleave}}}});
    table[0].push_back(interleave == 0 ? shuffle : fmt::format("{}, {} at a time", shuffle, interleave));
    std::size_t line = 0;
    for (const auto& [name, head, value] : rows) {
      if (value.is_null()) continue;
      json.back()[name] = value;
      if (head.empty()) continue;
      if (++line == table.size()) table.push_back({head});
      table[line].push_back(cell(name, value));
    }
  }
};

int plan(const PlanOptions& options) {
  ProgressBar bar;
  const Catalog catalog =
      make_catalog(options.dataset, {.decoded_bytes = options.decoded_bytes, .progress = bar.function()});
  const auto source = open(catalog, options.dataset.format);
  const std::vector<std::int64_t> files = file_sizes(*source, catalog.size());
  const std::size_t names_bytes = catalog.serialize().size();
  Plans plans;
  Balance balance;
  if (!options.column.field.empty()) balance.columns.push_back(options.column);
  for (LengthColumn& column : balance.columns) column.lengths = lengths_of(*source, column.field);
  for (const std::string& shuffle : options.shuffles) {
    for (const std::int64_t interleave : options.interleaves) {
      const LoaderOptions order{.global_batch_size = options.batch,
                                .shards = options.shards,
                                .interleave = interleave,
                                .shuffle = parse_shuffle(shuffle),
                                .rank_split = balance.columns.empty() ? Split::by_sample : Split::balanced,
                                .balance = balance,
                                .workers = 0};
      std::vector<Row> rows = Epoch(options, source, files, order).rows();
      rows.push_back({"names_bytes", "names and index, of a node", names_bytes});
      plans.add(shuffle, interleave, rows);
    }
  }
  if (options.is_json) {
    fmt::print("{}\n", plans.json.dump(2));
    return 0;
  }
  fmt::print("an epoch of {}: {} samples, batches of {}, {} ranks x {} workers\n\n{}",
             shown(options.dataset.path.native()), grouped(source->size()), grouped(options.batch),
             grouped(options.ranks), grouped(options.workers), table_text(plans.table, 1));
  const auto looked = plans.json[0]["looked_at"].get<std::int64_t>();
  if (looked < source->size())
    fmt::print("\nThe first {} samples of an epoch were looked at; the rest is taken to be like them.\n",
               grouped(looked));
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, int& code) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const auto options = std::make_shared<PlanOptions>();
  CLI::App& command = *app.add_subcommand(
      "plan",
      "Shows what an epoch takes, for several settings side by side, and how well each mixes, without "
      "reading.");
  add_dataset(command, options->dataset);
  add_number(command, "--batch", options->batch, 1, "samples of a global batch", kMaxBatchSize);
  add_number(command, "--ranks", options->ranks, 1, "of the run", 1 << 16);
  add_number(command, "--workers", options->workers, 1, "reading threads of a rank", 4096);
  add_number(command, "--node", options->node, 1, "ranks of a node", kMost);
  add_number(command, "--decoded-bytes", options->decoded_bytes, 1, "memory of a rank for decoded chunks");
  add_number(command, "--shards", options->shards, 0, "as of a loader; 0: its own choice", kMost);
  auto& balance = *command.add_option("--balance", options->column.field,
                                      "deal batches to ranks in balance, by rows of this field");
  for (const auto& [name, value] : {std::pair("--linear", &options->column.linear),
                                    std::pair("--quadratic", &options->column.quadratic)}) {
    command.add_option(name, *value, "cost of a sample of n rows: linear x n + quadratic x n^2")
        ->needs(&balance)
        ->capture_default_str();
  }
  const std::vector<std::string> shuffles(internal::kShuffles.begin(), internal::kShuffles.end());
  command.add_option("--shuffle", options->shuffles, "one or several: none,within,block,global")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(shuffles).description(""));
  command.add_option("--interleave", options->interleaves, "shards at a time, one or several; 0: all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(std::int64_t{0}, kMost).description(""));
  command.add_flag("--json", options->is_json, "the same as JSON");
  command.callback([options, &code] { code = plan(*options); });
}

}  // namespace rota::cli
