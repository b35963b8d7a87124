#include "rota/loader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

#include "loader/access.hpp"
#include "loader/planner.hpp"
#include "loader/ring.hpp"
#include "loader/run_order.hpp"
#include "loader/skip_counter.hpp"
#include "mpi/job.hpp"
#include "mpi/same.hpp"
#include "rota/error.hpp"
#include "source/node_files.hpp"
#include "values/owned.hpp"

namespace rota {

using internal::BatchMaker;
using internal::BatchMemory;
using internal::LoaderPosition;
using internal::Order;
using internal::quantise;
using internal::Ring;
using internal::RunOrder;
using internal::Schedule;
using internal::SkipCounter;
using internal::WeightedTurns;

class Loader::Impl {
 public:
  using Owner = std::unique_ptr<Impl, internal::DeleteWhereMade>;
  // `comm` is null where the loader is made without others.
  static Owner make(const mpi::Communicator* comm, std::shared_ptr<const Source> source,
                    LoaderOptions options, World world);
  static Owner make(const mpi::Communicator* comm, const Mixture& mixture, LoaderOptions options,
                    World world);
  static Owner make(const mpi::Communicator* comm, std::shared_ptr<const Source> source, RunOrder run_order,
                    LoaderOptions options, World world);

  Impl(std::shared_ptr<const Source> source, RunOrder run_order, SkipCounter counter, LoaderOptions options,
       World world)
      : source_(std::move(source)),
        run_order_(std::move(run_order)),
        options_(std::move(options)),
        world_(world),
        fetched_before_(internal::fetched_by(*source_)),
        counter_(std::move(counter)),
        maker_(source_, run_order_, options_, world),
        scratch_(maker_.make_scratch(0)) {
    if (options_.workers > 0) ring_.emplace(maker_, options_, position_);
  }

  NextBatch<Batch> next();
  void warm_up();
  [[nodiscard]] std::optional<BatchSlot> when(SampleId id, std::int64_t epoch) const;
  void seek(const Position& position);
  void seek(const Position& position, const MixtureState& state);
  void set_weights(std::span<const double> weights);
  void rescale(World world);
  void rescale(const mpi::Communicator& comm);
  void set_global_batch_size(std::int64_t size);
  void require_place(const LoaderPosition& place) const;
  void cursors(const LoaderPosition& place, std::int64_t first, std::span<std::int64_t> out) const;
  [[nodiscard]] LoaderStats stats() const;

  [[nodiscard]] const Position& position() const noexcept { return position_; }
  [[nodiscard]] const MixtureState* mixture() const noexcept {
    return run_order_.mix_plan ? &run_order_.mix_plan->turns.state() : nullptr;
  }
  [[nodiscard]] LoaderPosition place() const {
    LoaderPosition place{.position = position_};
    if (mixture() != nullptr) place.mixture = *mixture();
    return place;
  }
  [[nodiscard]] World world() const noexcept { return world_; }
  [[nodiscard]] const LoaderOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Source& source() const noexcept { return *source_; }
  [[nodiscard]] const RunOrder& run_order() const noexcept { return run_order_; }
  [[nodiscard]] SkipCounter& counter() noexcept { return counter_; }
  [[nodiscard]] Fingerprint fingerprint() const {
    if (!fingerprint_) fingerprint_ = source_->fingerprint();
    return *fingerprint_;
  }

 private:
  [[nodiscard]] std::string described() const;
  std::unique_ptr<BatchMemory> make();
  std::unique_ptr<BatchMemory> make_inline();
  void check(const Position& position, const MixtureState* mixture) const;
  void require_mixture(std::string_view verb, std::size_t datasets) const;
  template <typename Change>
  void restart(Change change);
  template <typename Change>
  void change_and_restart(Change change);

