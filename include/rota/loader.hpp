#pragma once

// The loader: reads ahead with worker threads and hands out this rank's slice of each global batch, in order.
// Next: stream.hpp.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "rota/bad_samples.hpp"
#include "rota/batch.hpp"
#include "rota/loader_stats.hpp"
#include "rota/mixture.hpp"
#include "rota/order.hpp"
#include "rota/schedule.hpp"
#include "rota/source.hpp"
#include "rota/types.hpp"
#include "rota/world.hpp"

namespace rota {

namespace internal {
class LoaderAccess;
}

/// What a transform is told about the sample at hand. `key` is a hash of seed, epoch and id: random
/// augmentation that draws from it repeats at any world size and after any resume.
struct TransformContext {
  std::int64_t epoch = 0;
  SampleId id = {};
  std::uint64_t key = 0;
};

/// One sample: its fields, and the bytes of each.
struct SampleView {
  std::span<const Field> fields;
  std::span<const std::span<std::byte>> bytes;
  /// Field f as elements of T, which must be its type, as for Tensor::as. Throws Error{mismatch} where it is
  /// not, Error{out_of_range} for a field that there is not.
  template <typename T>
  [[nodiscard]] std::span<T> as(std::size_t f) const {
    if (f >= fields.size()) [[unlikely]]
      internal::refuse_field(f, fields.size());
    return Tensor{.field = &fields[f], .bytes = bytes[f]}.as<T>();
  }
};

/// A callable run on every sample, in the worker that read it; any thread, so it must not share state
/// unguarded. With `fields` empty it changes the source's fields in place (`in` and `out` are the same
/// memory). Otherwise it makes these, all of fixed shape and as a source's may be, from `in`; `out` is
/// unspecified before. What it throws reaches `next()`, unless BadSamples has the sample skipped.
struct Transform {
  std::function<void(const TransformContext& context, const SampleView& in, const SampleView& out)> apply =
      {};
  std::vector<Field> fields = {};
};

/// One dataset of a mixture.
struct WeightedSource {
  std::shared_ptr<const Source> source = nullptr;
  double weight = 1;  ///< of its samples among those of all; 0: none of them
};

/// Datasets with the same fields that take turns by weight.
///
/// Each goes through epochs of its own, cut into LoaderOptions::shards shards of its own. Which of them has a
/// turn depends on nothing but the weights: of n samples since they were set, dataset d has had n w_d /
/// (w_0 + ... + w_last), give or take less than one, where w are quantised weights. The order in a batch is
/// (dataset, epoch, shard, position). Under Tail::pad, samples that would come next fill up the last one.
struct Mixture {
  std::vector<WeightedSource> datasets = {};
  MixtureEnd end = MixtureEnd::first_exhausted;
  std::int64_t steps = 0;  ///< of the run, where it ends by them

  /// Throws Error{invalid_argument} for a dataset that is null or empty, for weights as `quantise` does, and
  /// for `steps` without MixtureEnd::steps or the other way round, and an `end` that there is not.
  void validate() const;
};

/// No last epoch.
inline constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

/// What a loader is to do. The dataset, `shards`, `interleave`, `shuffle`, `seed` and `block` define the
/// order, and must be the same on resume; all else is free to change then, the world included.
struct LoaderOptions {
  std::int64_t global_batch_size = 32;  ///< B: samples per step over all ranks together; 1 to 2^31 - 1
  /// L: logical shards. It does not limit ranks or workers. More of them mix better under Shuffle::none and
  /// within, fewer read more in sequence. Fixed for a run. 1 to 2^24, those of all datasets of a mixture
  /// together.
  std::int64_t shards = 256;
  std::int64_t interleave = 0;  ///< G: shards consumed at a time; 0 = all
  Shuffle shuffle = Shuffle::global;
  std::uint64_t seed = 0;
  BlockShape block = {};  ///< of Shuffle::block
  Tail tail = Tail::partial;
  /// Which rank reads what of a batch. Under by_shard, shard s goes to rank s % R, and ranks without a shard
  /// in a batch have none of its samples; have several shards for each rank.
  Split rank_split = Split::by_sample;
  /// The same for the workers of a rank, whose parts of its batch are then side by side (by_sample), or dealt
  /// out in turn (interleaved), each sample a read of its own. Under by_shard, shard s goes to worker s % W,
  /// or to s / R % W where ranks are split by shard, too.
  Split worker_split = Split::by_sample;
  std::int64_t epochs = 1;  ///< passes over the dataset, or kEndless
  int workers = 1;  ///< reading threads of this rank, up to 4,096; 0 = the caller's own, inside next()
  std::int64_t read_ahead_batches = 4;  ///< at most this many batches in work or ready; 1 to 65,536
  /// And this many bytes, or one batch if it is larger. All tensors' memory, that of batches which the caller
  /// has not dropped apart, stays under 5/4 of it and of five batches.
  std::int64_t read_ahead_bytes = std::int64_t{256} << 20;
  Transform transform = {};
  Allocator allocator = {};
  BadSamples bad_samples = {};

