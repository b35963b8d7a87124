#pragma once

// The loader: reads ahead with worker threads and hands out this rank's slice of each global batch, in order.
// Next: loader_options.hpp.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/batch.hpp"
#include "rota/loader_options.hpp"
#include "rota/stats.hpp"
#include "rota/types.hpp"
#include "rota/world.hpp"

namespace rota {

class Communicator;

/// Feeds one rank. The position moves when `next()` returns a batch; batches that were read ahead are not
/// state. *One thread* calls the methods. Batches may die on any thread. Worker threads live as long as the
/// loader. After a move every method throws Error{invalid_argument}; in a forked child, Error{unsupported}.
///
/// `next` is **collective** only where bad samples are skipped and the loaders were made over a communicator.
/// It then waits for ranks that are more than a step behind, for LoaderOptions::deadline at most. After that
/// it throws Error{timeout} naming the missing ranks, also when called again: end the job. What it throws on
/// one rank for that rank's batch, the others throw one step later, as an Error that names the rank. They may
/// call again, too.
class Loader {
 public:
  /// For all ranks of `comm`, which is duplicated: this rank reads slice comm.world() of each batch.
  /// **Collective.** Starts the workers. Throws on all ranks what it throws on one:
  /// - Error{mismatch}, with both values: datasets or options differ. Workers, read-ahead, retries, deadline
  ///   and functions may.
  /// - Error{invalid_argument}: from `options.validate()`; a null source; for files in shared memory, a
  ///   shuffle other than none and within, or interleave 0, which need all files at all times
  /// - Error{callback}: the source's size, fields or shard lengths are impossible
  /// - Error{io}: the system starts no more threads
  /// - Error{unsupported}: samples are scattered over files in shared memory, as by `split`
  Loader(const Communicator& comm, std::shared_ptr<const Source> source, LoaderOptions options = {});
  /// The same over several datasets. Also throws Error{invalid_argument} from `mixture.validate()` and for
  /// fields that differ.
  Loader(const Communicator& comm, const Mixture& mixture, LoaderOptions options = {});
  /// For one rank of a world, without communication. Ranks are not compared: if datasets or options differ,
  /// samples are repeated or missed. Also throws Error{invalid_argument} from `world.validate()`.
  Loader(std::shared_ptr<const Source> source, LoaderOptions options, World world);
  Loader(const Mixture& mixture, LoaderOptions options, World world);
  /// For a process alone. Also throws Error{invalid_argument} where MPI runs several ranks, each of which
  /// would read everything. If you want that, pass World{}.
  Loader(std::shared_ptr<const Source> source, LoaderOptions options);
  Loader(const Mixture& mixture, LoaderOptions options);
  /// Waits for reads that are under way.
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  /// The next batch, or nothing after the last epoch. Blocks until it is read. Every rank gets the same
  /// number of batches. A failed read or transform throws in its batch's place, as an Error that names sample
  /// and file. The position stays: the next call tries the same batch again. Also throws
  /// Error{invalid_argument} for a batch of more than 2^50 bytes, Error{io} without memory for it,
  /// Error{callback} for unusable memory of an Allocator.
  NextBatch next();

  // Settle::by_hand (docs/settle.md): what was handed out is open until one of these says what became of it.
  // They may be called from *any thread*, also while `next` waits, and are for all that they name or for
  // nothing. A sample is named by its id and epoch, as a batch has them; of a batch all are meant that count.
  // They throw Error{invalid_argument} for what is not out with anyone, and for a loader without
  // Settle::by_hand.

  /// They are trained on.
  void settle(const Batch& batch);
  void settle(std::span<const SampleId> ids, std::span<const std::int64_t> epochs);
  /// They are not, and do not come again in their epoch: listed by `dropped`, counted by reason.
  void drop(const Batch& batch, std::string_view reason);
  void drop(std::span<const SampleId> ids, std::span<const std::int64_t> epochs, std::string_view reason);
  /// They are given up, and will be handed out again: behind what is read ahead, in batches of the global
  /// size; fewer, once nothing new is left. Where there are several ranks, after `merge`. Without arguments:
  /// all that are out.
  void again(const Batch& batch);
  void again(std::span<const SampleId> ids, std::span<const std::int64_t> epochs);
  void again();
  /// Settles those that are open, given up ones, too, as long as these are not out again. For each whether it
  /// was open: who races with others, or comes back after a restart, counts what is true.
  std::vector<bool> try_settle(std::span<const SampleId> ids, std::span<const std::int64_t> epochs);
  [[nodiscard]] DroppedSamples dropped() const;
  /// **Collective**, at the same step: what is open on some rank is known to all, so that `state`, called
  /// next, is that of the run, on each. What was given up will be handed out again. Throws Error{mismatch}
  /// for loaders at different places.
  void merge(const Communicator& comm);

  /// Reads ahead as far as the options allow, so that the first step need not wait. Returns when that is
  /// done. Errors are left to next(). Does nothing without workers.
  void warm_up();