  std::shared_ptr<const Source> source_;
  RunOrder run_order_;
  LoaderOptions options_;
  World world_;
  mutable std::optional<Fingerprint> fingerprint_;
  Position position_;
  bool has_failed_ = false;  // the last next() threw
  Fetched fetched_before_;
  LoaderStats stats_;
  SkipCounter counter_;
  BatchMaker maker_;
  internal::Scratch scratch_;  // of the caller's thread, where there are no workers
  WorkerStats inline_stats_;
  std::optional<Ring> ring_;
};

NextBatch<Batch> Loader::Impl::next() {
  const auto start = std::chrono::steady_clock::now();
  if (has_failed_) restart([] {});  // only now: what the caller did since may have mended it
  counter_.begin_step();
  std::unique_ptr<BatchMemory> batch = make();
  stats_.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!batch) {
    counter_.end_run();
    return std::nullopt;
  }
  position_ = batch->global.next;
  batch->pins.clear();
  ++stats_.batches;
  stats_.samples += std::ssize(batch->ids);
  stats_.bytes += static_cast<std::int64_t>(batch->store.bytes());
  stats_.skipped += counter_.end_step(*batch);
  return maker_.wrap(std::move(batch));
}

std::unique_ptr<BatchMemory> Loader::Impl::make() {
  has_failed_ = true;
  try {
    auto batch = ring_ ? ring_->next() : make_inline();
    has_failed_ = false;
    return batch;
  } catch (...) {
    counter_.fail_step(std::current_exception());
    throw;
  }
}

void Loader::Impl::warm_up() {
  if (has_failed_) restart([] {});
  if (ring_) ring_->warm_up();
}

std::optional<BatchSlot> Loader::Impl::when(SampleId id, std::int64_t epoch) const {
  const std::int64_t samples = run_order_.firsts.back();
  if (id.value < 0 || id.value >= samples || epoch < 0) {
    throw Error(
        ErrorCode::out_of_range,
        fmt::format("find the batch of sample {} in epoch {}: there are samples 0 to {}, and epochs begin "
                    "with 0",
                    id.value, epoch, samples - 1));
  }
  // Not the maker's planner, which a worker may be using.
  return internal::Planner(run_order_, options_, world_).when(position_, id, epoch);
}

std::unique_ptr<BatchMemory> Loader::Impl::make_inline() {
  auto batch = maker_.take();
  if (!maker_.plan(position_, *batch)) return nullptr;
  const internal::SlotRange all{0, batch->ids.size()};
  if (maker_.has_sizes()) {
    maker_.size(*batch, all, scratch_);
    batch->store.sum_rows();
  }
  batch->store.open();
  maker_.fill(*batch, all, scratch_, inline_stats_);
  if (maker_.has_finish()) maker_.finish(batch);
  return batch;
}

template <typename Change>
void Loader::Impl::restart(Change change) {
  if (ring_) {
    ring_->restart(position_, change);
  } else {
    change();
  }
  has_failed_ = false;
}

// As all ranks do, at the same step.
template <typename Change>
void Loader::Impl::change_and_restart(Change change) {
  counter_.forget_failed_step();
  restart([&] {
    maker_.let_go();
    change(maker_);
  });
}

// `mixture` is null where nothing is mixed.
void Loader::Impl::check(const Position& position, const MixtureState* mixture) const {
  if (mixture != nullptr) {
    const std::int64_t changed_at = mixture->changed_at;
    if (position.is_countable() && position.epoch == 0 && position.consumed >= changed_at) return;
    throw Error(
        ErrorCode::out_of_range,
        fmt::format("seek to epoch {}, sample {}, step {} of a mixture: it stays in epoch 0, and its "
                    "weights were set at sample {}; before that, seek with the state of then; steps go "
                    "from 0 to 2^62",
                    position.epoch, position.consumed, position.step, changed_at));
  }
  const std::int64_t samples = run_order_.orders.front().plan().samples();
  if (!position.is_countable() || position.consumed > samples) {
    throw Error(
        ErrorCode::out_of_range,
        fmt::format("seek to epoch {}, sample {}, step {}: an epoch has {} samples; epochs and steps go from "
                    "0 to 2^62",
                    position.epoch, position.consumed, position.step, samples));
  }
}

