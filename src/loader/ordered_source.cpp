#include "loader/ordered_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "core/option.hpp"
#include "order/weighted_turns.hpp"
#include "source/read_plan.hpp"
#include "source/source_facts.hpp"

namespace rota {
namespace {

constexpr std::string_view kTask = "make a loader";

Error no_units(std::string_view what, std::string_view units, std::string_view method) {
  return internal::failure(ErrorCode::invalid_argument,
                           "{}: {} are to be {}, and the source has none, or does not say where they begin "
                           "({}); give a number",
                           kTask, what, units, method);
}

// As LoaderOptions::shards says.
void resolve_shards(LoaderOptions& options, bool shares_files) {
  const bool wants_shards = options.interleave > 0 || options.rank_split == Split::by_shard ||
                            options.worker_split == Split::by_shard || shares_files;
  const std::int64_t usual = options.shuffle == Shuffle::none && !wants_shards ? 1 : 256;
  if (options.shards == 0) options.shards = usual;
}

// What the order of a source needs to know of it.
RunData look_at(const Source& source, std::int64_t size, const LoaderOptions& options) {
  RunData data{.samples = size};
  std::vector<std::int64_t>& lengths = data.shard_lengths;
  if (options.shards == kFileShards) {
    lengths = internal::ask_part_sizes(source, size, kTask);
    if (lengths.empty()) throw no_units("shards", "files", "part_sizes");
  } else if (options.shards == kUnitShards) {
    lengths = internal::ask_unit_sizes(source, size, kTask);
    if (size == 0) lengths = {0};
    if (lengths.empty()) throw no_units("shards", "chunks of several samples", "unit_sizes");
  } else {
    lengths = internal::ask_shard_lengths(source, size, options.shards, kTask);
  }
  if (options.shuffle != Shuffle::block || options.block.samples > 0) return data;
  data.block_lengths = internal::ask_unit_sizes(source, size, kTask);
  if (data.block_lengths.empty() && size > 0)
    throw no_units("blocks", "chunks of several samples", "unit_sizes");
  return data;
}

std::vector<double> weights_of(const Mixture& mixture) {
  std::vector<double> weights;
  for (const Mixture::Part& dataset : mixture.datasets) weights.push_back(dataset.weight);
  return weights;
}

// One dataset, or those of a mixture.
internal::OrderedSource order_all(std::vector<std::shared_ptr<const Source>> sources, LoaderOptions& options,
                                  RunOptions how, const std::vector<std::string>& names = {}) {
  resolve_shards(options, std::ranges::any_of(sources, [](const auto& source) {
                   return internal::PlannedSource::plan_of(*source)->sharing() != internal::Sharing::none;
                 }));
  if (options.shards > 0) {
    internal::OptionCheck(kTask).in_range("shards", options.shards, 1, kMaxShards / std::ssize(sources),
                                          "all datasets together have at most 2^24");
  }
  std::vector<RunData> data;
  std::vector<Field> fields;
  for (const auto& source : sources) {
    internal::SourceFacts facts = internal::ask_facts(*source, kTask);
    data.push_back(look_at(*source, facts.size, options));
    if (data.size() <= names.size() && !names[data.size() - 1].empty()) {
      data.back().name = names[data.size() - 1];
      data.back().fingerprint = internal::ask(kTask, "fingerprint", [&] { return source->fingerprint(); });
    }
    data.back().own_fingerprint = internal::own_fingerprint(*source);
    if (data.back().own_fingerprint) data.back().fingerprint = source->fingerprint();
    fields = std::move(facts.fields);
  }
  auto whole = how.weights.empty() ? std::move(sources.front()) : join(std::move(sources));
  how.shards = std::max<std::int64_t>(options.shards, 0);  // of files and units it is told the lengths
  how.fingerprint = internal::ask(kTask, "fingerprint", [&] { return whole->fingerprint(); });
  const Run run(data, how);
  options.shards = run.options().shards;
  if (how.weights.empty() || whole->size() == run.samples())
    return {std::move(whole), std::move(fields), run};
  throw internal::failure(
      ErrorCode::callback,
      "mix datasets: they said that they have {} samples, and then {}; size() of a source must not change",
      whole->size(), run.samples());
}

}  // namespace

void Mixture::validate() const {
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, "mix datasets: " + why);
  };
  constexpr internal::OptionCheck kMixCheck("mix datasets");
  kMixCheck.one_of("end", end, internal::kMixtureEnds);
  (void)internal::quantise(weights_of(*this));
  for (std::size_t d = 0; d < datasets.size(); ++d) {
    if (!datasets[d].source) refuse(fmt::format("number {} is none (a null pointer)", d));
    const Source& source = *datasets[d].source;
    if (internal::ask("mix datasets", "size", [&] { return source.size(); }) == 0)
      refuse(fmt::format("number {} has no samples; leave it out", d));
  }
  std::vector<std::string> all = names();
  const bool has_names = std::ranges::any_of(all, [](const std::string& name) { return !name.empty(); });
  std::ranges::sort(all);
  if (const auto twice = std::ranges::adjacent_find(all); has_names && twice != all.end())
    refuse(twice->empty() ? "some have names, and one has none"
                          : fmt::format("two are called \"{}\"; give each another name", *twice));
  if (has_names && all.front().empty()) refuse("some have names, and one has none");
  if (grown && !has_names)
    refuse("they may have grown, and have no names; give each one, or leave out grown");
  if (const auto part = std::ranges::find_if(
          all, [&](const std::string& name) { return grown && name.find('@') != std::string::npos; });
      part != all.end())
    refuse(fmt::format("one is called \"{}\", and what has grown is called so; give it a name without \"@\"",
                       *part));
  const bool ends_by_steps = end == MixtureEnd::steps;
  if (ends_by_steps) kMixCheck.in_range("steps", steps, 1);
  if (!ends_by_steps && steps != 0) {
    refuse(fmt::format("steps is {}; leave it, or let its end be steps", steps));
  }
}

std::vector<std::string> Mixture::names() const {
  std::vector<std::string> all;
  for (const Part& part : datasets) all.push_back(part.name);
  return all;
}

namespace internal {

OrderedSource put_in_order(std::shared_ptr<const Source> source, LoaderOptions& options) {
  require_source(source, kTask);
  return order_all({std::move(source)}, options, options.run());
}

OrderedSource put_in_order(const Mixture& mixture, LoaderOptions& options) {
  mixture.validate();
  if (options.evaluation) {
    throw failure(ErrorCode::invalid_argument,
                  "{}: evaluation is true, of a mixture; make one for each dataset", kTask);
  }
  if (options.shards < 0) {
    throw failure(
        ErrorCode::unsupported,
        "{}: datasets of a mixture have as many shards each, which files and units cannot be; give a "
        "number of shards",
        kTask);
  }
  std::vector<std::shared_ptr<const Source>> sources;
  for (const Mixture::Part& dataset : mixture.datasets) sources.push_back(dataset.source);
  RunOptions how = options.run();
  how.weights = weights_of(mixture);
  how.end = mixture.end;
  how.steps = mixture.steps;
  return order_all(std::move(sources), options, how, mixture.names());
}

}  // namespace internal
}  // namespace rota
