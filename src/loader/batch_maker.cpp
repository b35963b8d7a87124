#include "loader/batch_maker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "core/scarce.hpp"
#include "core/wait.hpp"
#include "rota/error.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

constexpr std::size_t kMaxErrorBytes = 1000;  // that are kept of why a sample is bad

BatchView part_of(BatchMemory& batch, SlotRange part) {
  return batch.store.view(batch.epochs).part(part.begin, part.end - part.begin);
}

bool any_ragged(const std::vector<Field>& fields) { return std::ranges::any_of(fields, &Field::ragged); }

std::shared_ptr<BatchPool> make_pool(const std::vector<Field>& fields, const LoaderOptions& options) {
  return std::make_shared<BatchPool>(fields, options.allocator,
                                     static_cast<std::size_t>(options.read_ahead_batches) + 1,
                                     options.read_ahead_bytes);
}

}  // namespace

BatchMaker::BatchMaker(OrderedSource ordered, const LoaderOptions& options, World world)
    : source_(std::move(ordered.source)),
      order_(RunAccess::order(ordered.run)),
      options_(options),
      world_(world),
      sample_pool_(
          make_pool(options.transform.fields.empty() ? ordered.fields : options.transform.fields, options)),
      pool_(options.collate.apply ? make_pool(options.collate.fields, options) : sample_pool_),
      has_sizes_(options.transform.fields.empty() && any_ragged(ordered.fields)),
      makes_rows_(any_ragged(options.transform.fields)),
      skips_(options.bad_samples.policy == BadSamples::Policy::skip),
      source_fields_(std::make_shared<const std::vector<Field>>(std::move(ordered.fields))),
      planner_(order_) {
  plan_anew(world, ordered.run);
}

void BatchMaker::plan_anew(World world, const Run& run) {
  if (world != std::exchange(world_, world)) ++worlds_;
  ahead_.emplace(*source_, run, options_, world);
}

Scratch BatchMaker::make_scratch(int worker) const {
  Scratch scratch;
  scratch.worker = worker;
  if (!options_.transform.fields.empty()) {
    scratch.store =
        std::make_unique<FieldStore>(source_fields_, std::make_shared<BufferPool>(Allocator{}, 0));
  }
  scratch.in.resize(source_fields_->size());
  scratch.out.resize(sample_pool_->fields()->size());
  return scratch;
}

bool BatchMaker::plan(const Run& run, BatchMemory& out) {
  const auto lay_out = [&] {
    if (!planner_.plan(run, world_, options_.rank_split, options_.balance, out)) return false;
    deal(planner_.spans(), options_, world_, out.parts);
    out.store.resize(out.ids.size());
    out.bad.clear();
    out.skippers = skips_ ? world_.size : 0;
    out.has_gaps = skips_ || planner_.left_out();
    if (skips_) out.bad.resize(out.ids.size());
    while (makes_rows_ && std::ssize(out.made) < std::max(options_.workers, 1)) {
      out.made.emplace_back(sample_pool_->fields(), out.store.buffers());
    }
    return true;
  };
  const auto task = [&] {
    return fmt::format("lay out a batch, of {} slots over all ranks", planner_.batch().size);
  };
  if (!with_memory(lay_out, task)) {
    if (ahead_) ahead_->end();
    return false;
  }
  if (ahead_) ahead_->follow(run, planner_, out, out.pins);
  return true;
}

// What a thread reads with. Where a worker has an instance for itself, that is made before its first read in
// each world.
const Source& BatchMaker::source(Scratch& scratch) const {
  for (int tries = 0; scratch.asked_in != worlds_; ++tries) {
    const WorkerInfo worker =
        describe_worker(scratch.worker, order_->orders.front().plan().shards(), options_, world_);
    scratch.own.reset();
    try {
      scratch.own = instance_of(*source_, worker);
      scratch.asked_in = worlds_;
    } catch (...) {
      const Caught error = caught();
      if (error.code == ErrorCode::io && try_again(tries)) continue;
      throw error.as_error(fmt::format("make a source for worker {} of {}", worker.worker, worker.workers));
    }
  }
  return scratch.own ? *scratch.own : *source_;
}