void Loader::Impl::seek(const Position& position) {
  check(position, mixture());
  position_ = position;
  change_and_restart([](auto&) {});
}

void Loader::Impl::seek(const Position& position, const MixtureState& state) {
  require_mixture("seek", state.weights.size());
  WeightedTurns turns(state);
  check(position, &state);
  run_order_.mix_plan->turns = std::move(turns);
  position_ = position;
  change_and_restart([&](auto& planner) { planner.mix(run_order_, options_); });
}

void Loader::Impl::require_place(const LoaderPosition& place) const {
  if (place.mixture) {
    require_mixture("seek", place.mixture->weights.size());
    static_cast<void>(WeightedTurns(*place.mixture));
  }
  check(place.position, place.mixture ? &*place.mixture : nullptr);
}

void Loader::Impl::set_weights(std::span<const double> weights) {
  require_mixture("set weights", weights.size());
  WeightedTurns& turns = run_order_.mix_plan->turns;
  turns = WeightedTurns(turns.changed(quantise(weights), position_.consumed));
  change_and_restart([&](auto& planner) { planner.mix(run_order_, options_); });
}

void Loader::Impl::require_mixture(std::string_view verb, std::size_t datasets) const {
  if (run_order_.mix_plan && datasets == run_order_.orders.size()) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{} of a mixture of {} datasets: this loader {}", verb, datasets,
                  run_order_.mix_plan ? fmt::format("mixes {}", run_order_.orders.size()) : "mixes none"));
}

void Loader::Impl::rescale(World world) {
  world.validate();
  world_ = world;
  change_and_restart([&](auto& planner) { planner.rescale(world); });
}

void Loader::Impl::rescale(const mpi::Communicator& comm) {
  std::string mine;
  mpi::together(comm, "rescale loaders",
                [&] { mine = described(); });  // which asks the source, of some first
  mpi::require_same(comm, "rescale loaders", mine);
  rescale(comm.world());
  counter_.count_with(comm);
}

// What loaders of ranks that read together must have in common.
std::string Loader::Impl::described() const {
  const BadSamples& bad = options_.bad_samples;
  std::string text = fmt::format(
      "dataset {} with {} samples, batches of {}, {} shards of which {} at a time, shuffle {}, seed {}, "
      "blocks of "
      "{} x {}, tail {}, ranks split {}, {} epochs, {}; at epoch {}, sample {}, step {}",
      to_string(fingerprint()), run_order_.firsts.back(), options_.global_batch_size, options_.shards,
      options_.interleave, to_string(options_.shuffle), options_.seed, options_.block.samples,
      options_.block.blocks, to_string(options_.tail), to_string(options_.rank_split), options_.epochs,
      bad.policy == OnBadSample::skip ? fmt::format("up to {} bad samples skipped", bad.max_skipped)
                                      : "bad samples fail",
      position_.epoch, position_.consumed, position_.step);
  if (const MixtureState* state = mixture()) {
    const internal::MixtureRules& rules = run_order_.mix_plan->rules;
    text += fmt::format("; a mixture by weights {} since sample {}, which ends by rule {} after {} steps",
                        fmt::join(state->weights, ":"), state->changed_at, static_cast<int>(rules.end),
                        rules.steps);
  }
  return text;
}

void Loader::Impl::set_global_batch_size(std::int64_t size) {
  LoaderOptions changed = options_;
  changed.global_batch_size = size;
  changed.validate();
  options_.global_batch_size = size;
  change_and_restart([&](auto& planner) { planner.set_global_batch_size(size); });
}

void Loader::Impl::cursors(const LoaderPosition& place, std::int64_t first,
                           std::span<std::int64_t> out) const {
  // Not the maker's schedule, which a worker may be using.
  if (place.mixture) {
    internal::MixtureSchedule(run_order_.orders, run_order_.mix_plan->rules, WeightedTurns(*place.mixture))
        .cursors(place.position, first, out);
  } else {
    Schedule(run_order_.orders.front(), options_.tail, options_.epochs).cursors(place.position, first, out);
  }
}

