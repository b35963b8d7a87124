#include "stream/dispatch_feed.hpp"

#include <algorithm>
#include <cassert>
#include <new>
#include <string_view>
#include <utility>

#include "core/caught.hpp"
#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "core/option.hpp"
#include "order/shard_plan.hpp"
#include "ranks/access.hpp"
#include "ranks/collectives.hpp"
#include "rota/cereal.hpp"
#include "stream/stream_facts.hpp"

namespace rota {

template <typename Archive>
void serialize(Archive& archive, Field& field) {
  archive(field.name, field.dtype, field.shape, field.ragged);
}

}  // namespace rota

namespace rota::internal {

namespace {

constexpr std::string_view kDispatching = "dispatch a source";

/// What rank 0 tells of its source.
struct Description {
  StreamFacts facts;
  Fingerprint fingerprint;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(facts.fields, facts.shards, facts.cursor_numbers, fingerprint.high, fingerprint.low);
  }
};

class DispatchedSource final : public StreamSource {
 public:
  DispatchedSource(Description description, std::int64_t shards)
      : facts_(std::move(description.facts)),
        fingerprint_(FingerprintBuilder()
                         .add("dispatch")
                         .add(rota::to_string(description.fingerprint))
                         .add(shards)
                         .finish()) {
    facts_.shards = shards;
  }

  [[nodiscard]] const std::vector<Field>& fields() const override { return facts_.fields; }
  [[nodiscard]] std::int64_t shards() const override { return facts_.shards; }
  [[nodiscard]] std::int64_t cursor_numbers() const override { return facts_.cursor_numbers; }
  [[nodiscard]] Fingerprint fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t /*epoch*/,
                                                  const StreamCursor& /*cursor*/) const override {
    throw failure(
        ErrorCode::unsupported,
        "open shard {} of a dispatch: it is read by the loader on rank 0 alone; ask the loader for batches",
        shard.value);
  }

 private:
  StreamFacts facts_;
  Fingerprint fingerprint_;
};

}  // namespace

void check(const Dispatch& dispatch, const World& world) {
  if (world.rank == 0 && dispatch.source == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "dispatch a source: the source is null on rank 0, which reads it; set it there, and pass the "
                "communicator of all ranks that share its samples to the StreamLoader: with a default-made "
                "one each process is rank 0");
  }
  constexpr OptionCheck kCheck(kDispatching);
  kCheck.in_range("shards", dispatch.shards, 1, kMaxShards);
  kCheck.one_of("rank_split", dispatch.rank_split, std::span(kSplits).first(2));  // not interleaved
}

std::shared_ptr<const StreamSource> describe(const Dispatch& dispatch, const Communicator& comm) {
  const std::string text = ranks::on_first_rank(comm, "ask what a dispatched source is", [&] {
    Description description{.facts = ask_facts(*dispatch.source, kDispatching),
                            .fingerprint = dispatch.source->fingerprint()};
    if (description.facts.shards == 1) return to_blob(description);
    throw failure(ErrorCode::invalid_argument,
                  "{}: it has {} shards, and what is read once has 1; give it to a stream loader as it is",
                  kDispatching, description.facts.shards);
  });
  return std::make_shared<DispatchedSource>(from_blob<Description>(text), dispatch.shards);
}

DispatchFeed::DispatchFeed(const Dispatch& dispatch, BatchPool& pool, const StreamLoaderOptions& options,
                           const Settling& settling, ranks::DeferredReduction& agreement,
                           Communicator channel)
    : source_(agreement.comm().rank() == 0 ? dispatch.source : nullptr),
      pool_(&pool),
      options_(&options),
      settling_(&settling),
      layout_(*pool.fields()),
      plan_{.shards = dispatch.shards, .split = dispatch.rank_split, .ranks = agreement.comm().size()},
      agreement_(&agreement),
      rank_(agreement.comm().rank()),
      messages_(std::move(channel)) {
  restart({});
}

