#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "core/failure.hpp"
#include "core/option.hpp"
#include "order/order.hpp"
#include "order/shard_plan.hpp"
#include "rota/stream.hpp"
#include "source/field_check.hpp"
#include "source/read_plan.hpp"
#include "source/source_facts.hpp"

namespace rota {
namespace {

constexpr std::string_view kMakingStream = "make a stream";

constexpr std::int64_t kMostAhead = 32;                    // samples of a shard
constexpr std::size_t kMostBlock = std::size_t{16} << 10;  // their bytes
constexpr std::size_t kAllBlocks = std::size_t{4} << 20;   // those of all shards

/// A few samples that follow each other, read in one call.
class SampleBlock {
 public:
  SampleBlock(const Source& source, std::span<const Field> fields, std::int64_t epoch)
      : source_(source),
        fields_(fields),
        bytes_(fields.size()),
        offsets_(fields.size()),
        memory_(fields.size()) {
    epochs_.fill(epoch);
  }

  [[nodiscard]] bool has(std::int64_t id) const noexcept { return id >= first_ && id < first_ + size_; }

  void copy(std::int64_t id, StreamSample& out) const {
    const BatchView sample(memory_, static_cast<std::size_t>(id - first_), 1);
    for (std::size_t f = 0; f < memory_.size(); ++f) {
      out.set(f, sample.bytes(f, 0));
      if (memory_[f].row_bytes != 0 || memory_[f].offsets == nullptr) continue;
      const std::int64_t* const offsets = memory_[f].offsets + (id - first_);
      out.resize(f, offsets[1] - offsets[0]);  // bytes do not say how many
    }
  }

  /// Reads `count` samples from `first` on, or as many of them as fit into `most` bytes, but not one alone.
  void read(std::int64_t first, std::int64_t count, std::size_t most) {
    size_ = 0;
    std::vector<SampleId> ids(static_cast<std::size_t>(count));
    for (SampleId& id : ids) id.value = first++;
    ids.resize(lay_out(ids, most));
    if (ids.size() < 2) return;
    for (std::size_t f = 0; f < memory_.size(); ++f) {
      const bool ragged = fields_[f].ragged;
      const std::size_t row_bytes = fields_[f].row_bytes();
      const auto rows = ragged ? static_cast<std::size_t>(offsets_[f][ids.size()]) : ids.size();
      if (bytes_[f].size() < rows * row_bytes) bytes_[f].resize(rows * row_bytes);
      memory_[f] = {
          .data = bytes_[f].data(), .row_bytes = row_bytes, .offsets = ragged ? offsets_[f].data() : nullptr};
    }
    source_.read(ids, BatchView(memory_, 0, ids.size(), std::span(epochs_).first(ids.size())));
    first_ = ids[0].value;
    size_ = std::ssize(ids);
  }

 private:
  // How many of them fit.
  std::size_t lay_out(std::span<const SampleId> ids, std::size_t most) {
    std::vector<std::size_t> sizes(ids.size());
    std::vector<std::int64_t> rows(ids.size());
    for (std::size_t f = 0; f < memory_.size(); ++f) {
      const Field& field = fields_[f];
      std::ranges::fill(rows, 1);
      if (field.ragged) {
        internal::PlannedSource::ask_rows(source_, std::span(epochs_).first(ids.size()), ids, f, rows);
        offsets_[f].assign(1, 0);
        for (const std::int64_t more : rows) {
          internal::check_row_count(field, more, offsets_[f].back());
          offsets_[f].push_back(offsets_[f].back() + more);
        }
      }
      const std::size_t row_bytes = field.row_bytes();
      for (std::size_t i = 0; i < ids.size(); ++i) sizes[i] += static_cast<std::size_t>(rows[i]) * row_bytes;
    }
    std::size_t count = 0;
    for (std::size_t bytes = 0; count < ids.size() && sizes[count] <= most - bytes; ++count) {
      bytes += sizes[count];
    }
    return count;
  }

  const Source& source_;
  std::span<const Field> fields_;
  std::int64_t first_ = 0;
  std::int64_t size_ = 0;
  std::vector<std::vector<std::byte>> bytes_;       // of each field
  std::vector<std::vector<std::int64_t>> offsets_;  // of each ragged field
  std::vector<BatchView::FieldMemory> memory_;
  std::array<std::int64_t, kMostAhead> epochs_{};
};

/// Small samples are read a few at a time: at first one, then twice as many each time, so that whoever needs
/// few of them waits for few.
class IndexedStream final : public ShardStream {
 public:
  // Of samples [begin, end), from number `at` on, with so many bytes of memory.
  IndexedStream(const Source& source, std::shared_ptr<const std::vector<Field>> shared_fields, ShardId shard,
                internal::SampleRange samples, std::int64_t at, std::size_t bytes, std::int64_t epoch)
      : source_(source),
        fields_(std::move(shared_fields)),
        shard_(shard),
        samples_(samples),
        next_(samples.begin + at),
        block_bytes_(bytes),
        epoch_(epoch),
        block_(source, *fields_, epoch),
        memory_(fields_->size()),
        offsets_(fields_->size()) {
    for (std::size_t f = 0; f < memory_.size(); ++f) {
      const Field& field = (*fields_)[f];
      memory_[f].row_bytes = field.row_bytes();
      if (field.ragged) memory_[f].offsets = offsets_[f].data();
    }
  }

