#include "rota/source.hpp"

#include <algorithm>
#include <utility>

#include "core/failure.hpp"
#include "source/content.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

void check_id(SampleId id, std::int64_t size) {
  if (id.value >= 0 && id.value < size) return;
  throw failure(ErrorCode::out_of_range,
                "read sample {}: the dataset has {} samples; ids go from 0 to one less", id.value, size);
}

}  // namespace

}  // namespace rota::internal

namespace rota {

std::size_t Field::row_bytes() const noexcept {
  std::size_t bytes = size_of(dtype);
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

void Source::rows(std::span<const SampleId> /*ids*/, std::size_t field,
                  std::span<std::int64_t> /*out*/) const {
  throw internal::failure(ErrorCode::unsupported,
                          "ask a source for the rows of field \"{}\": the source does not override rows(); "
                          "do so where a field is ragged",
                          fields()[field].name);
}

void Source::read_rows(std::span<const SampleRows> wanted, std::size_t field) const {
  check_ids(*this, wanted);
  const std::size_t row_bytes = fields()[field].row_bytes();
  std::vector<std::byte> bytes;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const SampleRows& part = wanted[i];
    if (i == 0 || part.id != wanted[i - 1].id) {
      internal::OneSample sample(*this, part.id);
      sample.read();
      rows = sample.rows(field);
      bytes = std::move(sample.data(field));
    }
    check_rows(part, rows);
    std::copy_n(bytes.begin() + part.first * static_cast<std::ptrdiff_t>(row_bytes),
                static_cast<std::size_t>(part.count) * row_bytes, part.to);
  }
}

std::unique_ptr<const Source> Source::for_worker(const WorkerInfo& /*worker*/) const { return nullptr; }

Fingerprint Source::fingerprint() const {
  FingerprintBuilder builder;
  builder.add("source").add(size());
  for (const Field& field : fields()) {
    builder.add(field.name).add(to_string(field.dtype)).add(field.shape).add(field.ragged ? 1 : 0);
  }
  return builder.finish();
}

void check_ids(const Source& source, std::span<const SampleId> ids) {
  const std::int64_t size = source.size();
  for (const SampleId id : ids) internal::check_id(id, size);
}

void check_ids(const Source& source, std::span<const SampleRows> wanted) {
  const std::int64_t size = source.size();
  for (const SampleRows& part : wanted) internal::check_id(part.id, size);
}

void check_rows(const SampleRows& wanted, std::int64_t rows) {
  if (wanted.first >= 0 && wanted.count >= 0 && wanted.first <= rows && wanted.count <= rows - wanted.first) {
    return;
  }
  throw internal::failure(ErrorCode::out_of_range, "read {} rows of sample {} from row {} on: it has {} rows",
                          wanted.count, wanted.id.value, wanted.first, rows);
}

SourceAdaptor::SourceAdaptor(std::shared_ptr<const Source> inner) : inner_(std::move(inner)) {
  internal::require_source(inner_, "make a source of another one");
}

void SourceAdaptor::rows(std::span<const SampleId> ids, std::size_t field,
                         std::span<std::int64_t> out) const {
  inner_->rows(ids, field, out);
}

std::unique_ptr<const Source> SourceAdaptor::for_worker(const WorkerInfo& worker) const {
  auto own = internal::instance_of(*inner_, worker);
  if (!own) return nullptr;
  auto wrapped = wrap(std::move(own));
  if (wrapped) return wrapped;
  throw Error(ErrorCode::callback,
              "adapt what a source makes for a worker: wrap() returned null; return an adaptor of `inner`");
}

std::vector<std::int64_t> SourceAdaptor::part_sizes() const {
  return size() == inner_->size() ? inner_->part_sizes() : Source::part_sizes();
}

std::vector<std::int64_t> SourceAdaptor::unit_sizes() const {
  return size() == inner_->size() ? inner_->unit_sizes() : Source::unit_sizes();
}

std::vector<std::int64_t> SourceAdaptor::shard_lengths(std::int64_t shards) const {
  return size() == inner_->size() ? inner_->shard_lengths(shards) : Source::shard_lengths(shards);
}

std::int64_t SourceAdaptor::will_read(SampleId first, std::int64_t count) const {
  return size() == inner_->size() ? inner_->will_read(first, count) : Source::will_read(first, count);
}

}  // namespace rota