DispatchFeed::~DispatchFeed() {
  ranks::Exchange* const exchange = CommunicatorAccess::exchange(messages_.channel());
  if (exchange != nullptr && !is_quiet_) exchange->abandon();
}

StepBuilder& DispatchFeed::builder() const {
  if (builder_) return *builder_;
  throw Error(ErrorCode::invalid_argument,
              "go on with a dispatch: it could not be restored; restore it again, or make it anew");
}

void DispatchFeed::add_stats(LoaderStats& stats) const {
  if (rank_ == 0) builder().add_stats(stats);
  stats.ready_batches += std::ranges::count_if(undelivered_, &StepMessages::is_batch);
}

// Takes what has come to be there since the last call, and on rank 0 pushes it. Throws RankLost.
void DispatchFeed::move_on() {
  if (rank_ > 0) return receive();
  builder().resume();
  while (auto messages = builder().poll()) undelivered_.push_back(*std::move(messages));
  for (; pushed_ < undelivered_.size(); ++pushed_) messages_.send(undelivered_[pushed_].by_rank);
  messages_.progress();
}

// The same where this rank does not wait: one that has gone may have had all that it wanted.
void DispatchFeed::collect() {
  try {
    move_on();
  } catch (const ranks::RankLost&) {
  }
}

// Messages of another generation are dropped.
void DispatchFeed::receive() {
  constexpr MessageHead kNoMemory{.kind = FeedHead::Kind::failed};
  try {
    while (RankMessage message = messages_.receive()) {
      StepMessages step{.head = head_of(message)};
      if (step.head.generation != generation_) continue;
      if (step.head.kind == FeedHead::Kind::failed) {
        step.error =
            std::make_exception_ptr(Error(ErrorCode::io, "take items of a dispatch: rank 0 has failed"));
      }
      step.by_rank.push_back(std::move(message));
      undelivered_.push_back(std::move(step));
    }
  } catch (const ranks::RankLost&) {
    if (undelivered_.empty()) throw;
  } catch (const std::bad_alloc&) {
    if (undelivered_.empty()) undelivered_.push_back({.head = kNoMemory, .error = std::current_exception()});
  }
}

std::optional<FeedHead> DispatchFeed::peek() {
  collect();
  if (next_) return next_->head;
  return undelivered_.empty() ? std::nullopt : std::optional(open());
}

FeedHead DispatchFeed::wait() {
  if (next_) return next_->head;
  const auto may_go_on = [this] {
    move_on();
    return rank_ == 0 || !undelivered_.empty();
  };
  plan_.ranks > 1 ? agreement_->await(may_go_on) : move_on();
  if (undelivered_.empty()) {
    undelivered_.push_back(builder().wait());
    collect();
  }
  return open();
}

// What may fail does so here, before anything is promised.
FeedHead DispatchFeed::open() {
  const StepMessages& step = undelivered_.front();
  assert(step.error || (step.head.epoch == epoch_ && step.head.first == delivered_));
  OpenedStep& next = next_.emplace();
  next.error = step.is_batch() ? thrown_by([&] { next.batch = decode(step, next.items); }) : step.error;
  next.head = {.kind = next.error ? FeedHead::Kind::failed : step.head.kind, .epoch = epoch_};
  return next.head;
}

std::unique_ptr<BatchMemory> DispatchFeed::decode(const StepMessages& step, KeptSamples& kept_ones) const {
  std::vector<SampleName> items;
  std::vector<ByteSpan> records;
  ByteSpan rest = records_of(step.by_rank.front());
  for (const DispatchPlan::Slot& slot : plan_.slots(step.head.first, step.head.count)) {
    if (slot.rank != rank_) continue;
    items.push_back({{step.head.first + slot.item}, step.head.epoch});
    records.push_back(layout_.first(rest));
    rest = rest.subspan(records.back().size());
    if (settling_->is_by_hand())
      kept_ones.push_back(kept(step.head.epoch, step.head.first + slot.item, records.back()));
  }
  return make_batch(items, records);
}

