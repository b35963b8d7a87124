#pragma once

// The loader: reads ahead with worker threads and hands out this rank's slice of each global batch, in order.
// Next: loader_options.hpp.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>

#include "rota/batch.hpp"
#include "rota/loader_options.hpp"
#include "rota/types.hpp"
#include "rota/world.hpp"

namespace rota {

namespace mpi {
class Communicator;
}
namespace internal {
class LoaderAccess;
}

/// Where a sample is read: which batch it is in, who reads it, and where it stands there.
struct BatchSlot {
  std::int64_t step = 0;  ///< of the batch: Batch::start().step
  int rank = 0;           ///< whose part of it the sample is in
  std::int64_t slot = 0;  ///< of the global batch, as in Batch::slots()
  friend bool operator==(const BatchSlot&, const BatchSlot&) = default;
};

/// Feeds one rank. The position moves when `next()` hands a batch over; batches read ahead are not state.
/// Methods are called from *one thread*; batches may die on any. Worker threads live as long as the loader.
/// One that was moved from throws Error{invalid_argument} from every method, one in a forked child
/// Error{unsupported}.
///
/// Where bad samples are skipped, and ranks made their loaders together, `next` is **collective**. It waits
/// for no rank but those that are more than a step behind, and no longer than BadSamples::deadline.
/// When that is over it throws Error{timeout} that names the missing ranks, now and from then on: end the
/// job. What it throws on one rank for that rank's own batch, it throws on the others one step later, as an
/// Error that names the rank; they may call again, too.
class Loader {
 public:
  /// For all ranks of `comm` together, which is duplicated: this one reads the slice comm.world() of each
  /// batch. **Collective.** Starts the workers. Throws on all ranks what it throws on one:
  /// Error{mismatch}, with both values, where datasets or options differ (workers, read-ahead, retries, the
  /// deadline and functions may); Error{invalid_argument} from `options.validate()`, for a null source, and
  /// for an order that needs all shared files at all times (not Shuffle::none or within, or interleave 0);
  /// Error{callback} for a size, fields or shard lengths of the source's own that cannot be; Error{io} where
  /// the system starts no more threads; and Error{unsupported} where its samples lie all over shared files.
  Loader(const mpi::Communicator& comm, std::shared_ptr<const Source> source, LoaderOptions options = {});
  /// Over several datasets. The same, and Error{invalid_argument} from `mixture.validate()` and for fields
  /// that differ.
  Loader(const mpi::Communicator& comm, const Mixture& mixture, LoaderOptions options = {});
  /// For one place of a world, without any communication. Nobody looks whether all ranks have the same
  /// dataset and options; where they have not, samples are repeated or missed. Throws the same, and
  /// Error{invalid_argument} from `world.validate()`.
  Loader(std::shared_ptr<const Source> source, LoaderOptions options, World world);
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
  /// The same for the ranks of `comm` together, which is duplicated: those that stay, and those that join
  /// with a loader made for a place of the world before, and sought to this position. **Collective.** They
  /// count bad samples together from this step on. Those that leave end their loaders at this step; what they
  /// have listed leaves with them. The count goes on. Throws Error{mismatch} as the constructor does, and for
  /// other positions.
  void rescale(const mpi::Communicator& comm);
  /// Goes on with another global batch size, which every rank must set at the same step.
  /// Throws Error{invalid_argument} unless it is 1 to 2^31 - 1.
  void set_global_batch_size(std::int64_t size);

  /// Goes on with other weights of a mixture, which every rank must set at the same step. Throws
  /// Error{invalid_argument} as Mixture::validate does, for another number of them, and where nothing is
  /// mixed.
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
  /// The id, in batches, of a dataset's first sample. Throws Error{out_of_range} for a dataset that there is
  /// not.
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