std::string BatchMaker::name(SampleId id) const {
  const std::string place = source_->where(id);
  return place.empty() ? fmt::format("sample {}", id.value) : fmt::format("sample {} ({})", id.value, place);
}

// The first slots of a part, side by side, of which none is bad; empty where there are no more.
SlotRange BatchMaker::good_run(const BatchMemory& batch, SlotRange part) const noexcept {
  if (!batch.has_gaps) return part;
  while (part.begin < part.end && is_bad(batch, part.begin)) ++part.begin;
  const std::size_t end = part.end;
  for (part.end = part.begin; part.end < end && !is_bad(batch, part.end);) ++part.end;
  return part;
}

// Does `work` for all good slots of a part. Where that throws, does it for one slot after the other, to find
// out which failed; a bad sample is skipped, or thrown by name. `tries`: how often this was tried before.
template <typename Work>
void BatchMaker::by_sample(std::string_view verb, BatchMemory& batch, SlotRange part, const Work& work,
                           int tries) const {
  for (SlotRange run = good_run(batch, part); run.begin < run.end;) {
    try {
      work(run);
    } catch (...) {
      const Caught error = caught();
      if (error.code == ErrorCode::timeout) throw;  // it has been tried long enough
      const bool is_again = error.code == ErrorCode::io && try_again(tries);
      if (run.end - run.begin > 1) {
        for (std::size_t slot = run.begin; slot < run.end; ++slot) {
          by_sample(verb, batch, {slot, slot + 1}, work, 1);
        }
      } else if (is_again) {
        by_sample(verb, batch, run, work, tries + 1);
      } else {
        skip(verb, batch, run.begin, error,
             error.code == ErrorCode::corrupt || error.code == ErrorCode::not_found);
      }
    }
    run = good_run(batch, {run.end, part.end});
  }
}

// Whether an I/O error is to be followed by another try, after `tries` that followed one; waits before it.
bool BatchMaker::try_again(int tries) const {
  if (tries >= options_.bad_samples.io_retries) return false;
  const std::stop_token stop = retries_stop_.get_token();
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any wakes;
  wakes.wait_for(lock, stop, options_.bad_samples.retry_wait * (1 << std::min(tries, 10)),
                 [] { return false; });
  if (stop.stop_requested()) return false;
  ++retries_;
  return true;
}

// Whether what a transform threw is the sample's fault: it may not pass, and is not that of the program.
bool BatchMaker::is_of_sample(const Caught& error) noexcept {
  return !error.is_out_of_memory && !error.is_programs && error.code != ErrorCode::io &&
         error.code != ErrorCode::mismatch && error.code != ErrorCode::out_of_range &&
         error.code != ErrorCode::invalid_argument;
}

// Of an error that the sample of `slot` has caused: notes that it is bad, if it `can_be_bad` and may be
// skipped, else throws it on, by name.
void BatchMaker::skip(std::string_view verb, BatchMemory& batch, std::size_t slot, const Caught& error,
                      bool can_be_bad) const {
  const SampleId id = batch.ids[slot];
  if (!skips_ || !can_be_bad) {
    throw error.as_error(fmt::format("{} {}", verb, name(id)));
  }
  batch.bad[slot] = std::make_unique<const SkippedSamples::Sample>(
      SkippedSamples::Sample{.epoch = batch.epochs[slot],
                             .id = id,
                             .where = source_->where(id),
                             .error = fmt::format("{}: {}", verb, error.message).substr(0, kMaxErrorBytes)});
  if (batch.kinds[slot] == SlotKind::sample) batch.kinds[slot] = SlotKind::skipped;
}

