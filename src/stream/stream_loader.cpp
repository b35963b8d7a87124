#include "rota/stream_loader.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "core/caught.hpp"
#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "core/option.hpp"
#include "core/owned.hpp"
#include "core/wait.hpp"
#include "ranks/collectives.hpp"
#include "stream/stream_loader_impl.hpp"

namespace rota {

using internal::DispatchFeed;
using internal::FeedHead;
using internal::ShardFeed;
using internal::StreamRun;

namespace {

// What a rank says of what comes next for it. The least of all ranks decides on the step: if any has failed,
// all throw; if any has a batch of epoch e, the step is of that epoch; if all are at its end, it is over. So
// are the steps behind it for which those that are not at the end have batches: nobody asks again for them.
constexpr std::int64_t kFailed = -1;
constexpr std::int64_t of_batch(std::int64_t epoch) { return 2 * epoch; }
constexpr std::int64_t of_end(std::int64_t epoch) { return 2 * epoch + 1; }
constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t of(const FeedHead& head) {
  if (head.kind == FeedHead::Kind::failed) return kFailed;
  return head.kind == FeedHead::Kind::batch ? of_batch(head.epoch) : of_end(head.epoch);
}
std::vector<std::int64_t> say(const FeedHead& head) {
  return {of(head), head.kind == FeedHead::Kind::batch ? head.ready : kAnyNumber};
}

// For a loader that is made without a communicator.
Communicator alone() {
  if (const int ranks = ranks::job_world().size; ranks > 1) {
    throw internal::failure(ErrorCode::invalid_argument,
                            "make a stream loader without a communicator, while MPI runs {} ranks: each "
                            "would read everything; pass that of the ranks that share the data, or a "
                            "default-made Communicator if every rank is to read everything",
                            ranks);
  }
  return {};
}

// What ranks say first of the loader that they make. What a source and a dispatch ask of all ranks differs.
constexpr std::string_view kOfSource = "a source that all ranks read";
constexpr std::string_view kOfDispatch = "a Dispatch, which rank 0 alone reads";

void refuse_replicas(const Communicator& comm) {
  if (comm.world() == World{.rank = comm.rank(), .size = comm.size()}) return;
  throw Error(ErrorCode::unsupported,
              "make stream loaders over replicas (data_parallel): streams are dealt out to the ranks of a "
              "communicator, each of which gets its own; make one of one rank of each data-parallel place, "
              "and send its batches to the others");
}

// Shares out the shards of a whole epoch; returns this rank's. Each rank asks what is in some of them.
std::vector<ShardId> share_out_all(const Communicator& comm, const StreamSource& source,
                                   std::int64_t shards) {
  std::vector<std::int64_t> weights(static_cast<std::size_t>(shards), 0);
  comm.together("ask what is in the shards of a stream", [&] {
    const std::int64_t end = share(shards, comm.rank() + 1, comm.size());
    for (std::int64_t s = share(shards, comm.rank(), comm.size()); s < end; ++s) {
      weights[static_cast<std::size_t>(s)] =
          internal::ask_remaining(source, {s}, {}).value_or(internal::kUnknownWeight);
    }
  });
  comm.sum(weights);
  const std::vector<int> owners = internal::share_out(weights, comm.size());
  std::vector<ShardId> owned;
  for (std::int64_t s = 0; s < shards; ++s) {
    if (owners[static_cast<std::size_t>(s)] == comm.rank()) owned.push_back({s});
  }
  return owned;
}

internal::StreamFacts facts_of(const StreamSource* source) {
  if (source == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "make a stream loader: there is no source (a null pointer); every rank needs it, but for one "
                "that rank 0 alone reads, which is for a Dispatch");
  }
  return internal::ask_facts(*source, "make a stream loader");
}

}  // namespace

