#include "rota/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "rota/error.hpp"
#include "source/field_check.hpp"
#include "values/scarce.hpp"

namespace rota::internal {
namespace {

Error no_sample(SampleId id, std::int64_t size) {
  return {
      ErrorCode::out_of_range,
      fmt::format("read sample {}: the dataset has {} samples; ids go from 0 to one less", id.value, size)};
}

// Field f of one sample, of which all have to be read; puts how many rows it has into `rows`.
std::vector<std::byte> read_whole(const Source& source, SampleId id, std::size_t f, std::int64_t& rows) {
  const std::vector<Field>& fields = source.fields();
  std::vector<std::vector<std::byte>> bytes(fields.size());
  std::vector<std::array<std::int64_t, 2>> offsets(fields.size(), {0, 1});
  std::vector<BatchView::FieldMemory> memory;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    std::int64_t& count = offsets[i][1];
    if (fields[i].ragged) source.rows({&id, 1}, i, {&count, 1});
    check_row_count(fields[i], count);
    with_memory([&] { bytes[i].resize(static_cast<std::size_t>(count) * fields[i].row_bytes()); },
                [&] { return fmt::format("read sample {}", id.value); });
    memory.push_back({bytes[i].data(), fields[i].row_bytes(), offsets[i].data()});
  }
  source.read({&id, 1}, BatchView(memory, 0, 1));
  rows = offsets[f][1];
  return std::move(bytes[f]);
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
  throw Error(
      ErrorCode::unsupported,
      fmt::format("ask a source for the rows of field \"{}\": the source does not override rows(); do "
                  "so where a field is ragged",
                  fields()[field].name));
}

void Source::read_rows(std::span<const SampleRows> wanted, std::size_t field) const {
  check_ids(*this, wanted);
  const std::size_t row_bytes = fields()[field].row_bytes();
  std::vector<std::byte> bytes;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const SampleRows& part = wanted[i];
    if (i == 0 || part.id != wanted[i - 1].id) bytes = internal::read_whole(*this, part.id, field, rows);
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

std::string Source::where(SampleId /*id*/) const { return {}; }

std::vector<std::int64_t> Source::part_sizes() const { return {}; }

std::vector<std::int64_t> Source::shard_lengths(std::int64_t /*shards*/) const { return {}; }

std::int64_t Source::will_read(SampleId /*first*/, std::int64_t /*count*/) const { return 0; }

void check_ids(const Source& source, std::span<const SampleId> ids) {
  const std::int64_t size = source.size();
  for (const SampleId id : ids) {
    if (id.value < 0 || id.value >= size) throw internal::no_sample(id, size);
  }
}

void check_ids(const Source& source, std::span<const SampleRows> wanted) {
  const std::int64_t size = source.size();
  for (const SampleRows& part : wanted) {
    if (part.id.value < 0 || part.id.value >= size) throw internal::no_sample(part.id, size);
  }
}

void check_rows(const SampleRows& wanted, std::int64_t rows) {
  if (wanted.first >= 0 && wanted.count >= 0 && wanted.first <= rows && wanted.count <= rows - wanted.first) {
    return;
  }
  throw Error(ErrorCode::out_of_range, fmt::format("read {} rows of sample {} from row {} on: it has {} rows",
                                                   wanted.count, wanted.id.value, wanted.first, rows));
}

}  // namespace rota