std::unique_ptr<BatchMemory> DispatchFeed::make_batch(SampleNames items,
                                                      std::span<const ByteSpan> records) const {
  auto batch = pool_->take();
  batch->resize_streams(items.size());
  batch->kinds.assign(items.size(), SlotKind::sample);
  batch->epochs.clear();
  batch->ids.clear();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto& [id, epoch] = items[i];
    const std::int64_t position = plan_.position_of(id.value);
    batch->stream_ids[i] = {.shard = plan_.shard_of(id.value), .input = position};
    batch->positions[i] = position;
    batch->epochs.push_back(epoch);
    if (settling_->is_by_hand()) batch->ids.push_back(id);
  }
  layout_.decode(records, *batch);
  return batch;
}

// All ranks cut it into the same batches.
void DispatchFeed::come_again(KeptSamples items) {
  std::ranges::sort(items, {}, &KeptSample::place);
  const std::int64_t size = options_->global_batch_size;
  for (std::int64_t begin = 0; begin < std::ssize(items); begin += size) {
    const std::int64_t count = std::min(size, std::ssize(items) - begin);
    const auto batch =
        std::span(items).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
    KeptSamples& mine = coming_.emplace_back();
    int rank = 0;  // of the item under by_sample
    for (std::int64_t at = 0; at < count; ++at) {
      while (at == share(count, rank + 1, plan_.ranks)) ++rank;
      KeptSample& item = batch[static_cast<std::size_t>(at)];
      const std::int64_t shard = plan_.shard_of(item.name.id.value).value;
      if ((plan_.split == Split::by_sample ? rank : shard % plan_.ranks) == rank_)
        mine.push_back(std::move(item));
    }
  }
}

std::unique_ptr<BatchMemory> DispatchFeed::make_coming() const {
  std::vector<SampleName> names;
  std::vector<ByteSpan> records;
  for (const KeptSample& item : coming_.front()) {
    names.push_back(item.name);
    records.push_back(item.bytes());
  }
  return make_batch(names, records);
}

void DispatchFeed::pass_coming(BatchMemory& batch) {
  hand_out(batch, std::move(coming_.front()));
  coming_.pop_front();
}

void DispatchFeed::hand_out(BatchMemory& batch, KeptSamples items) const {
  batch.start = batch.end = {};  // to the ledger all are alike: what is open is kept, and no place goes back
  if (settling_->is_by_hand()) settling_->ledger()->hand_out(batch, std::move(items));
}

KeptSamples DispatchFeed::open_items() const {
  KeptSamples items = settling_->ledger()->open_items();
  for (const auto& batch : coming_) items.insert(items.end(), batch.begin(), batch.end());
  return items;
}

std::unique_ptr<BatchMemory> DispatchFeed::take() {
  OpenedStep next = *std::exchange(next_, std::nullopt);
  const StepMessages& front = undelivered_.front();
  // The error is of this rank alone: the message is to be opened again.
  if (next.error && !front.error) std::rethrow_exception(next.error);
  if (next.batch) hand_out(*next.batch, std::move(next.items));
  if (rank_ == 0) {
    builder().drop(front);
    --pushed_;
  }
  delivered_ += front.head.count;
  undelivered_.pop_front();
  if (next.error) std::rethrow_exception(next.error);
  if (next.head.kind == FeedHead::Kind::epoch_end) {
    ++epoch_;
    delivered_ = 0;
  }
  return std::move(next.batch);
}

SourceProgress DispatchFeed::pause(KeptSamples& out) {
  builder().pause();
  for (const StepMessages& messages : undelivered_) builder().add_items(messages, out);
  return builder().add_pending(out);
}

void DispatchFeed::restart(DispatchStart start) {
  builder_ = nullptr;
  next_.reset();
  undelivered_.clear();
  coming_.clear();
  generation_ = start.generation = restores_;
  epoch_ = start.epoch;
  delivered_ = start.delivered;
  if (rank_ > 0) return;
  pushed_ = 0;
  builder_ = std::make_unique<StepBuilder>(*source_, layout_, plan_, *options_, std::move(start));
}

}  // namespace rota::internal
