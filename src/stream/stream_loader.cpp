#include "rota/stream_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "mpi/minimum.hpp"
#include "rota/error.hpp"
#include "stream/ownership.hpp"
#include "stream/ring.hpp"
#include "stream/stream_state.hpp"

namespace rota {

using internal::RingHead;
using internal::ShardPlace;
using internal::StreamRing;
using internal::StreamRun;

namespace {

// What a rank says of what comes next for it. The least of all ranks decides on the step: if any has failed,
// all throw; if any has a batch of epoch e, the step is of that epoch; if all are at its end, it is over.
constexpr std::int64_t kFailed = -1;
constexpr std::int64_t of_batch(std::int64_t epoch) { return 2 * epoch; }
constexpr std::int64_t of_end(std::int64_t epoch) { return 2 * epoch + 1; }
constexpr std::int64_t of(const RingHead& head) {
  if (head.kind == RingHead::Kind::failed) return kFailed;
  return head.kind == RingHead::Kind::batch ? of_batch(head.epoch) : of_end(head.epoch);
}

// Throws on all ranks unless all say the same.
void require_same(const mpi::Communicator& comm, const std::string& here) {
  const std::string first = mpi::broadcast(comm, here);
  mpi::together(comm, "make stream loaders", [&] {
    if (here == first) return;
    throw Error(ErrorCode::mismatch,
                fmt::format("make stream loaders: rank 0 has {}; this rank has {}; give all ranks the same",
                            first, here));
  });
}

}  // namespace

class StreamLoader::Impl {
 public:
  Impl(std::shared_ptr<const StreamSource> source, StreamLoaderOptions options)
      : source_(std::move(source)),
        options_(std::move(options)),
        agreement_(options_.comm, options_.deadline, "agree on a step of streams") {
    options_.comm = nullptr;
    mpi::together(comm(), "make stream loaders", [this] { check(); });
    require_same(comm(), fmt::format("{} shards with fingerprint {}, {} epochs", source_->shards(),
                                     to_string(fingerprint_), options_.epochs));
    share_out_all();
    mpi::together(comm(), "start the workers of stream loaders", [this] { start(); });
  }

  std::optional<StreamBatch> next();
  void go_on(StreamRun run);
  [[nodiscard]] int owner(ShardId shard) const;
  [[nodiscard]] LoaderStats stats() const;

  [[nodiscard]] const StreamRun& run() const noexcept { return run_; }
  [[nodiscard]] World world() const noexcept { return agreement_.comm().world(); }
  [[nodiscard]] const StreamLoaderOptions& options() const noexcept { return options_; }
  [[nodiscard]] const StreamSource& source() const noexcept { return *source_; }
  [[nodiscard]] Fingerprint fingerprint() const noexcept { return fingerprint_; }

 private:
  [[nodiscard]] const mpi::Communicator& comm() const noexcept { return agreement_.comm(); }
  [[nodiscard]] bool is_end() const noexcept { return is_over_ || run_.position.epoch >= options_.epochs; }
  void check();
  void share_out_all();
  void start();
  void begin_epoch(const StreamPosition& position);
  void prepare() noexcept;
  [[nodiscard]] std::int64_t wish();
  [[nodiscard]] std::int64_t agree();
  [[noreturn]] void fail();
  StreamBatch deliver(std::int64_t epoch);
  void end_epoch();
  void advance(internal::StreamBatchMemory& batch);

  std::shared_ptr<const StreamSource> source_;
  StreamLoaderOptions options_;
  Fingerprint fingerprint_;
  mpi::Minimum agreement_;
  std::vector<int> owners_;     // of all shards, in each epoch begun
  std::vector<ShardId> owned_;  // this rank's of them
  StreamRun run_;
  bool is_over_ = false;       // an epoch had no samples
  bool is_elsewhere_ = false;  // what ranks may have said of a step before does not count
  LoaderStats stats_;
  std::shared_ptr<internal::StreamBatchPool> pool_;
  std::exception_ptr error_;  // of a ring that cannot be made
  std::optional<StreamRing> ring_;
};

void StreamLoader::Impl::check() {
  options_.validate();
  if (!source_) {
    throw Error(ErrorCode::invalid_argument, "make a stream loader: there is no source (a null pointer)");
  }
  if (source_->shards() < 1 || source_->cursor_numbers() < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("make a stream loader: the source has {} shards, and cursors of {} numbers; it "
                            "must have 1 or more of each",
                            source_->shards(), source_->cursor_numbers()));
  }
  fingerprint_ = source_->fingerprint();
}

