#include <fmt/format.h>

#include <array>
#include <numeric>
#include <utility>

#include "rota/error.hpp"
#include "rota/stream.hpp"
#include "source/instance.hpp"

namespace rota {
namespace {

class IndexedStream final : public ShardStream {
 public:
  IndexedStream(const Source& source, ShardId shard, std::int64_t begin, std::int64_t end, std::int64_t at)
      : source_(source), shard_(shard), begin_(begin), end_(end), next_(begin + at) {
    memory_.resize(source.fields().size());
    offsets_.resize(source.fields().size());
    for (std::size_t f = 0; f < memory_.size(); ++f) {
      const Field& field = source.fields()[f];
      memory_[f].row_bytes = field.row_bytes();
      if (field.ragged) memory_[f].offsets = offsets_[f].data();
    }
  }

  bool next(StreamSample& out) override {
    if (next_ == end_) return false;
    const SampleId id{next_};
    const std::span ids(&id, 1);
    for (std::size_t f = 0; f < memory_.size(); ++f) {
      if (memory_[f].offsets != nullptr) {
        std::int64_t& rows = offsets_[f][1];
        source_.rows(ids, f, std::span(&rows, 1));
        out.resize(f, rows);
      }
      memory_[f].data = out.bytes(f).data();
    }
    source_.read(ids, BatchView(memory_, 0, 1));
    out.set_id({.shard = shard_, .input = next_ - begin_});
    ++next_;
    return true;
  }

  void cursor(StreamCursor& out) const override {
    out.numbers.assign(1, next_ - begin_);
    out.blob.clear();
  }

 private:
  const Source& source_;
  ShardId shard_;
  std::int64_t begin_;
  std::int64_t end_;
  std::int64_t next_;
  std::vector<BatchView::FieldMemory> memory_;        // of the sample at hand
  std::vector<std::array<std::int64_t, 2>> offsets_;  // [0, rows) of it, where ragged
};

class IndexedShards final : public StreamSource {
 public:
  IndexedShards(std::shared_ptr<const Source> source, std::int64_t shards) : source_(std::move(source)) {
    begins_.reserve(static_cast<std::size_t>(shards) + 1);
    begins_.push_back(0);
    const auto lengths = source_->shard_lengths(shards);
    for (std::int64_t s = 0; s < shards && lengths.empty(); ++s) {
      begins_.push_back(share(source_->size(), s + 1, shards));
    }
    for (const std::int64_t length : lengths) begins_.push_back(begins_.back() + length);
    if (this->shards() == shards && begins_.back() == source_->size()) return;
    throw Error(ErrorCode::callback,
                fmt::format("make a stream: the source splits its {} samples into {} shards of {} samples in "
                            "all; it was asked for {} shards",
                            source_->size(), this->shards(), begins_.back(), shards));
  }

  /// The same shards, of `source`.
  IndexedShards(const IndexedShards& other, std::shared_ptr<const Source> source)
      : source_(std::move(source)), begins_(other.begins_) {}

  [[nodiscard]] std::unique_ptr<const StreamSource> for_worker(const WorkerInfo& worker) const override {
    auto own = internal::instance_of(*source_, worker);
    return own ? std::make_unique<IndexedShards>(*this, std::move(own)) : nullptr;
  }
  [[nodiscard]] const std::vector<Field>& fields() const override { return source_->fields(); }
  [[nodiscard]] std::int64_t shards() const override { return std::ssize(begins_) - 1; }
  [[nodiscard]] std::int64_t cursor_numbers() const override { return 1; }

  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t /*epoch*/,
                                                  const StreamCursor& cursor) const override {
    return std::make_unique<IndexedStream>(*source_, shard, begin(shard), begin(next_of(shard)),
                                           place(shard, cursor));
  }
  [[nodiscard]] std::optional<std::int64_t> remaining(ShardId shard,
                                                      const StreamCursor& cursor) const override {
    return begin(next_of(shard)) - begin(shard) - place(shard, cursor);
  }
  [[nodiscard]] Fingerprint fingerprint() const override {
    return FingerprintBuilder()
        .add("stream_of")
        .add(to_string(source_->fingerprint()))
        .add(std::span<const std::int64_t>(begins_))
        .finish();
  }
  [[nodiscard]] std::string where(ShardId shard) const override {
    return begin(shard) < source_->size() ? source_->where({begin(shard)}) : std::string();
  }

 private:
  static ShardId next_of(ShardId shard) noexcept { return {shard.value + 1}; }
  [[nodiscard]] std::int64_t begin(ShardId shard) const noexcept {
    return begins_[static_cast<std::size_t>(shard.value)];
  }
  [[nodiscard]] std::int64_t place(ShardId shard, const StreamCursor& cursor) const {
    if (cursor.is_start()) return 0;
    const std::int64_t length = begin(next_of(shard)) - begin(shard);
    const std::int64_t place = cursor.numbers[0];
    if (cursor.numbers.size() == 1 && place >= 0 && place <= length) return place;
    throw Error(ErrorCode::corrupt, fmt::format("open shard {} of {} samples: its cursor is at sample {}",
                                                shard.value, length, place));
  }

  std::shared_ptr<const Source> source_;
  std::vector<std::int64_t> begins_;  // [shards + 1]
};

}  // namespace

std::shared_ptr<const StreamSource> stream_of(std::shared_ptr<const Source> source, std::int64_t shards) {
  if (!source) {
    throw Error(ErrorCode::invalid_argument, "make a stream: there is no source (a null pointer)");
  }
  if (shards < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("make a stream: shards is {}; it must be 1 or more", shards));
  }
  if (source->is_spread()) {
    throw Error(
        ErrorCode::unsupported,
        "make a stream: the source is spread over ranks, which must meet to read it; open its catalog "
        "with Placement::node_shared");
  }
  return std::make_shared<IndexedShards>(std::move(source), shards);
}

}  // namespace rota
