#include "loader/batch_maker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "rota/error.hpp"

namespace rota::internal {
namespace {

bool any_ragged(const std::vector<Field>& fields) {
  for (const Field& field : fields) {
    if (field.ragged) return true;
  }
  return false;
}

// The current exception as an Error whose message is headed by `what`.
[[noreturn]] void rethrow(const std::string& what) {
  try {
    throw;
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", what, error.what()));
  } catch (const std::exception& error) {
    throw Error(ErrorCode::callback, fmt::format("{}: {}", what, error.what()));
  } catch (...) {
    throw Error(ErrorCode::callback, fmt::format("{}: an exception of unknown type", what));
  }
}

}  // namespace

BatchMaker::BatchMaker(std::shared_ptr<const Source> source, const Recipe& recipe,
                       const LoaderOptions& options, World world)
    : source_(std::move(source)),
      transform_(options.transform),
      seed_(options.seed),
      pool_(std::make_shared<BatchPool>(transform_.fields.empty() ? source_->fields() : transform_.fields,
                                        options.allocator,
                                        static_cast<std::size_t>(options.read_ahead_batches) + 1)),
      has_sizes_(any_ragged(pool_->fields())),
      source_fields_(std::make_shared<const std::vector<Field>>(source_->fields())),
      planner_(recipe, options, world) {}

Scratch BatchMaker::make_scratch() const {
  Scratch scratch;
  if (!transform_.fields.empty()) scratch.store.emplace(source_fields_, std::make_shared<const Allocator>());
  scratch.in.resize(source_fields_->size());
  scratch.out.resize(pool_->fields().size());
  return scratch;
}

bool BatchMaker::plan(const Position& at, BatchMemory& out) {
  if (!planner_.plan(at, out)) return false;
  out.store.resize(out.ids.size());
  return true;
}

std::string BatchMaker::name(SampleId id) const {
  const std::string place = source_->where(id);
  return place.empty() ? fmt::format("sample {}", id.value) : fmt::format("sample {} ({})", id.value, place);
}

// Does `work(first, count)` for all samples of a part; where that throws, for one after the other, to find
// out which failed, and throws for that one, by name.
template <typename Work>
void BatchMaker::by_name(std::string_view verb, std::span<const SampleId> ids, const Work& work) const {
  if (ids.empty()) return;
  try {
    work(0, ids.size());
    return;
  } catch (...) {
    if (ids.size() == 1) rethrow(fmt::format("{} {}", verb, name(ids[0])));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    try {
      work(i, 1);
    } catch (...) {
      rethrow(fmt::format("{} {}", verb, name(ids[i])));
    }
  }
}

std::span<const SampleId> BatchMaker::ids(const BatchMemory& batch, Part part) noexcept {
  return std::span(batch.ids).subspan(part.begin, part.end - part.begin);
}

void BatchMaker::size(BatchMemory& batch, Part part) const {
  read_sizes(ids(batch, part), batch.store, part.begin);
}

void BatchMaker::read_sizes(std::span<const SampleId> ids, FieldStore& store, std::size_t begin) const {
  for (std::size_t f = 0; f < store.fields().size(); ++f) {
    if (!store.fields()[f].ragged) continue;
    by_name("size", ids, [&](std::size_t first, std::size_t count) {
      source_->rows(ids.subspan(first, count), f, store.rows(f).subspan(begin + first, count));
    });
  }
}

void BatchMaker::read(std::span<const SampleId> ids, const BatchView& out) const {
  by_name("read", ids, [&](std::size_t first, std::size_t count) {
    source_->read(ids.subspan(first, count), out.part(first, count));
  });
}

void BatchMaker::fill(BatchMemory& batch, Part part, Scratch& scratch, WorkerStats& stats) const {
  const auto start = std::chrono::steady_clock::now();
  fill(batch, part, scratch);
  const BatchView made = batch.store.view().part(part.begin, part.end - part.begin);
  for (std::size_t f = 0; f < batch.store.fields().size(); ++f) stats.bytes += std::ssize(made.all(f));
  stats.samples += static_cast<std::int64_t>(made.size());
  stats.read_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void BatchMaker::fill(BatchMemory& batch, Part part, Scratch& scratch) const {
  const std::size_t count = part.end - part.begin;
  if (count == 0) return;
  const BatchView out = batch.store.view().part(part.begin, count);
  if (!scratch.store) {
    read(ids(batch, part), out);
    if (!transform_.apply) return;
    for (std::size_t i = 0; i < count; ++i) transform(batch, part.begin + i, out, i, scratch);
    return;
  }
  FieldStore& store = *scratch.store;
  store.resize(count);
  if (store.has_ragged()) {
    read_sizes(ids(batch, part), store, 0);
    store.sum_rows();
  }
  store.open();
  read(ids(batch, part), store.view());
  for (std::size_t i = 0; i < count; ++i) transform(batch, part.begin + i, store.view(), i, scratch);
}

void BatchMaker::transform(const BatchMemory& batch, std::size_t slot, const BatchView& in, std::size_t i,
                           Scratch& scratch) const {
  const TransformContext context{
      .epoch = batch.epochs[slot],
      .id = batch.ids[slot],
      .key = derive_key(seed_, batch.epochs[slot], Purpose::transform, batch.ids[slot].value).low};
  for (std::size_t f = 0; f < scratch.in.size(); ++f) scratch.in[f] = in.bytes(f, i);
  const BatchView made = batch.store.view();
  for (std::size_t f = 0; f < scratch.out.size(); ++f) scratch.out[f] = made.bytes(f, slot);
  try {
    transform_.apply(context, {scratch.in}, {scratch.out});
  } catch (...) {
    rethrow(fmt::format("transform {}", name(context.id)));
  }
}

}  // namespace rota::internal
