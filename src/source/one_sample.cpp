#include "source/one_sample.hpp"

#include <fmt/format.h>

#include <array>

#include "core/scarce.hpp"
#include "source/field_check.hpp"

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

}  // namespace rota::internal