void StreamLoaderOptions::validate() const {
  constexpr internal::OptionCheck kCheck("make a stream loader");
  kCheck.in_range("global_batch_size", global_batch_size, 1, kMaxBatchSize);
  kCheck.in_range("epochs", epochs, 1);
  kCheck.in_range("workers", workers, 0, internal::kMaxThreads, "0 = the caller's own thread");
  kCheck.in_range("read_ahead_batches", read_ahead_batches, 1, 65'536);
  kCheck.in_range("read_ahead_bytes", read_ahead_bytes, 0);
  kCheck.in_range("deadline", deadline, internal::kUnboundedTime, "0 = never");
  kCheck.one_of("settle", settle, internal::kSettles);
  kCheck.in_range("open_bytes", open_bytes, 1);
  allocator.validate();
}

template <typename Check>
StreamLoader::Impl::Impl(const Communicator& comm, std::string_view kind, StreamLoaderOptions options,
                         Check check)
    : options_(std::move(options)),
      agreement_(comm, ranks::Reduction::minimum, options_.deadline, "agree on a step of streams"),
      states_comm_(comm.duplicate(options_.deadline)) {
  ranks::require_same(comm, "make stream loaders", std::string(kind));
  comm.together("make stream loaders", [&] {
    options_.validate();
    refuse_replicas(comm);
    check();
    if (source_) fingerprint_ = source_->fingerprint();
  });
}

StreamLoader::Impl::Impl(const Communicator& comm, std::shared_ptr<const StreamSource> source,
                         StreamLoaderOptions options)
    : Impl(comm, kOfSource, std::move(options), [&] {
        if (settling_->is_by_hand()) {
          internal::OptionCheck("make a stream loader")
              .refuse(
                  "settle", "by_hand",
                  "at_delivery of a stream that all ranks read; give one of a single shard as a Dispatch, "
                  "or take a Loader of data with an index");
        }
        facts_ = facts_of(source.get());
        source_ = std::move(source);
      }) {
  ranks::require_same(comm, "make stream loaders", described());
  std::vector<ShardId> owned = share_out_all(comm, *source_, facts_.shards);
  start(
      [&] { shards_ = std::make_unique<ShardFeed>(*source_, *pool_, options_, world(), std::move(owned)); });
}

StreamLoader::Impl::Impl(const Communicator& comm, const Dispatch& dispatch, StreamLoaderOptions options)
    : Impl(comm, kOfDispatch, std::move(options), [&] { internal::check(dispatch, world()); }) {
  source_ = internal::describe(dispatch, comm);
  facts_ = facts_of(source_.get());
  fingerprint_ = source_->fingerprint();
  ranks::require_same(comm, "make stream loaders",
                      fmt::format("{}, split {}{}", described(), to_string(dispatch.rank_split),
                                  settling_->is_by_hand() ? ", settled by hand" : ""));
  Communicator line = comm.duplicate();
  start([&] {
    dispatch_ =
        std::make_unique<DispatchFeed>(dispatch, *pool_, options_, *settling_, agreement_, std::move(line));
  });
}

std::string StreamLoader::Impl::described() const {
  return fmt::format("{} shards with fingerprint {}, {} epochs", facts_.shards, to_string(fingerprint_),
                     options_.epochs);
}

// **Collective.**
template <typename Make>
void StreamLoader::Impl::start(Make make_feed) {
  comm().together("start the workers of stream loaders", [&] {
    const auto batches = static_cast<std::size_t>(options_.read_ahead_batches) + 2;
    pool_ = std::make_shared<internal::BatchPool>(facts_.fields, options_.allocator, batches,
                                                  options_.read_ahead_bytes);
    make_feed();
  });
}

NextBatch StreamLoader::Impl::next() {
  watch_.begin();
  if (settling_->is_by_hand()) settling_->ledger()->wait_for_room(options_.deadline);
  if (has_coming()) return deliver_again();
  NextBatch batch;
  if (!is_end()) set_quiet(false);
  while (!batch && !is_end()) {
    const std::int64_t step = agree();
    if (step == kFailed) fail();
    if (step == of_batch(run_.position.epoch)) {
      batch = deliver(run_.position.epoch);
    } else {
      end_epoch();
    }
  }
  if (!batch && !is_elsewhere_) set_quiet(true);  // nobody goes on from here
  if (!batch) watch_.end();
  return batch;
}

void StreamLoader::Impl::begin_for() {
  if (std::exchange(was_moved_, false) || run_.position.step == 0 || !is_end() || has_coming()) return;
  throw internal::failure(
      ErrorCode::invalid_argument,
      "begin a `for` over a stream loader: its epochs (the option epochs is {}) are over; ask for more of "
      "them, or make another loader",
      options_.epochs);
}

void StreamLoader::Impl::set_quiet(bool is_quiet) noexcept {
  agreement_.set_quiet(is_quiet);
  feed().set_quiet(is_quiet);
}

// **Collective.** What all ranks together come to next.
std::int64_t StreamLoader::Impl::agree() {
  if (is_elsewhere_) {
    if (!agreement_.is_under_way()) agreement_.begin({kFailed, kAnyNumber});
    static_cast<void>(agreement_.end());
    is_elsewhere_ = false;
    agreed_steps_ = 0;
  }
  if (agreed_steps_ > 0) {
    internal::Wait::here().check_now();
    --agreed_steps_;
    return of_batch(run_.position.epoch);
  }
  if (!agreement_.is_under_way()) {
    const auto head = feed().wait();
    internal::Wait::here().check_now();  // as long as no rank counts on this one
    agreement_.begin(say(head));
  }
  const auto least = agreement_.end();
  if (least[0] == of_batch(run_.position.epoch)) agreed_steps_ = least[1] - 1;
  return least[0];
}

// **Collective.** A rank that has failed tries again when it is called again.
void StreamLoader::Impl::fail() {
  std::exception_ptr error;
  if (const auto head = feed().peek(); head && of(*head) == kFailed) {
    error = internal::thrown_by([&] { feed().take(); });
  }
  agreement_.set_quiet(true);
  agreement_.agree(error);
  throw Error(ErrorCode::io, "agree on a step of streams: a rank has failed, and none says why");
}

Batch StreamLoader::Impl::deliver(std::int64_t epoch) {
  const auto head = feed().peek();
  std::unique_ptr<internal::BatchMemory> batch;
  if (head && of(*head) == of_batch(epoch)) {
    batch = feed().take();
  } else {
    batch = pool_->take();
    batch->resize_streams(0);
    batch->store.open();
  }
  batch->start = run_.position;
  batch->kinds.assign(batch->stream_ids.size(), SlotKind::sample);
  batch->epochs.assign(batch->stream_ids.size(), epoch);
  ++run_.position.step;
  batch->end = run_.position;
  watch_.end(batch->times, std::ssize(batch->stream_ids), batch->store.bytes());
  // Said now, so that the others need not wait for this rank to come by.
  std::optional<FeedHead> after;
  // What it throws is left: this batch is good, and it is tried again for the next one.
  static_cast<void>(internal::thrown_by([&] { after = feed().peek(); }));
  if (after && world().size > 1 && agreed_steps_ == 0) agreement_.begin(say(*after));
  return pool_->wrap(std::move(batch));
}

// **Collective.** Of items that come again: no step.
Batch StreamLoader::Impl::deliver_again() {
  std::unique_ptr<internal::BatchMemory> batch;
  states_comm_.together("hand out items again", [&] { batch = dispatch_->make_coming(); });
  dispatch_->pass_coming(*batch);
  batch->start = batch->end = run_.position;
  watch_.end(batch->times, std::ssize(batch->stream_ids), batch->store.bytes());
  return pool_->wrap(std::move(batch));
}

// All ranks are at the end of the epoch.
void StreamLoader::Impl::end_epoch() {
  feed().take();
  is_over_ = run_.position.step == run_.epoch_began;
  ++run_.position.epoch;
  run_.epoch_began = run_.position.step;
}

// **Collective.**
std::vector<std::string> StreamLoader::Impl::gather(const std::function<std::string()>& make) {
  constexpr std::string_view kPhase = "gather the state of a stream loader";
  std::string mine;
  states_comm_.together(kPhase, [&] { mine = make(); });
  return ranks::all_gather(states_comm_, kPhase, std::move(mine));
}

void StreamLoader::Impl::restart(const StreamRun& run) {
  run_ = run;
  is_over_ = false;
  was_moved_ = true;
  is_elsewhere_ = true;
}

StreamLoader::StreamLoader(const Communicator& comm, std::shared_ptr<const StreamSource> source,
                           StreamLoaderOptions options)
    : impl_(new Impl(comm, std::move(source), std::move(options))) {}
StreamLoader::StreamLoader(const Communicator& comm, const Dispatch& dispatch, StreamLoaderOptions options)
    : impl_(new Impl(comm, dispatch, std::move(options))) {}
StreamLoader::StreamLoader(std::shared_ptr<const StreamSource> source, StreamLoaderOptions options)
    : StreamLoader(alone(), std::move(source), std::move(options)) {}
StreamLoader::StreamLoader(const Dispatch& dispatch, StreamLoaderOptions options)
    : StreamLoader(alone(), dispatch, std::move(options)) {}
StreamLoader::~StreamLoader() = default;
StreamLoader::StreamLoader(StreamLoader&&) noexcept = default;
StreamLoader& StreamLoader::operator=(StreamLoader&&) noexcept = default;

StreamLoader::Impl& StreamLoader::impl() const { return internal::owned(impl_, "a stream loader"); }

NextBatch StreamLoader::next() { return impl().next(); }
void StreamLoader::begin_for() { impl().begin_for(); }
Position StreamLoader::position() const { return impl().run_.position; }
World StreamLoader::world() const { return impl().world(); }
const StreamLoaderOptions& StreamLoader::options() const { return impl().options_; }
const StreamSource& StreamLoader::source() const { return *impl().source_; }
Fingerprint StreamLoader::fingerprint() const { return impl().fingerprint_; }
LoaderStats StreamLoader::stats() const {
  LoaderStats stats = impl().watch_.stats();
  impl().feed().add_stats(stats);
  impl().settling_->add_stats(stats);
  return stats;
}

}  // namespace rota