  bool next(StreamSample& out) override {
    if (next_ == samples_.end) return false;
    if (!block_.has(next_) && next_ >= alone_until_) read_ahead();
    block_.has(next_) ? block_.copy(next_, out) : read(out);
    out.set_id({.shard = shard_, .input = next_ - samples_.begin});
    ++next_;
    return true;
  }

  void cursor(StreamCursor& out) const override {
    out.numbers.assign(1, next_ - samples_.begin);
    out.blob.clear();
  }

 private:
  void read_ahead() {
    const std::int64_t count = std::min(ahead_, samples_.end - next_);
    ahead_ = std::min(2 * ahead_, kMostAhead);
    if (count < 2) return;
    try {
      block_.read(next_, count, block_bytes_);
    } catch (const std::exception&) {
      // The one at hand may be sound, and tells what is wrong where it is not.
    }
    if (block_.has(next_)) return;
    alone_until_ = next_ + kMostAhead;
    ahead_ = 1;
  }

  // The next sample alone, into the memory where it belongs.
  void read(StreamSample& out) {
    const SampleId id{next_};
    const std::span ids(&id, 1);
    for (std::size_t f = 0; f < memory_.size(); ++f) {
      if (memory_[f].offsets != nullptr) {
        std::int64_t& rows = offsets_[f][1];
        internal::PlannedSource::ask_rows(source_, std::span(&epoch_, 1), ids, f, std::span(&rows, 1));
        out.resize(f, rows);
      }
      memory_[f].data = out.bytes(f).data();
    }
    source_.read(ids, BatchView(memory_, 0, 1, std::span(&epoch_, 1)));
  }

  const Source& source_;
  std::shared_ptr<const std::vector<Field>> fields_;
  ShardId shard_;
  internal::SampleRange samples_;
  std::int64_t next_;
  std::size_t block_bytes_;
  std::int64_t epoch_;
  SampleBlock block_;
  std::int64_t ahead_ = 1;                            // how many samples to read next
  std::int64_t alone_until_ = 0;                      // these were found to be too large, or unsound
  std::vector<BatchView::FieldMemory> memory_;        // of a sample read alone
  std::vector<std::array<std::int64_t, 2>> offsets_;  // [0, rows) of it, where ragged
};

class IndexedShards final : public StreamSource {
 public:
  IndexedShards(std::shared_ptr<const Source> source, std::shared_ptr<const std::vector<Field>> fields,
                internal::ShardPlan plan)
      : source_(std::move(source)), fields_(std::move(fields)), plan_(std::move(plan)) {}

  [[nodiscard]] std::unique_ptr<const StreamSource> for_worker(const WorkerInfo& worker) const override {
    auto own = internal::instance_of(*source_, worker);
    return own ? std::make_unique<IndexedShards>(std::move(own), fields_, plan_) : nullptr;
  }
  [[nodiscard]] const std::vector<Field>& fields() const override { return *fields_; }
  [[nodiscard]] std::int64_t shards() const override { return plan_.shards(); }
  [[nodiscard]] std::int64_t cursor_numbers() const override { return 1; }

  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                  const StreamCursor& cursor) const override {
    const std::size_t bytes = std::min(kMostBlock, kAllBlocks / static_cast<std::size_t>(shards()));
    return std::make_unique<IndexedStream>(
        *source_, fields_, shard,
        internal::SampleRange{plan_.begin(shard.value), plan_.begin(shard.value + 1)}, place(shard, cursor),
        bytes, epoch);
  }
  [[nodiscard]] std::optional<std::int64_t> remaining(ShardId shard,
                                                      const StreamCursor& cursor) const override {
    return plan_.length(shard.value) - place(shard, cursor);
  }
  [[nodiscard]] Fingerprint fingerprint() const override {
    std::vector<std::int64_t> begins;
    for (std::int64_t s = 0; s <= shards(); ++s) begins.push_back(plan_.begin(s));
    return FingerprintBuilder().add("as_stream").add(to_string(source_->fingerprint())).add(begins).finish();
  }
  [[nodiscard]] std::string where(ShardId shard) const override {
    const SampleId first{plan_.begin(shard.value)};
    return first.value < plan_.samples() ? source_->where(first) : std::string();
  }

 private:
  [[nodiscard]] std::int64_t place(ShardId shard, const StreamCursor& cursor) const {
    if (cursor.is_start()) return 0;
    const std::int64_t length = plan_.length(shard.value);
    const std::int64_t place = cursor.numbers[0];
    if (cursor.numbers.size() == 1 && place >= 0 && place <= length) return place;
    throw internal::failure(ErrorCode::corrupt, "open shard {} of {} samples: its cursor is at sample {}",
                            shard.value, length, place);
  }

  std::shared_ptr<const Source> source_;
  std::shared_ptr<const std::vector<Field>> fields_;
  internal::ShardPlan plan_;
};

}  // namespace

std::shared_ptr<const StreamSource> as_stream(std::shared_ptr<const Source> source, std::int64_t shards) {
  internal::require_source(source, kMakingStream);
  internal::OptionCheck(kMakingStream).in_range("shards", shards, 1, kMaxShards);
  internal::SourceFacts facts = internal::ask_facts(*source, kMakingStream);
  const auto lengths = internal::ask_shard_lengths(*source, facts.size, shards, kMakingStream);
  return std::make_shared<IndexedShards>(std::move(source),
                                         std::make_shared<const std::vector<Field>>(std::move(facts.fields)),
                                         lengths.empty() ? internal::ShardPlan::equal(facts.size, shards)
                                                         : internal::ShardPlan::ragged(lengths));
}

}  // namespace rota
