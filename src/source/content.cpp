#include "source/content.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "core/scarce.hpp"
#include "rota/error.hpp"
#include "rota/fingerprint.hpp"

namespace rota::internal {

OneSample::OneSample(const Source& source, SampleId id)
    : source_(source), id_(id), rows_(source.fields().size(), 1) {
  for (std::size_t f = 0; f < rows_.size(); ++f) {
    const Field& field = source.fields()[f];
    if (field.ragged) source.rows({&id, 1}, f, {&rows_[f], 1});
    check_row_count(field, rows_[f]);
  }
}

std::size_t OneSample::bytes() const noexcept {
  std::size_t sum = 0;
  for (std::size_t f = 0; f < rows_.size(); ++f) {
    sum += static_cast<std::size_t>(rows_[f]) * source_.fields()[f].row_bytes();
  }
  return sum;
}

void OneSample::read() {
  const std::vector<Field>& fields = source_.fields();
  data_.resize(fields.size());
  std::vector<std::array<std::int64_t, 2>> offsets(fields.size());
  std::vector<BatchView::FieldMemory> memory;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    with_memory([&] { data_[f].resize(static_cast<std::size_t>(rows_[f]) * fields[f].row_bytes()); },
                [&] { return fmt::format("read sample {}", id_.value); });
    offsets[f] = {0, rows_[f]};
    memory.push_back({.data = data_[f].data(),
                      .row_bytes = fields[f].row_bytes(),
                      .offsets = fields[f].ragged ? offsets[f].data() : nullptr});
  }
  source_.read({&id_, 1}, BatchView(memory, 0, 1));
}

namespace {

constexpr std::size_t kMostOfAField = 4096;
constexpr std::size_t kMostOfAll = std::size_t{64} << 20;

// The first bytes of a ragged field.
std::vector<std::byte> read_first(const Source& source, SampleId id, std::size_t f, std::int64_t rows) {
  const std::size_t row_bytes = std::max<std::size_t>(source.fields()[f].row_bytes(), 1);
  rows = std::min(rows, static_cast<std::int64_t>((kMostOfAField + row_bytes - 1) / row_bytes));
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows) * source.fields()[f].row_bytes());
  const SampleRows wanted{.id = id, .first = 0, .count = rows, .to = bytes.data()};
  source.read_rows(std::span(&wanted, 1), f);
  return bytes;
}

// Takes what it reads from `left`. 0 where that is too much.
std::int64_t digest_of(const Source& source, SampleId id, bool reads_parts, std::size_t fields,
                       std::size_t& left) {
  OneSample sample(source, id);
  if (!reads_parts) {
    if (sample.bytes() > left) return 0;
    left -= sample.bytes();
    sample.read();
  }
  FingerprintBuilder digest;
  for (std::size_t f = 0; f < std::min(fields, source.fields().size()); ++f) {
    const auto bytes = reads_parts ? read_first(source, id, f, sample.rows(f)) : std::move(sample.data(f));
    if (reads_parts) left -= std::min(left, bytes.size());
    digest.add(sample.rows(f));
    digest.add(
        std::string_view(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kMostOfAField)));
  }
  return static_cast<std::int64_t>(digest.finish().low >> 2U | 1U);
}

}  // namespace

std::vector<SampleContent> read_content(const Source& source, std::int64_t most, SampleRange of,
                                        bool reads_parts, std::size_t fields) {
  std::vector<SampleContent> content;
  const std::int64_t count = std::min(most, of.end - of.begin);
  const bool is_ragged = std::ranges::all_of(source.fields(), &Field::ragged);
  std::size_t left = kMostOfAll;
  for (std::int64_t k = 0; k < count && left > 0; ++k) {
    const SampleId id{of.begin + (count == 1 ? 0 : share(of.end - of.begin - 1, k, count - 1))};
    SampleContent& sample = content.emplace_back(SampleContent{.where = source.where(id)});
    if (sample.where.empty()) sample.where = fmt::format("sample {}", id.value);
    try {
      sample.digest = digest_of(source, id, reads_parts && is_ragged, fields, left);
    } catch (const Error&) {
      continue;  // whoever reads it says why
    }
  }
  return content;
}

}  // namespace rota::internal
