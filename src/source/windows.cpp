#include "rota/windows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/failure.hpp"
#include "core/option.hpp"
#include "source/field_check.hpp"
#include "source/file_samples.hpp"
#include "source/read_plan.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kMakingWindows = "make windows";

// How many windows `rows` rows have.
std::int64_t count_windows(std::int64_t rows, const WindowOptions& options) noexcept {
  return rows < options.length ? 0 : (rows - options.length) / options.stride + 1;
}

class Windows final : public Source, public PlannedSource {
 public:
  Windows(std::shared_ptr<const Source> rows, const WindowOptions& options)
      : rows_(std::move(rows)), options_(options) {
    const SourceFacts facts = ask_facts(*rows_, kMakingWindows);
    std::vector<std::int64_t> parts;
    if (!options_.across_files) parts = ask_part_sizes(*rows_, facts.size, kMakingWindows);
    if (parts.empty()) parts.push_back(facts.size);
    for (const std::int64_t part : parts) {
      row_parts_.add(part);
      window_parts_.add(count_windows(part, options_));
    }
    if (size() == 0 && facts.size > 0) throw too_long(*std::max_element(parts.begin(), parts.end()));
    make_fields(facts.fields);
  }

  /// The same windows, of `rows`.
  Windows(const Windows& other, std::shared_ptr<const Source> rows)
      : rows_(std::move(rows)),
        options_(other.options_),
        fields_(other.fields_),
        row_parts_(other.row_parts_),
        window_parts_(other.window_parts_) {}

  [[nodiscard]] std::int64_t size() const override { return window_parts_.total(); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    std::size_t bytes = 0;
    for (std::size_t f = 0; f < fields_.size(); ++f) bytes += out.all(f).size();
    if (bytes == 0) return;
    const Gathered gathered = gather(ids, out.epochs());
    // A tensor [n, length, ...] of windows is one [n length, ...] of rows. Rows that are read go to its end,
    // from where windows are copied to their places in order: none is overwritten before, because each window
    // takes up at least as many rows as it added.
    const auto length = static_cast<std::size_t>(options_.length);
    const std::size_t skipped = ids.size() * length - gathered.rows.size();
    std::vector<BatchView::FieldMemory> memory(fields_.size());
    for (std::size_t f = 0; f < memory.size(); ++f) {
      memory[f] = {
          .data = out.all(f).data(), .row_bytes = fields_[f].row_bytes() / length, .offsets = nullptr};
    }
    rows_->read(gathered.rows, BatchView(memory, skipped, gathered.rows.size(), gathered.epochs));
    if (skipped == 0) return;
    for (const BatchView::FieldMemory& field : memory) spread_out(gathered, skipped, field);
  }

  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override {
    auto rows = instance_of(*rows_, worker);
    return rows ? std::make_unique<Windows>(*this, std::move(rows)) : nullptr;
  }