// Shares out the shards of a whole epoch. Each rank asks what is in some of them.
void StreamLoader::Impl::share_out_all() {
  const std::int64_t shards = source_->shards();
  std::vector<std::int64_t> weights(static_cast<std::size_t>(shards), 0);
  mpi::together(comm(), "ask what is in the shards of a stream", [&] {
    const std::int64_t end = share(shards, world().rank + 1, world().size);
    for (std::int64_t s = share(shards, world().rank, world().size); s < end; ++s) {
      const auto samples = source_->remaining({s}, {});
      weights[static_cast<std::size_t>(s)] =
          samples ? std::max<std::int64_t>(*samples, 0) : internal::kUnknownWeight;
    }
  });
  mpi::sum(comm(), weights);
  owners_ = internal::share_out(weights, world().size);
  for (std::int64_t s = 0; s < shards; ++s) {
    if (owners_[static_cast<std::size_t>(s)] == world().rank) owned_.push_back({s});
  }
}

void StreamLoader::Impl::start() {
  const auto batches = static_cast<std::size_t>(options_.read_ahead_batches) + 2;
  pool_ = std::make_shared<internal::StreamBatchPool>(source_->fields(), options_.allocator, batches,
                                                      options_.read_ahead_bytes);
  begin_epoch({});
  prepare();
  if (error_) std::rethrow_exception(error_);
}

void StreamLoader::Impl::begin_epoch(const StreamPosition& position) {
  run_ = {.position = position, .epoch_began = position.step, .owners = owners_, .places = {}, .first = 0};
  for (const ShardId shard : owned_) run_.places.push_back({.shard = shard, .cursor = {}});
}

// Begins to read where the run is, if that is not under way.
void StreamLoader::Impl::prepare() noexcept {
  if (ring_) return;
  try {
    error_ = nullptr;
    const World world = this->world();
    const std::int64_t first = share(options_.global_batch_size, world.rank, world.size);
    const std::int64_t most = share(options_.global_batch_size, world.rank + 1, world.size) - first;
    ring_.emplace(*source_, *pool_, options_, std::max<std::int64_t>(most, 1),
                  internal::RingStart{.world = world,
                                      .epoch = run_.position.epoch,
                                      .places = run_.places,
                                      .first = run_.first,
                                      .later = owned_});
  } catch (...) {
    error_ = std::current_exception();
  }
}

std::optional<StreamBatch> StreamLoader::Impl::next() {
  const auto start = std::chrono::steady_clock::now();
  std::optional<StreamBatch> batch;
  if (!is_end()) agreement_.set_quiet(false);
  while (!batch && !is_end()) {
    const std::int64_t step = agree();
    if (step == kFailed) fail();
    if (step == of_batch(run_.position.epoch)) {
      batch = deliver(run_.position.epoch);
    } else {
      end_epoch();
    }
  }
  if (!batch && !is_elsewhere_) agreement_.set_quiet(true);  // nobody goes on from here
  stats_.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return batch;
}

std::int64_t StreamLoader::Impl::wish() {
  prepare();
  return error_ ? kFailed : of(ring_->wait());
}

// **Collective.** What all ranks together come to next.
std::int64_t StreamLoader::Impl::agree() {
  if (is_elsewhere_) {
    if (!agreement_.is_posted()) agreement_.post(kFailed);
    static_cast<void>(agreement_.finish());
    is_elsewhere_ = false;
  }
  if (!agreement_.is_posted()) agreement_.post(wish());
  return agreement_.finish();
}

