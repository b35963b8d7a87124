#include "cli/head.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "cli/preview.hpp"
#include "cli/progress_bar.hpp"
#include "cli/shown_text.hpp"
#include "cli/text_table.hpp"
#include "rota/open.hpp"

namespace rota::cli {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of a sample that is read to be shown

std::string shape_text(const Field& field, const std::string& rows) {
  std::vector<std::string> extents;
  if (field.ragged) extents.push_back(rows);
  for (const std::int64_t extent : field.shape) extents.push_back(fmt::format("{}", extent));
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

std::string field_table(const Source& source) {
  trace::TextTable table({"field", "type", "shape", "rows"}, 4);
  for (const Field& field : source.fields()) {
    table.add({shown(field.name), std::string(to_string(field.dtype)), shape_text(field, "*"),
               field.ragged ? "ragged" : "fixed"});
  }
  return table.text();
}

// One sample's memory, and how it lies there.
class SampleMemory {
 public:
  SampleMemory(const Source& source, SampleId id) : source_(source), id_(id) {
    for (std::size_t f = 0; f < source.fields().size(); ++f) {
      const Field& field = source.fields()[f];
      std::int64_t rows = 1;
      if (field.ragged) source.rows({&id, 1}, f, {&rows, 1});
      offsets_.push_back({0, rows});
      total_ += bytes_of(f);
    }
  }

  [[nodiscard]] std::int64_t rows(std::size_t f) const { return offsets_[f][1]; }
  [[nodiscard]] std::size_t bytes_of(std::size_t f) const {
    return static_cast<std::size_t>(rows(f)) * source_.fields()[f].row_bytes();
  }
  [[nodiscard]] std::size_t total() const { return total_; }
  [[nodiscard]] const std::vector<std::byte>& operator[](std::size_t f) const { return data_[f]; }

  void read() {
    std::vector<BatchView::FieldMemory> fields;
    for (std::size_t f = 0; f < offsets_.size(); ++f) {
      const Field& field = source_.fields()[f];
      data_.emplace_back(bytes_of(f));
      fields.push_back({.data = data_[f].data(),
                        .row_bytes = field.row_bytes(),
                        .offsets = field.ragged ? offsets_[f].data() : nullptr});
    }
    source_.read({&id_, 1}, BatchView(fields, 0, 1));
  }

 private:
  const Source& source_;
  SampleId id_;
  std::vector<std::array<std::int64_t, 2>> offsets_;
  std::vector<std::vector<std::byte>> data_;
  std::size_t total_ = 0;
};

std::string sample_text(const Source& source, SampleId id) {
  SampleMemory memory(source, id);
  const bool is_read = memory.total() <= kMostBytes;
  if (is_read) memory.read();
  const std::string where = source.where(id);
  std::string text = fmt::format("\nsample {}{}\n", id.value, where.empty() ? "" : ": " + shown(where));
  std::size_t width = 0;
  for (const Field& field : source.fields()) width = std::max(width, shown(field.name).size());
  for (std::size_t f = 0; f < source.fields().size(); ++f) {
    const Field& field = source.fields()[f];
    text += fmt::format("  {:<{}}  {}, {}: {}\n", shown(field.name), width,
                        shape_text(field, fmt::format("{}", memory.rows(f))),
                        counted(static_cast<std::int64_t>(memory.bytes_of(f)), "byte"),
                        is_read ? preview(field, memory[f]) : "too large to be shown");
  }
  return text;
}

std::shared_ptr<const Source> open_dataset(const DatasetOptions& dataset) {
  ProgressBar bar;
  CatalogOptions how;
  how.progress = bar.function();
  return open(make_catalog(dataset, how), dataset.format);
}

}  // namespace

void head(const DatasetOptions& dataset, std::int64_t samples, std::FILE* out) {
  const auto source = open_dataset(dataset);
  fmt::print(out, "{}: {}, fingerprint {}\n\n{}", shown(dataset.path.native()),
             counted(source->size(), "sample"), to_string(source->fingerprint()), field_table(*source));
  for (std::int64_t i = 0; i < std::min(samples, source->size()); ++i) {
    fmt::print(out, "{}", sample_text(*source, SampleId{i}));
  }
}

}  // namespace rota::cli