LoaderStats Loader::Impl::stats() const {
  LoaderStats stats = stats_;
  stats.retries = maker_.retries();
  const Fetched fetched = internal::fetched_by(*source_);
  stats.fetched = {.files = fetched.files - fetched_before_.files,
                   .bytes = fetched.bytes - fetched_before_.bytes};
  if (ring_) {
    ring_->add_stats(stats);
  } else {
    stats.workers.push_back(inline_stats_);
  }
  return stats;
}

namespace {

std::shared_ptr<const Source> joined(const Mixture& mixture) {
  std::vector<std::shared_ptr<const Source>> sources;
  for (const WeightedSource& dataset : mixture.datasets) sources.push_back(dataset.source);
  return join(std::move(sources));
}

// Datasets that were asked twice.
void require_same_size(const Source& joined, const RunOrder& run_order) {
  if (joined.size() == run_order.firsts.back()) return;
  throw Error(
      ErrorCode::callback,
      fmt::format("mix datasets: they said that they have {} samples, and then {}; size() of a source must "
                  "not change",
                  joined.size(), run_order.firsts.back()));
}

std::size_t dataset_index(const Loader& loader, std::int64_t dataset) {
  if (dataset >= 0 && dataset < loader.datasets()) return static_cast<std::size_t>(dataset);
  throw Error(ErrorCode::out_of_range,
              fmt::format("ask a loader for dataset {}: it has {}", dataset, loader.datasets()));
}

// The world of a loader that was not told of any.
World world_alone() {
  if (const int ranks = mpi::job_size(); ranks > 1) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("make a loader without a World, while MPI runs {} ranks: each would read everything; "
                    "pass the communicator first, or World{{}} last if every rank is to read everything",
                    ranks));
  }
  return {};
}

// Runs `work` on this rank; where ranks make loaders together, on all of them, or it throws on all.
void run_with_others(const mpi::Communicator* comm, const std::function<void()>& work) {
  if (comm != nullptr) {
    mpi::together(*comm, "make a loader", work);
  } else {
    work();
  }
}

// Checks what a loader is to be made of.
RunOrder checked(const mpi::Communicator* comm, const LoaderOptions& options, const World& world,
                 const std::function<RunOrder()>& make_run_order) {
  std::optional<RunOrder> run_order;
  run_with_others(comm, [&] {
    options.validate();
    world.validate();
    run_order.emplace(make_run_order());
  });
  return *std::move(run_order);
}

}  // namespace

Loader::Impl::Owner Loader::Impl::make(const mpi::Communicator* comm, std::shared_ptr<const Source> source,
                                       RunOrder run_order, LoaderOptions options, World world) {
  const mpi::Communicator alone;
  SkipCounter counter(comm != nullptr ? *comm : alone,
                      options.bad_samples);  // before what may fail on one rank
  Owner impl;
  run_with_others(comm, [&] {
    impl.reset(
        new Impl(std::move(source), std::move(run_order), std::move(counter), std::move(options), world));
  });
  if (comm == nullptr) return impl;
  std::string described;
  run_with_others(comm, [&] { described = impl->described(); });
  mpi::require_same(*comm, "make loaders", described);
  return impl;
}

Loader::Impl::Owner Loader::Impl::make(const mpi::Communicator* comm, std::shared_ptr<const Source> source,
                                       LoaderOptions options, World world) {
  RunOrder run_order = checked(comm, options, world, [&] {
    if (source) return RunOrder(*source, options);
    throw Error(ErrorCode::invalid_argument, "make a loader: there is no source (a null pointer)");
  });
  return make(comm, std::move(source), std::move(run_order), std::move(options), world);
}

