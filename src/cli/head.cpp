// `rota head`: what the first samples of a dataset are.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/verbs.hpp"
#include "rota/open.hpp"
#include "source/content.hpp"

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
  std::vector<std::vector<std::string>> table{{"field", "type", "shape", "rows"}};
  for (const Field& field : source.fields()) {
    table.push_back({shown(field.name), std::string(to_string(field.dtype)), shape_text(field, "*"),
                     field.ragged ? "ragged" : "fixed"});
  }
  return table_text(table, 4);
}

std::string sample_text(const Source& source, SampleId id) {
  internal::OneSample sample(source, id);
  const bool is_read = sample.bytes() <= kMostBytes;
  if (is_read) sample.read();
  const std::string where = source.where(id);
  std::string text = fmt::format("\nsample {}{}\n", id.value, where.empty() ? "" : ": " + shown(where));
  std::size_t width = 0;
  for (const Field& field : source.fields()) width = std::max(width, shown(field.name).size());
  for (std::size_t f = 0; f < source.fields().size(); ++f) {
    const Field& field = source.fields()[f];
    const std::int64_t rows = sample.rows(f);
    text += fmt::format("  {:<{}}  {}, {}: {}\n", shown(field.name), width,
                        shape_text(field, fmt::format("{}", rows)),
                        counted(rows * static_cast<std::int64_t>(field.row_bytes()), "byte"),
                        is_read ? preview(field, sample.data(f)) : "too large to be shown");
  }
  return text;
}

std::shared_ptr<const Source> open_dataset(const DatasetOptions& dataset) {
  ProgressBar bar;
  return open(make_catalog(dataset, {.progress = bar.function()}), dataset.format);
}

int head(const DatasetOptions& dataset, std::int64_t first, std::int64_t samples) {
  const auto source = open_dataset(dataset);
  fmt::print("{}: {}, fingerprint {}\n\n{}", shown(dataset.path.native()), counted(source->size(), "sample"),
             to_string(source->fingerprint()), field_table(*source));
  if (first > 0) check_ids(*source, std::vector{SampleId{first}});
  for (std::int64_t i = first; i < source->size() && i - first < samples; ++i) {
    fmt::print("{}", sample_text(*source, SampleId{i}));
  }
  return 0;
}

}  // namespace

void add_head(CLI::App& app, int& code) {
  struct Head {
    DatasetOptions dataset;
    std::int64_t first = 0;
    std::int64_t samples = 3;
  };
  const auto options = std::make_shared<Head>();
  CLI::App& command = *app.add_subcommand("head", "Shows the fields of a dataset, and some samples.");
  add_dataset(command, options->dataset);
  add_number(command, "-n", options->samples, 0, "samples to show");
  add_number(command, "--at", options->first, 0, "the first of them");
  command.callback([options, &code] { code = head(options->dataset, options->first, options->samples); });
}

}  // namespace rota::cli