// **Collective.** The ring of a rank that has failed is made anew when it is called again: what the caller
// does until then may mend it.
void StreamLoader::Impl::fail() {
  std::exception_ptr error = std::exchange(error_, nullptr);
  if (ring_ && ring_->peek() && of(*ring_->peek()) == kFailed) {
    try {
      ring_->take();
    } catch (...) {
      error = std::current_exception();
    }
    ring_.reset();
  }
  agreement_.set_quiet(true);
  agreement_.agree(error);
  throw Error(ErrorCode::io, "agree on a step of streams: a rank has failed, and none says why");
}

StreamBatch StreamLoader::Impl::deliver(std::int64_t epoch) {
  const auto head = ring_->peek();
  std::unique_ptr<internal::StreamBatchMemory> batch;
  if (head && of(*head) == of_batch(epoch)) {
    batch = ring_->take();
    advance(*batch);
  } else {
    batch = pool_->take();
    batch->open(0);
  }
  batch->start = run_.position;
  ++run_.position.step;
  ++stats_.batches;
  stats_.samples += std::ssize(batch->ids);
  stats_.bytes += static_cast<std::int64_t>(batch->store.bytes());
  // Said now, so that the others need not wait for this rank to come by.
  const auto after = ring_->peek();
  if (after && world().size > 1) agreement_.post(of(*after));
  return pool_->wrap(std::move(batch));
}

void StreamLoader::Impl::advance(internal::StreamBatchMemory& batch) {
  for (internal::Advance& advance : batch.advances) {
    ShardPlace& place = run_.places[advance.shard];
    ++place.position;
    ++place.skip;
    if (!advance.has_cursor) continue;
    std::swap(place.cursor, advance.cursor);
    internal::forget_blob(advance.cursor);
    place.skip = 0;
  }
  run_.first = (batch.advances.back().shard + 1) % run_.places.size();
  for (const std::size_t shard : batch.ended) {
    ShardPlace& place = run_.places[shard];
    place.is_done = true;
    place.cursor = {};  // nothing will be read there
    place.skip = place.position;
  }
}

// All ranks are at the end of the epoch.
void StreamLoader::Impl::end_epoch() {
  ring_->take();
  is_over_ = run_.position.step == run_.epoch_began;
  begin_epoch({.epoch = run_.position.epoch + 1, .step = run_.position.step});
}

void StreamLoader::Impl::go_on(StreamRun run) {
  ring_.reset();
  run_ = std::move(run);
  is_over_ = false;
  is_elsewhere_ = true;
  prepare();
}

int StreamLoader::Impl::owner(ShardId shard) const {
  if (shard.value >= 0 && shard.value < std::ssize(run_.owners)) {
    return run_.owners[static_cast<std::size_t>(shard.value)];
  }
  throw Error(ErrorCode::out_of_range,
              fmt::format("ask who owns shard {}: there are {}, from 0 on", shard.value, run_.owners.size()));
}

LoaderStats StreamLoader::Impl::stats() const {
  LoaderStats stats = stats_;
  if (ring_) ring_->add_stats(stats);
  return stats;
}

StreamLoader::StreamLoader(std::shared_ptr<const StreamSource> source, StreamLoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(source), std::move(options))) {}
StreamLoader::~StreamLoader() = default;
StreamLoader::StreamLoader(StreamLoader&&) noexcept = default;
StreamLoader& StreamLoader::operator=(StreamLoader&&) noexcept = default;

std::optional<StreamBatch> StreamLoader::next() { return impl_->next(); }
StreamPosition StreamLoader::position() const noexcept { return impl_->run().position; }
int StreamLoader::owner(ShardId shard) const { return impl_->owner(shard); }
World StreamLoader::world() const noexcept { return impl_->world(); }
const StreamLoaderOptions& StreamLoader::options() const noexcept { return impl_->options(); }
const StreamSource& StreamLoader::source() const noexcept { return impl_->source(); }
Fingerprint StreamLoader::fingerprint() const noexcept { return impl_->fingerprint(); }
LoaderStats StreamLoader::stats() const { return impl_->stats(); }

namespace internal {

const StreamRun& StreamState::run(const StreamLoader& loader) noexcept { return loader.impl_->run(); }
void StreamState::go_on(StreamLoader& loader, StreamRun run) { loader.impl_->go_on(std::move(run)); }

}  // namespace internal
}  // namespace rota