// Zeros for what is not read. Ragged fields that are made have no rows of it.
void BatchMaker::blank(BatchMemory& batch, SlotRange part) const {
  const BatchView made = batch.store.view();
  for (std::size_t slot = part.begin; slot < part.end; ++slot) {
    for (std::size_t f = 0; is_bad(batch, slot) && f < batch.store.fields().size(); ++f) {
      if (makes_rows_ && batch.store.fields()[f].ragged) continue;
      std::ranges::fill(made.bytes(f, slot), std::byte{0});
    }
  }
}

std::span<const SampleId> BatchMaker::ids(const BatchMemory& batch, SlotRange part) noexcept {
  return std::span(batch.ids).subspan(part.begin, part.end - part.begin);
}

void BatchMaker::size(BatchMemory& batch, SlotRange part, Scratch& scratch) const {
  if (part.begin != part.end) read_sizes(source(scratch), batch, part, batch.store, part.begin);
}

// Into `store`, whose sample `begin` is in the first slot of the part.
void BatchMaker::read_sizes(const Source& source, BatchMemory& batch, SlotRange part, FieldStore& store,
                            std::size_t begin) const {
  for (std::size_t f = 0; f < store.fields().size(); ++f) {
    if (!store.fields()[f].ragged) continue;
    const auto rows = store.rows(f).subspan(begin, part.end - part.begin);
    by_sample("size", batch, part, [&](SlotRange run) {
      const auto own = rows.subspan(run.begin - part.begin, run.end - run.begin);
      const auto epochs = std::span(batch.epochs).subspan(run.begin, own.size());
      PlannedSource::ask_rows(source, epochs, ids(batch, run), f, own);
      check_lengths(store.fields()[f].name, ids(batch, run), own);
    });
  }
  for (std::size_t f = 0; batch.has_gaps && f < store.fields().size(); ++f) {
    for (std::size_t slot = part.begin; store.fields()[f].ragged && slot < part.end; ++slot) {
      if (is_bad(batch, slot)) store.rows(f)[begin + slot - part.begin] = 0;
    }
  }
}

// They were dealt by what was said of them.
void BatchMaker::check_lengths(std::string_view field, std::span<const SampleId> ids,
                               std::span<const std::int64_t> rows) const {
  for (const LengthColumn& column : options_.balance.columns) {
    for (std::size_t i = 0; column.field == field && i < ids.size(); ++i) {
      if (column.lengths[ids[i]] == rows[i]) continue;
      throw failure(
          ErrorCode::mismatch,
          "field \"{}\" has {} rows, and its length in the balance is {}; take lengths of these data", field,
          rows[i], column.lengths[ids[i]]);
    }
  }
}

// Returns the samples as the source has them: the batch's own memory, unless a transform makes others.
BatchView BatchMaker::read(BatchMemory& batch, SlotRange part, Scratch& scratch, WorkDone& done) const {
  done.begin_read();
  const Source& source = this->source(scratch);
  if (scratch.store) {
    scratch.store->resize(part.end - part.begin);
    read_sizes(source, batch, part, *scratch.store, 0);
    scratch.store->sum_rows();
    scratch.store->open();
  }
  const auto epochs = std::span(batch.epochs).subspan(part.begin, part.end - part.begin);
  const BatchView out = scratch.store ? scratch.store->view(epochs) : part_of(batch, part);
  by_sample("read", batch, part, [&](SlotRange run) {
    source.read(ids(batch, run), out.part(run.begin - part.begin, run.end - run.begin));
  });
  done.end_read([&] {
    try {
      return source_->where(batch.ids[part.begin]);
    } catch (...) {  // a good batch stays one
      (void)caught();
      return std::string();
    }
  });
  return out;
}