  [[nodiscard]] std::int64_t will_read(SampleId first, std::int64_t count) const override {
    return will_read_by_plan(*this, first, count);
  }
  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t open) const override {
    return std::make_unique<MappedPlan>(
        *this, *rows_, open,
        MappedPlan::Map{.count = options_.length,
                        .ids = [this](std::span<const SampleId> ids) { return gather(ids).rows; },
                        .range = [this](SampleRange windows) { return rows_under(windows); }});
  }
  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most) const override {
    return content_of(*rows_, most);
  }

  [[nodiscard]] Fingerprint fingerprint() const override {
    return FingerprintBuilder()
        .add("windows")
        .add(rows_->fingerprint())
        .add(row_parts_.counts())
        .add(options_.length)
        .add(options_.stride)
        .finish();
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    if (id.value < 0 || id.value >= size()) return {};
    const std::int64_t first = first_row(window_parts_.find(id.value));
    std::string text = rows_->where({first});
    if (text.empty() || options_.length == 1) return text;
    return fmt::format("{} to {}", text, rows_->where({first + options_.length - 1}));
  }

  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override {
    return options_.across_files ? std::vector<std::int64_t>() : window_parts_.counts();
  }

  [[nodiscard]] std::vector<std::int64_t> shard_lengths(std::int64_t shards) const override {
    return windows_of(ask_shard_lengths(*rows_, row_parts_.total(), shards, kMakingWindows));
  }
  [[nodiscard]] std::vector<std::int64_t> unit_sizes() const override {
    return windows_of(ask_unit_sizes(*rows_, row_parts_.total(), kMakingWindows));
  }

 private:
  void make_fields(const std::vector<Field>& fields) {
    for (Field field : fields) {
      if (field.ragged) {
        throw failure(ErrorCode::invalid_argument,
                      "make windows: field \"{}\" is ragged, and rows of a window lie side by side; leave it "
                      "out, or write it with one shape",
                      field.name);
      }
      if (options_.length > most_rows(field.row_bytes())) {
        throw failure(
            ErrorCode::invalid_argument,
            "make windows: length is {} rows, of {} bytes each in field \"{}\"; a window may have 2^50 bytes",
            options_.length, field.row_bytes(), field.name);
      }
      field.shape.insert(field.shape.begin(), options_.length);
      fields_.push_back(std::move(field));
    }
    check_fields(fields_, kMakingWindows, "a window", ErrorCode::invalid_argument);
  }

  // Rows to be read, and where in there each window begins.
  struct Gathered {
    std::vector<SampleId> rows;
    std::vector<std::size_t> begins;
    std::vector<std::int64_t> epochs;  // of the rows; empty where nobody says
  };

  [[nodiscard]] Error too_long(std::int64_t longest) const {
    if (longest < row_parts_.total() && count_windows(row_parts_.total(), options_) > 0) {
      return failure(ErrorCode::invalid_argument,
                     "make windows: length is {} rows, and no file has more than {} of the {} rows; make it "
                     "shorter, or set across_files where the files are one time axis",
                     options_.length, longest, row_parts_.total());
    }
    return failure(ErrorCode::invalid_argument,
                   "make windows: length is {} rows, and the dataset has {}; make it shorter",
                   options_.length, row_parts_.total());
  }

  [[nodiscard]] std::int64_t first_row(const FileSamples::SamplePlace& place) const noexcept {
    return row_parts_.first(place.file) + place.sample * options_.stride;
  }

  // From the first row of these windows to their last.
  [[nodiscard]] SampleRange rows_under(SampleRange windows) const {
    check_range(windows, size());
    if (windows.begin == windows.end) return {};
    return {.begin = first_row(window_parts_.find(windows.begin)),
            .end = first_row(window_parts_.find(windows.end - 1)) + options_.length};
  }

  // The rows of windows, one window after the other; what a window shares with the one before, of the same
  // epoch, is there once. For a window that is not there, a row that is not there.
  [[nodiscard]] Gathered gather(std::span<const SampleId> ids,
                                std::span<const std::int64_t> epochs = {}) const {
    Gathered result;
    result.begins.reserve(ids.size());
    FileSamples::SamplePlace place;
    std::int64_t end = -1;  // of the window before
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const SampleId id = ids[i];
      if (id.value < 0 || id.value >= size())
        return {.rows = {{row_parts_.total()}}, .begins = {}, .epochs = {}};
      place = window_parts_.find(id.value, place.file);
      const std::int64_t first = first_row(place);
      const bool is_later = !epochs.empty() && i > 0 && epochs[i] != epochs[i - 1];
      const bool goes_on = first <= end && end - first <= options_.length && !is_later;
      const std::int64_t shared = goes_on ? end - first : 0;
      result.begins.push_back(result.rows.size() - static_cast<std::size_t>(shared));
      end = first + options_.length;
      std::size_t at = result.rows.size();
      result.rows.resize(at + static_cast<std::size_t>(options_.length - shared));
      for (std::int64_t row = first + shared; row < end; ++row) result.rows[at++] = {row};
      if (!epochs.empty()) result.epochs.resize(result.rows.size(), epochs[i]);
    }
    return result;
  }

  // From the end of a field's memory, `skipped` rows behind its begin.
  void spread_out(const Gathered& gathered, std::size_t skipped, const BatchView::FieldMemory& field) const {
    const std::size_t window_bytes = static_cast<std::size_t>(options_.length) * field.row_bytes;
    std::byte* to = field.data;
    for (const std::size_t begin : gathered.begins) {
      const std::byte* from = field.data + (skipped + begin) * field.row_bytes;
      if (from == to) return;  // and so are all that follow
      std::memmove(to, from, window_bytes);
      to += window_bytes;
    }
  }

  // How many windows begin in each of these runs of rows.
  [[nodiscard]] std::vector<std::int64_t> windows_of(std::vector<std::int64_t> lengths) const {
    std::int64_t end = 0;
    std::int64_t done = 0;
    for (std::int64_t& length : lengths) {
      end += length;
      const std::int64_t before = windows_before(end);
      length = before - std::exchange(done, before);
    }
    return lengths;
  }

  // How many windows begin before `row`.
  [[nodiscard]] std::int64_t windows_before(std::int64_t row) const noexcept {
    if (row >= row_parts_.total()) return size();
    const FileSamples::SamplePlace place = row_parts_.find(row);
    const std::int64_t in_part =
        place.sample / options_.stride + (place.sample % options_.stride > 0 ? 1 : 0);
    return window_parts_.first(place.file) + std::min(in_part, window_parts_.count(place.file));
  }

  std::shared_ptr<const Source> rows_;
  WindowOptions options_;
  std::vector<Field> fields_;
  FileSamples row_parts_;     // rows of each part
  FileSamples window_parts_;  // windows of each part
};

}  // namespace

}  // namespace rota::internal

namespace rota {

void WindowOptions::validate() const {
  constexpr internal::OptionCheck kCheck(internal::kMakingWindows);
  kCheck.in_range("length", length, 1, internal::kUnbounded, "rows");
  kCheck.in_range("stride", stride, 1, internal::kUnbounded, "rows");
}

std::shared_ptr<const Source> windows(std::shared_ptr<const Source> rows, const WindowOptions& options) {
  internal::require_source(rows, internal::kMakingWindows);
  options.validate();
  return std::make_unique<internal::Windows>(std::move(rows), options);
}

}  // namespace rota
