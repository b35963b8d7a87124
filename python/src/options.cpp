#include "options.hpp"

#include "core/failure.hpp"
#include "objects.hpp"
#include "rota/loader.hpp"

namespace rota::python {
namespace {

/// None in Python: no last epoch.
template <typename Options>
Option<Options> epochs_option() {
  auto made = option("epochs", &Options::epochs);
  made.set = [set = made.set](Options& options, py::handle value, const Argument& as) {
    options.epochs = kEndless;
    if (!value.is_none()) set(options, value, as);
  };
  made.get = [](const Options& options) -> py::object {
    return options.epochs == kEndless ? py::none() : py::object(py::int_(options.epochs));
  };
  return made;
}

/// A number, "files" or "units".
Option<LoaderOptions> shards_option() {
  auto made = option("shards", &LoaderOptions::shards);
  made.set = [set = made.set](LoaderOptions& options, py::handle value, const Argument& as) {
    if (value.equal(py::str("files"))) {
      options.shards = kFileShards;
    } else if (value.equal(py::str("units"))) {
      options.shards = kUnitShards;
    } else if (py::isinstance<py::str>(value)) {
      as.refuse_value(value, "a number, \"files\" or \"units\"");
    } else {
      set(options, value, as);
    }
  };
  return made;
}

/// A dict of numbers by name, or None.
Option<PackOptions> packed_fields_option() {
  return {"fields",
          [](PackOptions& options, py::handle value, const Argument& as) {
            options.fields.clear();
            if (value.is_none()) return;
            if (!py::isinstance<py::dict>(value))
              as.refuse_type(value, "a dict of numbers by field, or None");
            for (const auto& [name, number] : py::reinterpret_borrow<py::dict>(value)) {
              options.fields[take<std::string>(name, as)] = take<std::int64_t>(number, as);
            }
          },
          [](const PackOptions& options) -> py::object {
            py::dict made;
            for (const auto& [name, number] : options.fields) made[give(name)] = number;
            return made.empty() ? py::none() : py::object(std::move(made));
          }};
}

/// A list of lengths, or None, which an empty one is not.
Option<WindowOptions> episodes_option() {
  auto made = option("episodes", &WindowOptions::episodes);
  made.set = [set = made.set](WindowOptions& options, py::handle value, const Argument& as) {
    options.episodes.clear();
    if (value.is_none()) return;
    set(options, value, as);
    if (options.episodes.empty()) options.episodes.push_back(0);
  };
  made.get = [get = made.get](const WindowOptions& options) -> py::object {
    return options.episodes.empty() ? py::none() : get(options);
  };
  return made;
}

/// The text that `to_string` makes of one, or None.
Option<LoaderOptions> plan_option() {
  return {"plan",
          [](LoaderOptions& options, py::handle value, const Argument& as) {
            options.plan = value.is_none() ? RunPlan() : parse_plan(take<std::string>(value, as));
          },
          [](const LoaderOptions& options) -> py::object {
            return options.plan.empty() ? py::none() : py::object(py::str(to_string(options.plan)));
          }};
}

const OptionTable<LoaderOptions> kLoaderOptions{
    "make a loader",
    {option("global_batch_size", &LoaderOptions::global_batch_size), shards_option(),
     option("interleave", &LoaderOptions::interleave), option("shuffle", &LoaderOptions::shuffle),
     option("seed", &LoaderOptions::seed), option("block", &LoaderOptions::block),
     option("tail", &LoaderOptions::tail), option("rank_split", &LoaderOptions::rank_split),
     option("balance", &LoaderOptions::balance), option("worker_split", &LoaderOptions::worker_split),
     epochs_option<LoaderOptions>(), plan_option(), option("evaluation", &LoaderOptions::evaluation),
     option("settle", &LoaderOptions::settle), option("open_limit", &LoaderOptions::open_limit),
     option("workers", &LoaderOptions::workers),
     option("read_ahead_batches", &LoaderOptions::read_ahead_batches),
     option("read_ahead_bytes", &LoaderOptions::read_ahead_bytes),
     option("slow_after", &LoaderOptions::slow_after),
     // Fields come before the function that makes them.
     option<LoaderOptions>(
         "transform_fields", [](auto& o) -> auto& { return o.transform.fields; }),
     option("transform", &LoaderOptions::transform),
     option<LoaderOptions>(
         "collate_fields", [](auto& o) -> auto& { return o.collate.fields; }),
     option("collate", &LoaderOptions::collate), option("allocator", &LoaderOptions::allocator),
     option<LoaderOptions>(
         "on_bad_sample", [](auto& o) -> auto& { return o.bad_samples.policy; }),
     option<LoaderOptions>(
         "max_skipped", [](auto& o) -> auto& { return o.bad_samples.max_skipped; }),
     option("deadline", &LoaderOptions::deadline),
     option<LoaderOptions>(
         "io_retries", [](auto& o) -> auto& { return o.bad_samples.io_retries; }),
     option<LoaderOptions>(
         "retry_wait", [](auto& o) -> auto& { return o.bad_samples.retry_wait; })}};

const OptionTable<StreamLoaderOptions> kStreamLoaderOptions{
    "make a stream loader",
    {option("global_batch_size", &StreamLoaderOptions::global_batch_size),
     epochs_option<StreamLoaderOptions>(), option("workers", &StreamLoaderOptions::workers),
     option("read_ahead_batches", &StreamLoaderOptions::read_ahead_batches),
     option("read_ahead_bytes", &StreamLoaderOptions::read_ahead_bytes),
     option("deadline", &StreamLoaderOptions::deadline), option("allocator", &StreamLoaderOptions::allocator),
     option("settle", &StreamLoaderOptions::settle), option("open_bytes", &StreamLoaderOptions::open_bytes)}};

const OptionTable<CatalogOptions> kCatalogOptions{
    "make a catalog",
    {option("change_detection", &CatalogOptions::change_detection),
     option("listing_threads", &CatalogOptions::listing_threads),
     option("indexing_threads", &CatalogOptions::indexing_threads),
     option("max_open_files", &CatalogOptions::max_open_files), option("access", &CatalogOptions::access),
     option("share_files", &CatalogOptions::share_files),
     option("shared_memory_limit", &CatalogOptions::shared_memory_limit),
     option("decoded_bytes", &CatalogOptions::decoded_bytes),
     option("shared_directory", &CatalogOptions::shared_directory),
     option("all_names", &CatalogOptions::all_names), option("max_bad_files", &CatalogOptions::max_bad_files),
     option("progress", &CatalogOptions::progress), option("storages", &CatalogOptions::storages)}};

const OptionTable<PatternOptions> kPatternOptions{
    "make a catalog",
    {option("files", &PatternOptions::files), option("folders", &PatternOptions::folders),
     option("layout", &PatternOptions::layout)}};

const OptionTable<CheckpointPolicy> kCheckpointPolicy{
    "open a checkpoint directory",
    {option("keep_last", &CheckpointPolicy::keep_last), option("keep_every", &CheckpointPolicy::keep_every),
     option("deadline", &CheckpointPolicy::deadline), option("mirror", &CheckpointPolicy::mirror)}};

const OptionTable<ShardOptions> kShardOptions{
    "write shards",
    {option("format", &ShardOptions::format), option("shard_bytes", &ShardOptions::shard_bytes),
     option("world", &ShardOptions::world), option("workers", &ShardOptions::workers),
     option("progress", &ShardOptions::progress), option("storages", &ShardOptions::storages)}};

}  // namespace

const OptionTable<PackOptions> kPackOptions{
    "pack documents",
    {option("length", &PackOptions::length), option("bos", &PackOptions::bos),
     option("eos", &PackOptions::eos), option("pad", &PackOptions::pad), option("fit", &PackOptions::fit),
     option("cut_longer", &PackOptions::cut_longer), option("seed", &PackOptions::seed),
     option("shuffle_documents", &PackOptions::shuffle_documents), option("field", &PackOptions::field),
     packed_fields_option(), option("threads", &PackOptions::threads)}};

const OptionTable<WindowOptions> kWindowOptions{
    "make windows",
    {option("length", &WindowOptions::length), option("stride", &WindowOptions::stride),
     option("across_files", &WindowOptions::across_files), option("offsets", &WindowOptions::offsets),
     option("edges", &WindowOptions::edges), option("jitter", &WindowOptions::jitter),
     option("seed", &WindowOptions::seed), episodes_option()}};

const OptionTable<FlatMapOptions> kFlatMapOptions{
    "make samples of samples",
    {option("fields", &FlatMapOptions::fields), option("name", &FlatMapOptions::name),
     option("most", &FlatMapOptions::most)}};

const OptionTable<MixtureOptions> kMixtureOptions{
    "mix datasets",
    {option("end", &MixtureOptions::end), option("steps", &MixtureOptions::steps),
     option("grown", &MixtureOptions::grown)}};

const OptionTable<Dispatch> kDispatchOptions{
    "dispatch a stream", {option("shards", &Dispatch::shards), option("rank_split", &Dispatch::rank_split)}};

std::vector<double> to_weights(py::handle given) {
  std::vector<double> weights;
  for (const py::handle one : given) weights.push_back(take<double>(one, {"mix datasets", "a weight"}));
  return weights;
}

MixtureOptions to_mixture_options(py::handle given) {
  using py::literals::operator""_a;
  return kMixtureOptions.parse(py::dict("end"_a = given.attr("end"), "steps"_a = given.attr("steps"),
                                        "grown"_a = given.attr("grown")));
}

Mixture to_mixture(py::handle given) {
  const MixtureOptions options = to_mixture_options(given);
  std::vector<std::string> names;
  std::vector<PySource> sources;
  if (const py::object all = given.attr("sources"); py::isinstance<py::dict>(all)) {
    for (const auto& [name, source] : py::reinterpret_borrow<py::dict>(all)) {
      names.push_back(name.cast<std::string>());
      sources.push_back(source.cast<PySource>());
    }
  } else {
    sources = all.cast<std::vector<PySource>>();
  }
  const auto weights = to_weights(given.attr("weights"));
  if (sources.size() != weights.size()) {
    throw internal::failure(ErrorCode::invalid_argument, "mix datasets: {} datasets, but {} weights",
                            sources.size(), weights.size());
  }
  Mixture mixture{.end = options.end, .steps = options.steps, .grown = options.grown};
  for (std::size_t d = 0; d < sources.size(); ++d) {
    mixture.datasets.push_back(
        {.source = sources[d].source, .weight = weights[d], .name = names.empty() ? "" : names[d]});
  }
  return mixture;
}

void define_options(py::module_& module) {
  kLoaderOptions.define(module, "LoaderOptions");
  kStreamLoaderOptions.define(module, "StreamLoaderOptions");
  kCatalogOptions.define(module, "CatalogOptions");
  kPatternOptions.define(module, "PatternOptions");
  kCheckpointPolicy.define(module, "CheckpointPolicy");
  kPackOptions.define(module, "PackOptions");
  kWindowOptions.define(module, "WindowOptions");
  kShardOptions.define(module, "ShardOptions");
  kFlatMapOptions.define(module, "FlatMapOptions");
  kMixtureOptions.define(module, "MixtureOptions");
  kDispatchOptions.define(module, "DispatchOptions");
  define_balance(module);
  module.def("plan_text", [](const std::string& text, const std::vector<std::string>& names) {
    return to_string(parse_plan(text, names));
  });
  module.def("read_plan",
             [](const PyCommunicator* comm, const std::string& path, const std::vector<std::string>& names) {
               const auto ranks = ranks_of(comm);
               const Unlocked released;
               return to_string(read_plan(*ranks, path, names));
             });
}

}  // namespace rota::python
