#include "loader/batch_maker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "rota/error.hpp"
#include "source/instance.hpp"
#include "values/scarce.hpp"

namespace rota::internal {
namespace {

bool any_ragged(const std::vector<Field>& fields) {
  for (const Field& field : fields) {
    if (field.ragged) return true;
  }
  return false;
}

// What the exception at hand is.
struct Caught {
  ErrorCode code = ErrorCode::callback;
  std::string message;
  bool is_out_of_memory = false;
};

Caught caught() {
  try {
    throw;
  } catch (const Error& error) {
    return {.code = error.code(), .message = error.what()};
  } catch (const std::bad_alloc& error) {
    return {.message = error.what(), .is_out_of_memory = true};
  } catch (const std::exception& error) {
    return {.message = error.what()};
  } catch (...) {
    return {.message = "an exception of unknown type"};
  }
}

// What a source throws for a sample that is bad, and not for what may pass or is no matter of the sample.
bool is_corrupt(const Caught& error) { return error.code == ErrorCode::corrupt; }
// The same of a transform.
bool is_refused(const Caught& error) { return error.code != ErrorCode::io && !error.is_out_of_memory; }

}  // namespace

BatchMaker::BatchMaker(std::shared_ptr<const Source> source, const RunOrder& run_order,
                       const LoaderOptions& options, World world)
    : source_(std::move(source)),
      transform_(options.transform),
      seed_(options.seed),
      pool_(std::make_shared<BatchPool>(
          transform_.fields.empty() ? run_order.fields : transform_.fields, options.allocator,
          static_cast<std::size_t>(options.read_ahead_batches) + 1, options.read_ahead_bytes)),
      has_sizes_(any_ragged(pool_->fields())),
      skips_(options.bad_samples.policy == OnBadSample::skip),
      io_retries_(options.bad_samples.io_retries),
      retry_wait_(options.bad_samples.retry_wait),
      source_fields_(std::make_shared<const std::vector<Field>>(run_order.fields)),
      planner_(run_order, options, world) {
  if (source_->is_shared()) pins_.emplace(*source_, run_order, options, world);
}

Scratch BatchMaker::make_scratch(int worker) const {
  Scratch scratch;
  scratch.worker = worker;
  if (!transform_.fields.empty()) {
    scratch.store =
        std::make_unique<FieldStore>(source_fields_, std::make_shared<BufferPool>(Allocator{}, 0));
  }
  scratch.in.resize(source_fields_->size());
  scratch.out.resize(pool_->fields().size());
  return scratch;
}

bool BatchMaker::plan(const Position& at, BatchMemory& out) {
  const auto lay_out = [&] {
    if (!planner_.plan(at, out)) return false;
    out.store.resize(out.ids.size());
    out.bad.clear();
    if (skips_) out.bad.resize(out.ids.size());
    return true;
  };
  const auto task = [&] {
    return fmt::format("lay out a batch, of {} slots over all ranks", out.global.size);
  };
  if (!with_memory(lay_out, task)) {
    let_go();
    return false;
  }
  if (pins_) pins_->pin(out.global, out.pins);
  return true;
}

// What a thread reads with. Where a worker has an instance for itself, that is made before its first read in
// each world.
const Source& BatchMaker::source(Scratch& scratch) const {
  for (int tries = 0; scratch.asked_in != worlds_; ++tries) {
    const WorkerInfo worker = planner_.describe(scratch.worker);
    scratch.own.reset();
    try {
      scratch.own = instance_of(*source_, worker);
      scratch.asked_in = worlds_;
    } catch (...) {
      const Caught error = caught();
      if (error.code == ErrorCode::io && try_again(tries)) continue;
      throw Error(error.code, fmt::format("make a source for worker {} of {}: {}", worker.worker,
                                          worker.workers, error.message));
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
  if (!skips_) return part;
  while (part.begin < part.end && is_bad(batch, part.begin)) ++part.begin;
  const std::size_t end = part.end;
  for (part.end = part.begin; part.end < end && !is_bad(batch, part.end);) ++part.end;
  return part;
}

// Does `work` for all slots of a part that are not bad; where that throws, for one after the other, to find
// out which failed: throws for that one, by name, or passes it over.
template <typename Work>
void BatchMaker::by_sample(std::string_view verb, BatchMemory& batch, SlotRange part,
                           const Work& work) const {
  for (SlotRange run = good_run(batch, part); run.begin < run.end;
       run = good_run(batch, {run.end, part.end})) {
    try {
      work(run);
      continue;
    } catch (...) {
      const bool is_again = caught().code == ErrorCode::io && try_again(0);
      if (run.end - run.begin == 1 && !is_again) {
        skip(verb, batch, run.begin, is_corrupt(caught()));
        continue;
      }
    }
    for (std::size_t slot = run.begin; slot < run.end; ++slot) alone(verb, batch, slot, work);
  }
}

template <typename Work>
void BatchMaker::alone(std::string_view verb, BatchMemory& batch, std::size_t slot, const Work& work) const {
  for (int tries = 1;; ++tries) {
    try {
      return work(SlotRange{slot, slot + 1});
    } catch (...) {
      const Caught error = caught();
      if (error.code == ErrorCode::io && try_again(tries)) continue;
      return skip(verb, batch, slot, is_corrupt(error));
    }
  }
}

// Whether an I/O error is to be followed by another try, after `tries` that followed one; waits before it.
bool BatchMaker::try_again(int tries) const {
  if (tries >= io_retries_ || !pause_.wait(retry_wait_ * (1 << std::min(tries, 10)))) return false;
  ++retries_;
  return true;
}

// Where an exception is at hand that the sample of `slot` has caused: notes that it is bad, if it
// `can_be_bad` and may be skipped, else throws it on, by name.
void BatchMaker::skip(std::string_view verb, BatchMemory& batch, std::size_t slot, bool can_be_bad) const {
  const Caught error = caught();
  const SampleId id = batch.ids[slot];
  if (!skips_ || !can_be_bad) {
    throw Error(error.code, fmt::format("{} {}: {}", verb, name(id), error.message));
  }
  batch.bad[slot] = std::make_unique<const BadSlot>(
      BadSlot{.where = source_->where(id), .error = fmt::format("{}: {}", verb, error.message)});
  if (batch.kinds[slot] == SlotKind::sample) batch.kinds[slot] = SlotKind::skipped;
}

// Zeros for what is bad.
void BatchMaker::blank(BatchMemory& batch, SlotRange part) const {
  const BatchView made = batch.store.view();
  for (std::size_t slot = part.begin; slot < part.end; ++slot) {
    for (std::size_t f = 0; is_bad(batch, slot) && f < batch.store.fields().size(); ++f) {
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
      source.rows(ids(batch, run), f, rows.subspan(run.begin - part.begin, run.end - run.begin));
    });
  }
  for (std::size_t f = 0; skips_ && f < store.fields().size(); ++f) {
    for (std::size_t slot = part.begin; store.fields()[f].ragged && slot < part.end; ++slot) {
      if (is_bad(batch, slot)) store.rows(f)[begin + slot - part.begin] = 0;
    }
  }
}

// `out` is of the slots of the part.
void BatchMaker::read(const Source& source, BatchMemory& batch, SlotRange part, const BatchView& out) const {
  by_sample("read", batch, part, [&](SlotRange run) {
    source.read(ids(batch, run), out.part(run.begin - part.begin, run.end - run.begin));
  });
}

void BatchMaker::fill(BatchMemory& batch, SlotRange part, Scratch& scratch, WorkerStats& stats) const {
  const auto start = std::chrono::steady_clock::now();
  fill(batch, part, scratch);
  const BatchView made = batch.store.view().part(part.begin, part.end - part.begin);
  for (std::size_t f = 0; f < batch.store.fields().size(); ++f) stats.bytes += std::ssize(made.all(f));
  stats.samples += static_cast<std::int64_t>(made.size());
  stats.read_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void BatchMaker::fill(BatchMemory& batch, SlotRange part, Scratch& scratch) const {
  const std::size_t count = part.end - part.begin;
  if (count == 0) return;
  const Source& source = this->source(scratch);
  if (!scratch.store) {
    const BatchView out = batch.store.view().part(part.begin, count);
    read(source, batch, part, out);
    if (transform_.apply) transform(batch, part, out, scratch);
  } else {
    FieldStore& store = *scratch.store;
    store.resize(count);
    if (store.has_ragged()) {
      read_sizes(source, batch, part, store, 0);
      store.sum_rows();
    }
    store.open();
    read(source, batch, part, store.view());
    transform(batch, part, store.view(), scratch);
  }
  if (skips_) blank(batch, part);
}

void BatchMaker::transform(BatchMemory& batch, SlotRange part, const BatchView& in, Scratch& scratch) const {
  const BatchView made = batch.store.view();
  for (std::size_t slot = part.begin; slot < part.end; ++slot) {
    if (is_bad(batch, slot)) continue;
    for (std::size_t f = 0; f < scratch.in.size(); ++f) scratch.in[f] = in.bytes(f, slot - part.begin);
    for (std::size_t f = 0; f < scratch.out.size(); ++f) scratch.out[f] = made.bytes(f, slot);
    transform(batch, slot, scratch);
  }
}

void BatchMaker::transform(BatchMemory& batch, std::size_t slot, Scratch& scratch) const {
  const TransformContext context{
      .epoch = batch.epochs[slot],
      .id = batch.ids[slot],
      .key = derive_key(seed_, batch.epochs[slot], Purpose::transform, batch.ids[slot].value).low};
  try {
    transform_.apply(context, {*source_fields_, scratch.in}, {pool_->fields(), scratch.out});
  } catch (...) {
    skip("transform", batch, slot, is_refused(caught()));
  }
}

}  // namespace rota::internal
