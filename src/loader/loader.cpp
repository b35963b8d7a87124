#include "rota/loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "core/failure.hpp"
#include "core/message.hpp"
#include "core/owned.hpp"
#include "core/wait.hpp"
#include "loader/loader_impl.hpp"
#include "order/balance.hpp"
#include "order/run_state.hpp"
#include "ranks/collectives.hpp"
#include "source/lengths.hpp"
#include "source/source_facts.hpp"

namespace rota {

using internal::BatchMemory;
using internal::OrderedSource;
using internal::RunAccess;

// ---- how loaders are made ----

namespace {

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
    ordered.emplace(internal::put_in_order(std::forward<Data>(data), options));
  });
  ranks::require_same(comm, "make loaders", fmt::format("rank_split {}", to_string(options.rank_split)));
  if (options.rank_split == Split::balanced)
    internal::find_lengths(comm, *ordered->source, options.workers, options.balance);
  internal::SkipCounter counter(comm, options);  // before what may fail on one rank
  Owner impl;
  std::string described;
  comm.together("make a loader", [&] {
    internal::check(options.rank_split, options.balance, ordered->run.samples());
    impl.reset(new Impl(std::move(*ordered), std::move(options), world, std::move(counter)));
    if constexpr (std::is_same_v<std::remove_cvref_t<Data>, Mixture>) impl->mixture = data;
    if (comm.size() > 1) described = impl->described();
  });
  ranks::require_same(comm, "make loaders", described);
  if (world.rank == 0 && world.replica == 0) impl->tell_what_is_odd();
  return impl;
}

Loader::Impl::Impl(OrderedSource ordered, LoaderOptions how, World place, internal::SkipCounter skips,
                   std::shared_ptr<internal::Settling> settles)
    : source(ordered.source),
      delivered(ordered.run),
      options(std::move(how)),
      world(place),
      counter(std::move(skips)),
      shared_settling(settles ? std::move(settles)
                              : std::make_shared<internal::Settling>(options.settle, options.open_limit)),
      maker(std::move(ordered), options, world) {}

Loader::Impl::Owner Loader::Impl::renewed(OrderedSource ordered, LoaderOptions how, Impl& before) {
  Owner impl(new Impl(std::move(ordered), std::move(how), before.world,
                      internal::SkipCounter(Communicator(), before.options), before.shared_settling));
  std::swap(impl->counter, before.counter);
  impl->mixture = std::move(before.mixture);
  impl->watch = before.watch;
  impl->skipped = before.skipped;
  return impl;
}

// A run without a step looks like one that is done; one of tiny shards, like one that is shuffled.
void Loader::Impl::tell_what_is_odd() const {
  const std::int64_t samples = delivered.samples();
  const std::int64_t shards = options.shards * std::ssize(RunAccess::order(delivered)->orders);
  if (options.shuffle == Shuffle::within && samples > 1 && samples < 2 * shards) {
    internal::tell(
        fmt::format("shuffle within shards: {} samples in {} shards are so few in each that little is "
                    "shuffled; lower shards",
                    samples, shards));
  }
  if (!delivered.is_over()) return;
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
std::string Loader::Impl::described(const Run& run) const {
  const BadSamples& bad = options.bad_samples;
  return fmt::format("{}{}evaluation {}\nfields {}\n{}\n", internal::described(run),
                     internal::describe(options.rank_split, options.balance), options.evaluation,
                     internal::describe(maker.fields()),
                     bad.policy == BadSamples::Policy::skip
                         ? fmt::format("up to {} bad samples skipped", bad.max_skipped)
                         : "bad samples that fail");
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
    if (run.settling.drop_rest(run.delivered, run.world)) run.restart();  // the ring has it, too
    run.watch.end();
    run.counter.end_run();
    return std::nullopt;
  }
  run.rules.passed(run.delivered, batch->start);
  batch->pins.clear();
  run.watch.end(batch->times, std::ssize(batch->ids), batch->store.bytes());
  run.skipped += run.counter.end_step(*batch);
  run.tell_decodes();
  run.tell_what_outweighs(*batch);
  return run.maker.wrap(std::move(batch));
}