Loader::Impl::Owner Loader::Impl::make(const mpi::Communicator* comm, const Mixture& mixture,
                                       LoaderOptions options, World world) {
  std::shared_ptr<const Source> source;
  RunOrder run_order = checked(comm, options, world, [&] {
    mixture.validate();
    source = joined(mixture);
    RunOrder made(mixture, options);
    require_same_size(*source, made);
    return made;
  });
  return make(comm, std::move(source), std::move(run_order), std::move(options), world);
}

Loader::Loader(const mpi::Communicator& comm, std::shared_ptr<const Source> source, LoaderOptions options)
    : impl_(Impl::make(&comm, std::move(source), std::move(options), comm.world())) {}
Loader::Loader(const mpi::Communicator& comm, const Mixture& mixture, LoaderOptions options)
    : impl_(Impl::make(&comm, mixture, std::move(options), comm.world())) {}
Loader::Loader(std::shared_ptr<const Source> source, LoaderOptions options, World world)
    : impl_(Impl::make(nullptr, std::move(source), std::move(options), world)) {}
Loader::Loader(const Mixture& mixture, LoaderOptions options, World world)
    : impl_(Impl::make(nullptr, mixture, std::move(options), world)) {}
Loader::Loader(std::shared_ptr<const Source> source, LoaderOptions options)
    : Loader(std::move(source), std::move(options), world_alone()) {}
Loader::Loader(const Mixture& mixture, LoaderOptions options)
    : Loader(mixture, std::move(options), world_alone()) {}
Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

Loader::Impl& Loader::impl() const { return internal::owned(impl_, "a loader"); }

NextBatch<Batch> Loader::next() { return impl().next(); }
void Loader::warm_up() { impl().warm_up(); }
Position Loader::position() const { return impl().position(); }
std::optional<BatchSlot> Loader::when(SampleId id, std::int64_t epoch) const {
  return impl().when(id, epoch);
}
void Loader::seek(const Position& position) { impl().seek(position); }
void Loader::seek(const Position& position, const MixtureState& mixture) { impl().seek(position, mixture); }
void Loader::set_weights(std::span<const double> weights) { impl().set_weights(weights); }
const MixtureState* Loader::mixture() const { return impl().mixture(); }
void Loader::rescale(World world) { impl().rescale(world); }
void Loader::rescale(const mpi::Communicator& comm) { impl().rescale(comm); }
void Loader::set_global_batch_size(std::int64_t size) { impl().set_global_batch_size(size); }
World Loader::world() const { return impl().world(); }
const LoaderOptions& Loader::options() const { return impl().options(); }
const Source& Loader::source() const { return impl().source(); }
Fingerprint Loader::fingerprint() const { return impl().fingerprint(); }
std::int64_t Loader::datasets() const { return std::ssize(impl().run_order().orders); }
SampleId Loader::first_id(std::int64_t dataset) const {
  return {impl().run_order().first_id(dataset_index(*this, dataset))};
}
void Loader::cursors(std::int64_t first, std::span<std::int64_t> out) const {
  impl().cursors(impl().place(), first, out);
}
LoaderStats Loader::stats() const { return impl().stats(); }
const SkippedSamples& Loader::skipped() const { return internal::LoaderAccess::counter(*this).skipped(); }

namespace internal {

SkipCounter& LoaderAccess::counter(Loader& loader) { return loader.impl().counter(); }
const SkipCounter& LoaderAccess::counter(const Loader& loader) { return loader.impl().counter(); }
const Order& LoaderAccess::order(const Loader& loader, std::int64_t dataset) {
  return loader.impl().run_order().orders[dataset_index(loader, dataset)];
}
void LoaderAccess::require_place(const Loader& loader, const LoaderPosition& place) {
  loader.impl().require_place(place);
}
void LoaderAccess::cursors(const Loader& loader, const LoaderPosition& place, std::int64_t first,
                           std::span<std::int64_t> out) {
  loader.impl().cursors(place, first, out);
}

}  // namespace internal

}  // namespace rota