  /// The run, behind the last batch returned: copy it to look ahead, or back. Valid until the loader changes.
  [[nodiscard]] const Run& run() const;
  /// The position after the last batch returned.
  [[nodiscard]] Position position() const;
  /// Steps of an epoch at this batch size, and of all epochs, wherever the run stands: for a schedule of
  /// learning rates, say. Throws Error{unsupported} for a mixture, and of `steps` without a last epoch.
  [[nodiscard]] std::int64_t steps_per_epoch() const;
  [[nodiscard]] std::int64_t steps() const;

  /// Where step `step` of this run begins; nothing past its end. Throws as Run::at.
  [[nodiscard]] std::optional<Position> position_of(std::int64_t step) const;

  /// The step, rank and slot in which this run, at the present batch size and world, reads sample `id` in
  /// `epoch`: as Run::when, without reading or communication.
  [[nodiscard]] std::optional<BatchSlot> when(SampleId id, std::int64_t epoch) const;

  /// Goes to a `position` that a run of this order, and of these weights, has between two steps. Drops what
  /// was read ahead. An epoch past the last is the end of the run. Throws Error{out_of_range} for a position
  /// that no epoch has, and for epochs and steps outside 0 to 2^62.
  void seek(const Position& position);

  /// Goes to a step of this run, in the future or the past, whatever its batch sizes and weights were or will
  /// be. Throws as Run::at, and Error{out_of_range} past the last step.
  void seek_step(std::int64_t step);

  /// Begins the run anew, a mixture with the weights that it was made with.
  void restart();

  /// Goes on from the same position in another world, without files or communication. Throws as
  /// `world.validate()`.
  void rescale(World world);
  /// The same for all ranks of `comm`, which is duplicated. **Collective.** From this step on they count bad
  /// samples together; the count goes on. A rank that joins first makes a loader for a rank of the old world,
  /// and seeks to this position. A rank that leaves ends its loader at this step, and its list of skipped
  /// samples is lost. Throws Error{mismatch} as the constructor does, and for different positions.
  void rescale(const Communicator& comm);
  /// Goes on with another global batch size. Every rank must set it at the same step. Throws
  /// Error{invalid_argument} unless it is 1 to 2^31 - 1.
  void set_global_batch_size(std::int64_t size);

  /// Goes on with other weights of a mixture. Every rank must set them at the same step. Throws
  /// Error{invalid_argument} as Mixture::validate does, for a wrong number of weights, and without a mixture.
  void set_weights(std::span<const double> weights);
  /// Goes on by another plan, of which all is the same that is past. Every rank must do so at the same step:
  /// `read_plan` gives all the same. Throws Error{invalid_argument} from `plan.validate()`, Error{mismatch}
  /// for another past.
  void replan(const RunPlan& plan);
  /// Names of the mixture's datasets, by number, where they have any: batches, weights and plans go by these
  /// numbers. At a resume datasets are matched by name, and keep their numbers; new ones come behind, and one
  /// that was left out stays without samples.
  [[nodiscard]] std::vector<std::string> names() const;
  /// The state of the mixture; null without one. Valid until it changes.
  [[nodiscard]] const MixtureState* mixture() const;
  /// Goes to `position` of a mixture with its state then. Throws Error{invalid_argument} for an invalid state
  /// or one of another number of datasets, Error{out_of_range} for a position before its weights were set.
  void seek(const Position& position, const MixtureState& mixture);

  [[nodiscard]] World world() const;
  [[nodiscard]] const LoaderOptions& options() const;
  /// The source; of a mixture, all its datasets joined.
  [[nodiscard]] const Source& source() const;
  /// The source's fingerprint, asked for once.
  [[nodiscard]] Fingerprint fingerprint() const;
  /// The number of mixed datasets, or 1.
  [[nodiscard]] std::int64_t datasets() const;
  /// The id, in batches, of a dataset's first sample. Throws Error{out_of_range} for an invalid dataset.
  [[nodiscard]] SampleId first_id(std::int64_t dataset) const;
  /// The cursors at position() of shards [first, first + out.size() / 2), as pairs (epoch, position). Shards
  /// of a mixture are numbered one dataset after the other. Throws Error{out_of_range} for invalid shards.
  void cursors(std::int64_t first, std::span<std::int64_t> out) const;
  [[nodiscard]] LoaderStats stats() const;
  /// The skipped samples. Valid until a method that is not const is called.
  [[nodiscard]] const SkippedSamples& skipped() const;

  /// `for (rota::Batch& batch : loader)`: the remaining batches; with LoaderOptions::evaluation, all. Each
  /// dies when the loop goes on, unless moved. One that begins in the middle of an epoch, and not behind a
  /// restore or `seek`, says so once. One that begins when all epochs are over, and not behind these, throws
  /// Error{invalid_argument}.
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
    NextBatch batch_;
  };
  Iterator begin() {
    begin_for();
    return Iterator(*this);
  }
  /// What `begin` does first, for loops that call `next` themselves.
  void begin_for();
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend internal::Behind;
  struct Impl;
  [[nodiscard]] Impl& impl() const;

  std::unique_ptr<Impl, internal::DeleteWhereMade> impl_;
};

/// The plan in a file, as parse_plan has it, which rank 0 reads for all of `comm`. **Collective.** Throws on
/// all ranks Error{invalid_argument} for what is no plan, Error{io} and Error{not_found}.
RunPlan read_plan(const Communicator& comm, const std::string& path,
                  const std::vector<std::string>& names = {});

}  // namespace rota