  /// Throws Error{invalid_argument} naming the option, its value and what it may be.
  void validate() const;
};

/// Feeds one rank. The position moves when `next()` hands a batch over; batches read ahead are not state.
/// Methods are called from *one thread*; batches may die on any. Worker threads live as long as the loader.
/// One that was moved from throws Error{invalid_argument} from every method, one in a forked child
/// Error{unsupported}.
///
/// Where bad samples are skipped, `next` is **collective** over BadSamples::comm. It waits for
/// none of its ranks but those that are more than a step behind, and no longer than BadSamples::deadline.
/// When that is over it throws Error{timeout} that names the missing ranks, now and from then on: end the
/// job. What it throws on one rank for that rank's own batch, it throws on the others one step later, as an
/// Error that names the rank; they may call again, too.
class Loader {
 public:
  /// Starts the workers. `source`, options that define the order and `world.size` must be the same on all
  /// ranks, else samples are repeated or missed; see require_same in resume.hpp. Throws
  /// Error{invalid_argument} from `options.validate()`, `world.validate()`, for a null source, and for an
  /// order that needs all shared files at all times (not Shuffle::none or within, or interleave 0);
  /// Error{callback} for a size, fields or shard lengths of the source's own that cannot be; Error{io} where
  /// the system starts no more threads; and what Source::hold throws.
  Loader(std::shared_ptr<const Source> source, LoaderOptions options, World world);
  /// Over several datasets. The same, and Error{invalid_argument} from `mixture.validate()` and for fields
  /// that differ.
  Loader(const Mixture& mixture, LoaderOptions options, World world);
  /// The same for a process that is alone. Error{invalid_argument} where MPI runs more than one rank: each
  /// would read everything. Where that is wanted, pass World{}.
  Loader(std::shared_ptr<const Source> source, LoaderOptions options);
  Loader(const Mixture& mixture, LoaderOptions options);
  /// Waits for reads that are under way.
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  /// The next batch, or nothing after the last epoch. Blocks until it is read. Every rank gets the same
  /// number. Throws what the source or the transform threw for a sample of this batch, in the batch's place,
  /// as an Error that names sample and file; the position stays, and calling again tries the same batch
  /// again. Throws Error{invalid_argument} for a batch of more than 2^50 bytes, Error{io} for one that there
  /// is no memory for, Error{callback} for memory of an Allocator that cannot be used.
  NextBatch<Batch> next();

  /// Reads ahead as far as the options allow, and returns when that is done, so that the first step waits for
  /// nothing. What fails then is thrown by next() in its turn. Without workers there is nothing to do.
  void warm_up();

  /// Where the run is: after the last batch handed over.
  [[nodiscard]] Position position() const;