// Once, when an epoch's number of samples was delivered, wherever the run began.
void Loader::Impl::tell_decodes() {
  if (has_told_decodes || watch.stats().samples * world.size < delivered.samples()) return;
  has_told_decodes = true;
  const internal::ReadCounts now = internal::PlannedSource::plan_of(*source)->counts();
  const double times = static_cast<double>(now.decodes - counts_before.decodes) /
                       std::max(now.chunks - counts_before.chunks, 1.0);
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

// Once each: a balance is no better than its largest sample, nor is a micro-batch.
void Loader::Impl::tell_what_outweighs(const BatchMemory& batch) {
  const double limit = options.balance.micro_cost;
  if (limit > 0 && batch.costs.largest > limit && world.rank == 0 && !std::exchange(has_told_limit, true)) {
    internal::tell(
        fmt::format("step {}: one sample costs {:.4g}, and micro_cost is {:.4g}: it is alone in its "
                    "micro-batch, which costs more",
                    batch.start.step, batch.costs.largest, limit));
  }
  const double share = batch.costs.global / world.size;
  const bool is_whole =  // the last may be short
      batch.global_size >= RunAccess::path(delivered).at(batch.start.step).batch_size;
  if (has_told_outweighs || world.rank != 0 || !is_whole || batch.costs.largest <= share) return;
  has_told_outweighs = true;
  internal::tell(fmt::format(
      "step {}: one sample costs {:.4g}, and the share of each of {} ranks is {:.4g}: they wait for the rank "
      "that has it; larger batches or fewer ranks help, or shorter samples",
      batch.start.step, batch.costs.largest, world.size, share));
}

std::unique_ptr<BatchMemory> Loader::Impl::make_batch() {
  has_failed = true;
  try {
    auto batch = hand_out();
    has_failed = false;
    return batch;
  } catch (...) {
    counter.fail_step(std::current_exception());
    throw;
  }
}

// One that comes again may have been settled since it was planned.
std::unique_ptr<BatchMemory> Loader::Impl::hand_out() {
  for (;;) {
    if (settling.is_by_hand()) settling.ledger()->wait_for_room(options.deadline);
    read_again(false);
    auto batch = ring.next();
    if (!batch && read_again(true)) batch = ring.next();
    internal::Wait::here().check_now();  // as long as the batch does not count
    if (!batch) return nullptr;
    if (settling.hand_out(delivered, *batch, world)) return batch;
    static_cast<void>(maker.wrap(std::move(batch)));
  }
}

void Loader::warm_up() {
  Impl& run = impl();
  if (run.has_failed) run.restart();
  if (run.options.workers > 0) run.ring.warm_up();
}

std::optional<BatchSlot> Loader::when(SampleId id, std::int64_t epoch) const {
  const Impl& run = impl();
  return run.delivered.when(id, epoch, run.world.size, run.options.rank_split, run.options.balance);
}

void Loader::Impl::restart() {
  has_failed = true;  // until all is done: where it throws, next() tries again
  ring.restart(delivered, [&] { maker.plan_anew(world, delivered); });
  has_failed = false;
}

// As all ranks do, at the same step.
void Loader::Impl::change_and_restart() {
  is_compared = false;
  counter.forget_failed_step();
  settling.give(delivered, world, false);
  restart();
}

const std::vector<internal::SampleContent>& Loader::Impl::content() const {
  // Each dataset has a part of what is looked at. Where one has no source, it is another part than with it.
  if (!RunAccess::order(delivered)->absent.empty()) asked_content.emplace();
  if (!asked_content) {
    asked_content = internal::PlannedSource::content_of(*source, internal::kSamplesOfContent);
  }
  return *asked_content;
}

namespace {

std::vector<LoaderStats::Dataset> had(const Run& run) {
  const internal::RunOrder& order = *RunAccess::order(run);
  const std::vector<double>& means = run.plan().tokens_per_sample;
  std::vector<LoaderStats::Dataset> all;
  for (const std::int64_t samples : RunAccess::had(run)) {
    const std::size_t d = all.size();
    const double tokens = d < means.size() ? std::min(static_cast<double>(samples) * means[d], 0x1p62) : 0;
    all.push_back({.name = d < order.names.size() ? order.names[d] : "",
                   .samples = samples,
                   .epochs = samples / std::max<std::int64_t>(order.orders[d].plan().samples(), 1),
                   .tokens = std::llround(tokens)});
  }
  return all;
}

}  // namespace

LoaderStats Loader::stats() const {
  const Impl& run = impl();
  LoaderStats stats = run.watch.stats();
  stats.skipped = run.skipped;
  stats.retries = run.maker.retries();
  const internal::ReadCounts now = internal::PlannedSource::plan_of(*run.source)->counts();
  stats.fetched_files = now.files - run.counts_before.files;
  stats.fetched_bytes = now.bytes - run.counts_before.bytes;
  stats.decodes = now.decodes - run.counts_before.decodes;
  stats.chunks = std::llround(now.chunks - run.counts_before.chunks);
  run.settling.add_stats(stats);
  run.ring.add_stats(stats);
  stats.datasets = had(run.delivered);
  return stats;
}

const Run& Loader::run() const { return impl().delivered; }
Position Loader::position() const { return run().position(); }
const MixtureState* Loader::mixture() const { return run().mixture(); }
World Loader::world() const { return impl().world; }
const LoaderOptions& Loader::options() const { return impl().options; }
const Source& Loader::source() const { return *impl().source; }
Fingerprint Loader::fingerprint() const { return RunAccess::order(run())->fingerprint; }
std::optional<Position> Loader::position_of(std::int64_t step) const { return run().position_of(step); }
std::int64_t Loader::steps_per_epoch() const { return run().steps_per_epoch(); }
std::int64_t Loader::steps() const { return run().steps(); }
std::vector<std::string> Loader::names() const { return RunAccess::order(run())->names; }
std::int64_t Loader::datasets() const { return std::ssize(RunAccess::order(run())->orders); }
const SkippedSamples& Loader::skipped() const { return impl().counter.skipped(); }
void Loader::cursors(std::int64_t first, std::span<std::int64_t> out) const { run().cursors(first, out); }

SampleId Loader::first_id(std::int64_t dataset) const {
  if (dataset >= 0 && dataset < datasets())
    return {RunAccess::order(run())->firsts[static_cast<std::size_t>(dataset)]};
  throw internal::failure(ErrorCode::out_of_range, "ask a loader for dataset {}: it has {}", dataset,
                          datasets());
}

}  // namespace rota