void BatchMaker::fill(BatchMemory& batch, SlotRange part, Scratch& scratch, WorkDone& done) const {
  if (part.begin == part.end) return;
  const BatchView in = read(batch, part, scratch, done);
  std::size_t bytes = 0;
  if (options_.transform.apply) {
    const auto begun = ReadClock::now();
    bytes = transform(batch, part, in, scratch);
    done.times.transform_seconds += seconds_since(begun);
  }
  if (batch.has_gaps) blank(batch, part);
  const BatchView out = part_of(batch, part);
  for (std::size_t f = 0; f < batch.store.fields().size(); ++f) {
    if (!makes_rows_ || !batch.store.fields()[f].ragged) bytes += out.all(f).size();
  }
  done.bytes += static_cast<std::int64_t>(bytes);
  done.samples += static_cast<std::int64_t>(part.end - part.begin);
}

// Returns how many bytes it made of ragged fields.
std::size_t BatchMaker::transform(BatchMemory& batch, SlotRange part, const BatchView& in,
                                  Scratch& scratch) const {
  const BatchView out = batch.store.view();
  MadeRows* made = makes_rows_ ? &batch.made[static_cast<std::size_t>(scratch.worker)] : nullptr;
  if (made != nullptr) made->begin(part);
  std::size_t bytes = 0;
  for (std::size_t slot = part.begin; slot < part.end; ++slot) {
    Wait::here().check();  // a worker ends behind the sample in hand
    if (!is_bad(batch, slot)) {
      for (std::size_t f = 0; f < scratch.in.size(); ++f) scratch.in[f] = in.bytes(f, slot - part.begin);
      for (std::size_t f = 0; f < scratch.out.size(); ++f) {
        const bool is_made = made != nullptr && batch.store.fields()[f].ragged;
        scratch.out[f] = is_made ? std::span<std::byte>() : out.bytes(f, slot);
      }
      transform(batch, slot, scratch, made);
      if (made != nullptr && is_bad(batch, slot)) made->drop_sample();  // what it made before it threw
    }
    if (made != nullptr) bytes += made->end_sample(batch.store, slot);
  }
  return bytes;
}

void BatchMaker::transform(BatchMemory& batch, std::size_t slot, Scratch& scratch, MadeRows* made) const {
  const TransformContext context{
      .epoch = batch.epochs[slot],
      .id = batch.ids[slot],
      .key = derive_key(options_.seed, batch.epochs[slot], Purpose::transform, batch.ids[slot].value).low};
  try {
    SampleOutput out(batch.store.fields(), scratch.out, made);
    options_.transform.apply(context, {*source_fields_, scratch.in}, out);
  } catch (...) {
    const Caught error = caught();
    skip("transform", batch, slot, error, is_of_sample(error));
  }
}

void BatchMaker::finish(std::unique_ptr<BatchMemory>& batch) const {
  if (makes_rows_) gather_rows(*batch);
  if (options_.collate.apply) batch = collate(std::move(batch));
}

void BatchMaker::gather_rows(BatchMemory& batch) {
  batch.store.sum_rows();
  const bool is_one = batch.made.size() == 1 && batch.made[0].is_whole(batch.store.samples());
  if (is_one) batch.made[0].move_into(batch.store);
  batch.store.open_ragged();
  for (MadeRows& rows : batch.made) {
    rows.copy_into(batch.store);
    rows.close();
  }
}

std::unique_ptr<BatchMemory> BatchMaker::collate(std::unique_ptr<BatchMemory> batch) const {
  auto made = pool_->take();
  static_cast<RunSlice&>(*made) = static_cast<const RunSlice&>(*batch);
  made->bad = std::move(batch->bad);
  made->skippers = batch->skippers;
  made->pins = std::move(batch->pins);
  made->times = batch->times;
  made->store.resize(made->ids.size());
  made->store.open();
  const Batch in = sample_pool_->wrap(std::move(batch));
  if (in.size() == 0) return made;
  try {
    BatchOutput out(made->store);
    options_.collate.apply(in, out);
  } catch (...) {
    throw caught().as_error(fmt::format("collate the batch of step {}", in.start().step));
  }
  return made;
}

}  // namespace rota::internal