  /// Which batch sample `id` is in as a sample of `epoch`, which rank of this world reads it, and in which
  /// slot: if the run goes on from position() as it is, batch size included. What lies behind is told as of a
  /// run that was like this from its beginning. `id` is as in Batch::ids(); of a Mixture, `epoch` is its
  /// dataset's own. Nothing for what this run never reads: dropped by Tail::drop, or past its last epoch or
  /// step. O(L + B); reads and sends nothing. Throws Error{out_of_range} for an id or epoch that there is
  /// not, and Error{unsupported} for what lies behind where position() shows that the run was not always like
  /// this.
  [[nodiscard]] std::optional<BatchSlot> when(SampleId id, std::int64_t epoch) const;

  /// Goes to `position`, one that a run of this order, and of the weights as they are, had between two steps.
  /// What was read ahead is dropped. An epoch past the last is the end of the run. Throws Error{out_of_range}
  /// for a place that no epoch has, and for epochs and steps that are not 0 to 2^62.
  void seek(const Position& position);

  /// Goes on from the same position in another world; no file, no communication. Throws as `world.validate()`
  /// does.
  void rescale(World world);
  /// The same where bad samples are skipped, and other ranks count them together from here on.
  /// **Collective** over `comm`, which is duplicated: over those that stay, and those that join with a loader
  /// made without BadSamples::comm. Those that leave end their loaders at this step; what they have listed
  /// leaves with them. The count goes on.
  void rescale(World world, const mpi::Communicator& comm);
  /// Goes on with another global batch size, which every rank must set at the same step.
  /// Throws Error{invalid_argument} unless it is 1 to 2^31 - 1.
  void set_global_batch_size(std::int64_t size);

  /// Goes on with other weights of a mixture, which every rank must set at the same step. Throws
  /// Error{invalid_argument} as `quantise` does, for another number of them, and where nothing is mixed.
  void set_weights(std::span<const double> weights);
  /// Where the mixture stands; null where nothing is mixed. Valid until it changes.
  [[nodiscard]] const MixtureState* mixture() const;
  /// Goes to a place of a mixture as it was then. Throws Error{invalid_argument} for a state that is none, or
  /// of another number of datasets, Error{out_of_range} for a position before its weights were set.
  void seek(const Position& position, const MixtureState& mixture);

  [[nodiscard]] World world() const;
  [[nodiscard]] const LoaderOptions& options() const;
  /// Of a mixture, all its datasets joined.
  [[nodiscard]] const Source& source() const;
  /// The source's fingerprint, which it is asked for once.
  [[nodiscard]] Fingerprint fingerprint() const;
  /// Datasets that are mixed, or 1.
  [[nodiscard]] std::int64_t datasets() const;
  /// Throws Error{out_of_range} for a dataset that there is not, as first_id does.
  [[nodiscard]] const Order& order(std::int64_t dataset = 0) const;
  /// The id, in batches, of a dataset's first sample.
  [[nodiscard]] SampleId first_id(std::int64_t dataset) const;
  /// The cursors at position() of shards [first, first + out.size() / 2), as pairs (epoch, position). Those
  /// of a mixture are numbered one dataset after the other.
  /// Throws Error{out_of_range} for shards that there are not.
  void cursors(std::int64_t first, std::span<std::int64_t> out) const;
  [[nodiscard]] LoaderStats stats() const;
  /// The bad samples that were passed over. Valid until a method that is not const is called.
  [[nodiscard]] const SkippedSamples& skipped() const;

  /// `for (rota::Batch& batch : loader)`: the batches that remain. A batch dies when the loop goes on, unless
  /// moved.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(Loader& loader) : loader_(&loader), batch_(loader.next()) {}
    Batch& operator*() & { return *batch_; }
    Batch* operator->() & { return &*batch_; }
    Iterator& operator++() {
      batch_.reset();
      batch_ = loader_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return !it.batch_.has_value(); }

   private:
    Loader* loader_;
    NextBatch<Batch> batch_;
  };
  Iterator begin() { return Iterator(*this); }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend class internal::LoaderAccess;
  class Impl;
  [[nodiscard]] Impl& impl() const;
  std::unique_ptr<Impl, internal::DeleteWhereMade> impl_;
};

}  // namespace rota
