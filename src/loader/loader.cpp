#include "rota/loader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "core/failure.hpp"
#include "core/message.hpp"
#include "core/owned.hpp"
#include "core/wait.hpp"
#include "loader/loader_impl.hpp"
#include "ranks/collectives.hpp"
#include "source/source_facts.hpp"

namespace rota {

using internal::BatchMemory;
using internal::LoaderPosition;
using internal::OrderedSource;
using internal::RunOrder;
using internal::WeightedTurns;

// ---- how loaders are made ----

namespace {

// As LoaderOptions::shards says.
void resolve_shards(LoaderOptions& options, bool shares_files) {
  const bool wants_shards = options.interleave > 0 || options.rank_split == Split::by_shard ||
                            options.worker_split == Split::by_shard || shares_files;
  const std::int64_t usual = options.shuffle == Shuffle::none && !wants_shards ? 1 : 256;
  if (options.shards == 0) options.shards = usual;
}

OrderedSource put_in_order(std::shared_ptr<const Source> source, LoaderOptions& options) {
  internal::require_source(source, "make a loader");
  resolve_shards(options, source->node_files() != nullptr);
  RunOrder order(*source, options);
  options.shards = order.orders.front().plan().shards();
  return {std::move(source), std::move(order)};
}

OrderedSource put_in_order(const Mixture& mixture, LoaderOptions& options) {
  mixture.validate();
  if (options.evaluation) {
    throw Error(ErrorCode::invalid_argument,
                "make a loader: evaluation is true, of a mixture; make one for each dataset");
  }
  std::vector<std::shared_ptr<const Source>> sources;
  for (const Mixture::Part& dataset : mixture.datasets) sources.push_back(dataset.source);
  resolve_shards(options, std::ranges::any_of(
                              sources, [](const auto& source) { return source->node_files() != nullptr; }));
  OrderedSource made{join(std::move(sources)), RunOrder(mixture, options)};
  if (made.source->size() == made.order.firsts.back()) return made;
  throw internal::failure(
      ErrorCode::callback,
      "mix datasets: they said that they have {} samples, and then {}; size() of a source must not change",
      made.source->size(), made.order.firsts.back());
}

// The world of a loader that was not told of any.
World world_alone() {
  if (const int ranks = ranks::job_world().size; ranks > 1) {
    throw internal::failure(
        ErrorCode::invalid_argument,
        "make a loader without a World, while MPI runs {} ranks: each would read everything; pass the "
        "communicator first, or World{{}} last if every rank is to read everything",
        ranks);
  }
  return {};
}

}  // namespace

template <typename Data>
Loader::Impl::Owner Loader::Impl::make(const Communicator& comm, Data&& data, LoaderOptions options,
                                       World world) {
  std::optional<OrderedSource> ordered;
  comm.together("make a loader", [&] {
    options.validate();
    world.validate();
    ordered.emplace(put_in_order(std::forward<Data>(data), options));
  });
  internal::SkipCounter counter(comm, options);  // before what may fail on one rank
  Owner impl;
  std::string described;
  comm.together("make a loader", [&] {
    impl.reset(new Impl{.source = std::move(ordered->source),
                        .run_order = std::move(ordered->order),
                        .options = std::move(options),
                        .world = world,
                        .counter = std::move(counter)});
    if (comm.size() > 1) described = impl->described();
  });
  ranks::require_same(comm, "make loaders", described);
  if (world.rank == 0 && world.replica == 0) impl->tell_what_is_odd();
  return impl;
}

bool Loader::Impl::has_step() const {
  internal::GlobalBatch next;
  return std::visit(
      [&](auto&& schedule) { return schedule.batch(position, options.global_batch_size, next); },
      schedule_at(place_at(position)));
}

// A run without a step looks like one that is done; one of tiny shards, like one that is shuffled.
void Loader::Impl::tell_what_is_odd() const {
  const std::int64_t samples = run_order.firsts.back();
  const std::int64_t shards = options.shards * std::ssize(run_order.orders);
  if (options.shuffle == Shuffle::within && samples > 1 && samples < 2 * shards) {
    internal::tell(
        fmt::format("shuffle within shards: {} samples in {} shards are so few in each that little is "
                    "shuffled; lower shards",
                    samples, shards));
  }
  if (has_step()) return;
  internal::tell(
      fmt::format("this loader has no step: {} samples, global_batch_size {}, tail {}, {}", samples,
                  options.global_batch_size, to_string(options.tail),
                  options.epochs == kEndless ? "endless" : fmt::format("epochs {}", options.epochs)));
}

Loader::Loader(const Communicator& comm, std::shared_ptr<const Source> source, LoaderOptions options)
    : impl_(Impl::make(comm, std::move(source), std::move(options), comm.world())) {}
Loader::Loader(const Communicator& comm, const Mixture& mixture, LoaderOptions options)
    : impl_(Impl::make(comm, mixture, std::move(options), comm.world())) {}
Loader::Loader(std::shared_ptr<const Source> source, LoaderOptions options, World world)
    : impl_(Impl::make(Communicator(), std::move(source), std::move(options), world)) {}
Loader::Loader(const Mixture& mixture, LoaderOptions options, World world)
    : impl_(Impl::make(Communicator(), mixture, std::move(options), world)) {}
Loader::Loader(std::shared_ptr<const Source> source, LoaderOptions options)
    : Loader(std::move(source), std::move(options), world_alone()) {}
Loader::Loader(const Mixture& mixture, LoaderOptions options)
    : Loader(mixture, std::move(options), world_alone()) {}
Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

// What loaders of ranks that read together must have in common, a line for each.
std::string Loader::Impl::described() const {
  const BadSamples& bad = options.bad_samples;
  std::string lines = fmt::format(
      "dataset {} with {} samples\nglobal_batch_size {}\nshards {}\nlengths {}\ninterleave {}\nshuffle "
      "{}\nseed {}\nblock {} x {}\ntail {}\nrank_split {}\nepochs {}\nevaluation {}\nfields {}\n{}\nits "
      "place at epoch {}, sample {}, step {}\n",
      to_string(fingerprint()), run_order.firsts.back(), options.global_batch_size, options.shards,
      to_string(internal::digest_lengths(run_order.orders)), options.interleave, to_string(options.shuffle),
      options.seed, options.block.samples, options.block.blocks, to_string(options.tail),
      to_string(options.rank_split), options.epochs, options.evaluation, internal::describe(maker.fields()),
      bad.policy == BadSamples::Policy::skip ? fmt::format("up to {} bad samples skipped", bad.max_skipped)
                                             : "bad samples that fail",
      position.epoch, position.consumed, position.step);
  if (const MixtureState* state = mixture()) {
    const internal::MixtureRules& rules = run_order.mix_plan->rules;
    lines += fmt::format("a mixture by weights {} since sample {}\nits end by rule {} after {} steps\n",
                         fmt::join(state->weights, ":"), state->changed_at, static_cast<int>(rules.end),
                         rules.steps);
  }
  return lines;
}

// ---- what they do ----

Loader::Impl& Loader::impl() const { return internal::owned(impl_, "a loader"); }

NextBatch Loader::next() {
  Impl& run = impl();
  run.watch.begin();
  if (!run.is_compared) run.compare();
  if (run.has_failed) run.restart();  // only now: what the caller did since may have mended it
  run.counter.begin_step();
  std::unique_ptr<BatchMemory> batch = run.make_batch();
  if (!batch) {
    run.watch.end();
    run.counter.end_run();
    return std::nullopt;
  }
  run.position = batch->global.next;
  batch->pins.clear();
  run.watch.end(batch->times, std::ssize(batch->ids), batch->store.bytes());
  run.skipped += run.counter.end_step(*batch);
  run.tell_decodes();
  return run.maker.wrap(std::move(batch));
}

// Once, when an epoch's number of samples was delivered, wherever the run began.
void Loader::Impl::tell_decodes() {
  if (has_told_decodes || watch.stats().samples * world.size < run_order.firsts.back()) return;
  has_told_decodes = true;
  const internal::DecodeCounts now = internal::decoded_by(*source);
  const double times = static_cast<double>(now.decodes - decoded_before.decodes) /
                       std::max(now.chunks - decoded_before.chunks, 1.0);
  if (world.rank != 0 || times < 2) return;
  const bool fits = times < 1.5 * world.size;
  internal::tell(fmt::format(
      "each chunk of the data was decoded {:.1f} times, {}{}", times,
      fits ? "for its rows go to all ranks; rank_split by_shard, with shards of units under shuffle within, "
             "gives it to one"
           : "for memory does not hold it until all its rows are read; let decoded_bytes hold more",
      fits || options.shuffle == Shuffle::block ? ""
                                                : ", or take shuffle block with block (0, n) and shards 1"));
}

std::unique_ptr<BatchMemory> Loader::Impl::make_batch() {
  has_failed = true;
  try {
    auto batch = ring.next();
    internal::Wait::here().check_now();  // as long as the batch does not count
    has_failed = false;
    return batch;
  } catch (...) {
    counter.fail_step(std::current_exception());
    throw;
  }
}

void Loader::warm_up() {
  Impl& run = impl();
  if (run.has_failed) run.restart();
  if (run.options.workers > 0) run.ring.warm_up();
}

std::optional<BatchSlot> Loader::when(SampleId id, std::int64_t epoch) const {
  const Impl& run = impl();
  const std::int64_t samples = run.run_order.firsts.back();
  if (id.value < 0 || id.value >= samples || epoch < 0) {
    throw internal::failure(
        ErrorCode::out_of_range,
        "find the batch of sample {} in epoch {}: there are samples 0 to {}, and epochs begin with 0",
        id.value, epoch, samples - 1);
  }
  // Not the maker's planner, which a worker may be using.
  return internal::Planner(run.run_order, run.options, run.world).when(run.position, id, epoch);
}

void Loader::Impl::restart() {
  has_failed = true;  // until all is done: where it throws, next() tries again
  ring.restart(position, [&] { maker.plan_anew(world); });
  has_failed = false;
}

// As all ranks do, at the same step.
void Loader::Impl::change_and_restart() {
  is_compared = false;
  counter.forget_failed_step();
  restart();
}

internal::AnySchedule Loader::Impl::schedule_at(const LoaderPosition& place) const {
  if (!place.mixture) return internal::Schedule(run_order.orders.front(), options.tail, options.epochs);
  return internal::MixtureSchedule(run_order.orders, run_order.mix_plan->rules,
                                   WeightedTurns(*place.mixture));
}

void Loader::Impl::require_place(const LoaderPosition& place) const {
  if (place.mixture) require_mixture("seek", place.mixture->weights.size());
  std::visit([&](const auto& schedule) { schedule.require(place.position); }, schedule_at(place));
}

void Loader::Impl::cursors(const LoaderPosition& place, std::int64_t first,
                           std::span<std::int64_t> out) const {
  std::visit([&](auto&& schedule) { schedule.cursors(place.position, first, out); }, schedule_at(place));
}

const std::vector<internal::SampleContent>& Loader::Impl::content() const {
  if (!asked_content) asked_content = source->content(internal::kSamplesOfContent);
  return *asked_content;
}

void Loader::Impl::require_mixture(std::string_view verb, std::size_t datasets) const {
  if (run_order.mix_plan && datasets == run_order.orders.size()) return;
  throw internal::failure(
      ErrorCode::invalid_argument, "{} of a mixture of {} datasets: this loader {}", verb, datasets,
      run_order.mix_plan ? fmt::format("mixes {}", run_order.orders.size()) : "mixes none");
}

void Loader::Impl::go_to(const LoaderPosition& place) {
  require_place(place);
  if (place.mixture) run_order.mix_plan->turns = WeightedTurns(*place.mixture);
  position = origin = place.position;
  was_moved = true;
  change_and_restart();
}

void Loader::seek(const Position& position) { impl().go_to(impl().place_at(position)); }
void Loader::seek(const Position& position, const MixtureState& mixture) {
  impl().go_to({position, mixture});
}

void Loader::restart() {
  const auto& mix_plan = impl().run_order.mix_plan;
  if (!mix_plan) return seek({});
  seek({}, {.weights = mix_plan->given, .counts = std::vector<std::int64_t>(mix_plan->given.size())});
}

void Loader::begin_for() {
  Impl& run = impl();
  if (run.options.evaluation && run.position != Position{}) seek({});
  run.compare();
  if (std::exchange(run.was_moved, false) || run.position == Position{}) return;
  if (!run.has_step()) {
    throw internal::failure(
        ErrorCode::invalid_argument,
        "begin a `for` over a loader: its epochs (the option epochs is {}) are over; ask for more of them, "
        "call restart(), or make a loader with evaluation, which begins anew in each `for`",
        run.options.epochs);
  }
  if (run.position.consumed == 0 || std::exchange(run.has_told, true)) return;
  internal::tell(
      fmt::format("this `for` over a loader goes on in epoch {} behind sample {}, where the last one was "
                  "left; to begin anew, call restart(); for a loader that always does, set evaluation",
                  run.position.epoch, run.position.consumed));
}

void Loader::set_weights(std::span<const double> weights) {
  Impl& run = impl();
  run.require_mixture("set weights", weights.size());
  WeightedTurns& turns = run.run_order.mix_plan->turns;
  turns = WeightedTurns(turns.changed(internal::quantise(weights), run.position.consumed));
  run.change_and_restart();
}

void Loader::rescale(World world) {
  Impl& run = impl();
  world.validate();
  run.world = world;
  run.change_and_restart();
}

void Loader::rescale(const Communicator& comm) {
  std::string mine;
  comm.together("rescale loaders",
                [&] { mine = impl().described(); });  // which asks the source, of some first
  ranks::require_same(comm, "rescale loaders", mine);
  comm.together("rescale loaders", [&] { rescale(comm.world()); });
  impl().counter.count_with(comm);
}

void Loader::set_global_batch_size(std::int64_t size) {
  Impl& run = impl();
  LoaderOptions changed = run.options;
  changed.global_batch_size = size;
  changed.validate();
  run.options.global_batch_size = size;
  run.origin = run.position;
  run.change_and_restart();
}

LoaderStats Loader::stats() const {
  const Impl& run = impl();
  LoaderStats stats = run.watch.stats();
  stats.skipped = run.skipped;
  stats.retries = run.maker.retries();
  const internal::Fetched fetched = internal::fetched_by(*run.source);
  stats.fetched_files = fetched.files - run.fetched_before.files;
  stats.fetched_bytes = fetched.bytes - run.fetched_before.bytes;
  const internal::DecodeCounts decoded = internal::decoded_by(*run.source);
  stats.decodes = decoded.decodes - run.decoded_before.decodes;
  stats.chunks = std::llround(decoded.chunks - run.decoded_before.chunks);
  run.ring.add_stats(stats);
  return stats;
}

Position Loader::position() const { return impl().position; }
const MixtureState* Loader::mixture() const { return impl().mixture(); }
World Loader::world() const { return impl().world; }
const LoaderOptions& Loader::options() const { return impl().options; }
const Source& Loader::source() const { return *impl().source; }
Fingerprint Loader::fingerprint() const { return impl().fingerprint(); }
std::optional<Position> Loader::position_of(std::int64_t step) const {
  return impl().run_order.start_of(options(), impl().origin, step);
}
std::int64_t Loader::steps_per_epoch() const { return impl().run_order.steps(options(), 1); }

std::int64_t Loader::steps() const { return impl().run_order.steps(options(), options().epochs); }

std::int64_t Loader::datasets() const { return std::ssize(impl().run_order.orders); }
const SkippedSamples& Loader::skipped() const { return impl().counter.skipped(); }
void Loader::cursors(std::int64_t first, std::span<std::int64_t> out) const {
  impl().cursors(impl().place_at(position()), first, out);
}

SampleId Loader::first_id(std::int64_t dataset) const {
  if (dataset >= 0 && dataset < datasets()) {
    return {impl().run_order.firsts[static_cast<std::size_t>(dataset)]};
  }
  throw internal::failure(ErrorCode::out_of_range, "ask a loader for dataset {}: it has {}", dataset,
                          datasets());
}

}  // namespace rota
