#include "rota/windows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/failure.hpp"
#include "rota/types.hpp"
#include "source/field_check.hpp"
#include "source/file_samples.hpp"
#include "source/read_plan.hpp"
#include "source/source_facts.hpp"
#include "source/window_shape.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kIsReal = "is_real";

class Windows final : public Source, public PlannedSource {
 public:
  Windows(std::shared_ptr<const Source> rows, const WindowOptions& options)
      : rows_(std::move(rows)), shape_(options) {
    const SourceFacts facts = ask_facts(*rows_, kMakingWindows);
    std::vector<std::int64_t> parts = options.episodes;
    require_all(parts, facts.size);
    if (parts.empty() && !options.across_files) parts = ask_part_sizes(*rows_, facts.size, kMakingWindows);
    if (parts.empty()) parts.push_back(facts.size);
    for (const std::int64_t part : parts) {
      row_parts_.add(part);
      window_parts_.add(shape_.count(part));
    }
    if (size() == 0 && facts.size > 0)
      throw too_long(*std::max_element(parts.begin(), parts.end()), !options.episodes.empty());
    make_fields(facts.fields);
  }

  /// The same windows, of `rows`.
  Windows(const Windows& other, std::shared_ptr<const Source> rows)
      : rows_(std::move(rows)),
        shape_(other.shape_),
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
    // A tensor [n, length, ...] of windows is one [n length, ...] of rows. Rows that are read go to its
    // begin, from where they are copied to their places, the last first: none is overwritten while it is
    // needed, because no row is read to behind the first of its places.
    const auto length = static_cast<std::size_t>(shape_.rows());
    std::vector<BatchView::FieldMemory> memory(fields_.size() - (shape_.clamps() ? 1 : 0));
    for (std::size_t f = 0; f < memory.size(); ++f) {
      memory[f] = {
          .data = out.all(f).data(), .row_bytes = fields_[f].row_bytes() / length, .offsets = nullptr};
    }
    rows_->read(gathered.rows, BatchView(memory, 0, gathered.rows.size(), gathered.epochs));
    for (const BatchView::FieldMemory& field : memory) spread_out(gathered, ids.size() * length, field);
    if (shape_.clamps()) mark_real(ids, out);
  }

  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override {
    auto rows = instance_of(*rows_, worker);
    return rows ? std::make_unique<Windows>(*this, std::move(rows)) : nullptr;
  }

  [[nodiscard]] std::int64_t will_read(SampleId first, std::int64_t count) const override {
    return will_read_by_plan(*this, first, count);
  }
  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t open) const override {
    MappedPlan::Map map{.count = shape_.rows(),
                        .range = [this](SampleRange windows) { return rows_under(windows); },
                        .changes_by_epoch = shape_.moves()};
    // It is not told for which epoch. So it is told all rows to which windows may be moved, unless most of
    // these would not be read.
    constexpr double kMostAround = 4;
    if (shape_.rows_around() <= kMostAround * static_cast<double>(shape_.rows())) {
      map.count = static_cast<std::int64_t>(shape_.rows_around());
      map.ids = [this](std::span<const SampleId> ids) {
        return shape_.moves() ? rows_around(ids) : gather(ids).rows;
      };
    }
    return std::make_unique<MappedPlan>(*this, *rows_, open, std::move(map));
  }
  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most, SampleRange of) const override {
    return of.end - of.begin < size() ? std::vector<SampleContent>() : content_of(*rows_, most);
  }

  [[nodiscard]] bool keeps_samples() const override {
    return !shape_.clamps() && keeps_samples_of(*rows_);  // else the last ones have other rows
  }

  [[nodiscard]] Fingerprint fingerprint() const override {
    FingerprintBuilder builder;
    builder.add("windows").add(rows_->fingerprint()).add(row_parts_.counts());
    builder.add(shape_.options().length).add(shape_.options().stride);
    if (shape_.has_offsets() || shape_.clamps())
      builder.add(shape_.options().offsets).add(static_cast<std::int64_t>(shape_.options().edges));
    if (shape_.moves()) {
      builder.add("jitter").add(shape_.options().jitter);
      builder.add(static_cast<std::int64_t>(shape_.options().seed));
    }
    return builder.finish();
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    if (id.value < 0 || id.value >= size()) return {};
    const SampleRange rows = rows_under({.begin = id.value, .end = id.value + 1});
    std::string text = rows_->where({rows.begin});
    if (text.empty() || rows.end - rows.begin == 1) return text;
    return fmt::format("{} to {}", text, rows_->where({rows.end - 1}));
  }

  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override {
    return shape_.options().across_files ? std::vector<std::int64_t>() : window_parts_.counts();
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
      if (shape_.rows() > most_rows(field.row_bytes())) {
        throw failure(
            ErrorCode::invalid_argument,
            "make windows: a window has {} rows, of {} bytes each in field \"{}\"; it may have 2^50 bytes",
            shape_.rows(), field.row_bytes(), field.name);
      }
      if (shape_.clamps() && field.name == kIsReal) {
        throw failure(
            ErrorCode::invalid_argument,
            "make windows: there is a field \"{}\", and edges \"clamp\" makes one of that name; leave "
            "it out, or set edges to \"drop\"",
            kIsReal);
      }
      field.shape.insert(field.shape.begin(), shape_.rows());
      fields_.push_back(std::move(field));
    }
    if (shape_.clamps()) fields_.push_back({.name = std::string(kIsReal), .shape = {shape_.rows()}});
    check_fields(fields_, kMakingWindows, "a window", ErrorCode::invalid_argument);
  }

  // Rows to be read, and in which order windows have them, as runs of some that stand side by side.
  struct Gathered {
    struct Run {
      std::size_t first;
      std::size_t count;
    };
    std::vector<SampleId> rows;
    std::vector<Run> runs;
    std::vector<std::int64_t> epochs;  // of the rows; empty where nobody says

    void have(std::size_t first, std::size_t count) {
      if (!runs.empty() && runs.back().first + runs.back().count == first) {
        runs.back().count += count;
      } else {
        runs.push_back({first, count});
      }
    }
  };
  /// A row of a window, and where it is among those gathered.
  struct Known {
    std::int64_t row;
    std::size_t at;
  };

  // Of episodes that are given.
  static void require_all(const std::vector<std::int64_t>& episodes, std::int64_t rows) {
    std::int64_t left = rows;
    for (std::size_t i = 0; i < episodes.size(); left -= episodes[i++]) {
      if (episodes[i] <= left) continue;
      throw failure(ErrorCode::invalid_argument,
                    "make windows: episode {} has {} rows, and those before it leave {} of the dataset's {}; "
                    "give the lengths of its episodes, in order",
                    i, episodes[i], left, rows);
    }
    if (left == 0 || episodes.empty()) return;
    throw failure(ErrorCode::invalid_argument,
                  "make windows: the episodes have {} rows, and the dataset {}; give the lengths of all",
                  rows - left, rows);
  }

  [[nodiscard]] Error too_long(std::int64_t longest, bool has_episodes) const {
    const std::string what = shape_.has_offsets()
                                 ? fmt::format("offsets are {} to {}, with a stride of {}", shape_.offset(0),
                                               shape_.offset(shape_.rows() - 1), shape_.options().stride)
                                 : fmt::format("length is {} rows", shape_.options().length);
    const std::string_view less =
        shape_.has_offsets() ? "have others, or set edges to \"clamp\"" : "make it shorter";
    if (longest < row_parts_.total() && shape_.count(row_parts_.total()) > 0) {
      return failure(ErrorCode::invalid_argument,
                     "make windows: {}, and no {} has more than {} of the {} rows; {}{}", what,
                     has_episodes ? "episode" : "file", longest, row_parts_.total(), less,
                     has_episodes ? "" : ", or set across_files where the files are one time axis");
    }
    return failure(ErrorCode::invalid_argument, "make windows: {}, and the dataset has {}; {}", what,
                   row_parts_.total(), less);
  }

  // Row k of the window of a part with this own row; of the edge, if it is beyond.
  [[nodiscard]] std::int64_t row_of(std::size_t part, std::int64_t own, std::int64_t k) const noexcept {
    const std::int64_t row = own + shape_.offset(k);
    return row_parts_.first(part) + std::clamp<std::int64_t>(row, 0, row_parts_.count(part) - 1);
  }
  [[nodiscard]] WindowShape::Reach reach_of(const FileSamples::SamplePlace& place) const noexcept {
    return shape_.reach(place.sample, row_parts_.count(place.file));
  }
  [[nodiscard]] std::int64_t own_in(std::int64_t epoch, SampleId id,
                                    const FileSamples::SamplePlace& place) const noexcept {
    return shape_.own_in(epoch, id.value, place.sample, row_parts_.count(place.file));
  }

  // From the first row that these windows may have to the last.
  [[nodiscard]] SampleRange rows_under(SampleRange windows) const {
    check_range(windows, size());
    if (windows.begin == windows.end) return {};
    const FileSamples::SamplePlace first = window_parts_.find(windows.begin);
    const FileSamples::SamplePlace last = window_parts_.find(windows.end - 1);
    return {.begin = row_of(first.file, reach_of(first).first, 0),
            .end = row_of(last.file, reach_of(last).last, shape_.rows() - 1) + 1};
  }

  // All rows that windows may have, one window after the other.
  [[nodiscard]] std::vector<SampleId> rows_around(std::span<const SampleId> ids) const {
    check_ids(*this, ids);
    std::vector<SampleId> rows;
    FileSamples::SamplePlace place;
    for (const SampleId id : ids) {
      place = window_parts_.find(id.value, place.file);
      const WindowShape::Reach reach = reach_of(place);
      std::int64_t next = 0;
      for (std::int64_t k = 0; k < shape_.rows(); ++k) {
        next = std::max(next, row_of(place.file, reach.first, k));
        const std::int64_t end = row_of(place.file, reach.last, k) + 1;
        for (; next < end; ++next) rows.push_back({next});
      }
    }
    return rows;
  }

  // The rows of windows, one window after the other; what a window shares with the one before, of the same
  // epoch, is there once. For a window that is not there, a row that is not there.
  [[nodiscard]] Gathered gather(std::span<const SampleId> ids,
                                std::span<const std::int64_t> epochs = {}) const {
    Gathered result;
    const bool are_side_by_side = !shape_.has_offsets() && !shape_.clamps();
    FileSamples::SamplePlace place;
    std::int64_t end = -1;      // of the window before
    std::vector<Known> before;  // or its rows
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const SampleId id = ids[i];
      if (id.value < 0 || id.value >= size())
        return {.rows = {{row_parts_.total()}}, .runs = {}, .epochs = {}};
      place = window_parts_.find(id.value, place.file);
      if (!epochs.empty() && i > 0 && epochs[i] != epochs[i - 1]) {
        end = -1;
        before.clear();
      }
      const std::int64_t own = own_in(epochs.empty() ? 0 : epochs[i], id, place);
      if (are_side_by_side) {
        add_all(row_of(place.file, own, 0), end, result);
      } else {
        add_each(place.file, own, before, result);
      }
      if (!epochs.empty()) result.epochs.resize(result.rows.size(), epochs[i]);
    }
    return result;
  }

  // Rows from `first` on; `end` is that of the window before, and becomes that of this one.
  void add_all(std::int64_t first, std::int64_t& end, Gathered& result) const {
    const std::int64_t length = shape_.rows();
    const bool goes_on = first <= end && end - first <= length;
    const std::int64_t shared = goes_on ? end - first : 0;
    std::size_t at = result.rows.size();
    result.have(at - static_cast<std::size_t>(shared), static_cast<std::size_t>(length));
    end = first + length;
    result.rows.resize(at + static_cast<std::size_t>(length - shared));
    for (std::int64_t row = first + shared; row < end; ++row) result.rows[at++] = {row};
  }

  // The same of any rows. They rise, here as in the window before.
  void add_each(std::size_t part, std::int64_t own, std::vector<Known>& before, Gathered& result) const {
    std::vector<Known> now;
    now.reserve(static_cast<std::size_t>(shape_.rows()));
    auto known = before.begin();
    for (std::int64_t k = 0; k < shape_.rows(); ++k) {
      Known next{.row = row_of(part, own, k), .at = result.rows.size()};
      while (known != before.end() && known->row < next.row) ++known;
      if (!now.empty() && now.back().row == next.row) {
        next = now.back();
      } else if (known != before.end() && known->row == next.row) {
        next = *known;
      } else {
        result.rows.push_back({next.row});
      }
      now.push_back(next);
      result.have(next.at, 1);
    }
    before = std::move(now);
  }

  // From the begin of a field's memory to the places, `places` in all, where windows have the rows.
  static void spread_out(const Gathered& gathered, std::size_t places, const BatchView::FieldMemory& field) {
    std::byte* to = field.data + places * field.row_bytes;
    for (std::size_t r = gathered.runs.size(); r-- > 0;) {
      const auto& run = gathered.runs[r];
      const std::byte* from = field.data + run.first * field.row_bytes;
      to -= run.count * field.row_bytes;
      if (from == to) return;  // and so are all before
      std::memmove(to, from, run.count * field.row_bytes);
    }
  }

  // In the last field.
  void mark_real(std::span<const SampleId> ids, const BatchView& out) const {
    FileSamples::SamplePlace place;
    auto at = out.all(fields_.size() - 1).begin();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      place = window_parts_.find(ids[i].value, place.file);
      const std::int64_t own = own_in(out.epoch(i), ids[i], place);
      for (std::int64_t k = 0; k < shape_.rows(); ++k) {
        const std::int64_t row = own + shape_.offset(k);
        *at++ = std::byte{row >= 0 && row < row_parts_.count(place.file)};
      }
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
    return window_parts_.first(place.file) +
           std::min(shape_.before(place.sample), window_parts_.count(place.file));
  }

  std::shared_ptr<const Source> rows_;
  WindowShape shape_;
  std::vector<Field> fields_;
  FileSamples row_parts_;     // rows of each part
  FileSamples window_parts_;  // windows of each part
};

}  // namespace

}  // namespace rota::internal

namespace rota {

std::shared_ptr<const Source> windows(std::shared_ptr<const Source> rows, const WindowOptions& options) {
  internal::require_source(rows, internal::kMakingWindows);
  options.validate();
  return std::make_unique<internal::Windows>(std::move(rows), options);
}

}  // namespace rota
