#pragma once

// A stream whose samples say who they are, and what can be told of samples that were read.

#include "test.hpp"

namespace rota::test {

/// Shards of the given lengths. "x" is (shard, input), "text" is ragged, (shard + input) modulo 5 bytes.
class NumberedStream : public StreamSource {
 public:
  explicit NumberedStream(std::vector<std::int64_t> lengths) : lengths_(std::move(lengths)) {}

  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] std::int64_t shards() const override { return std::ssize(lengths_); }
  [[nodiscard]] std::int64_t cursor_numbers() const override { return 2; }
  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                  const StreamCursor& cursor) const override;
  [[nodiscard]] std::optional<std::int64_t> remaining(ShardId shard,
                                                      const StreamCursor& cursor) const override {
    if (!knows_lengths) return std::nullopt;
    return length(shard) - (cursor.is_start() ? 0 : cursor.numbers.at(0));
  }
  [[nodiscard]] std::string where(ShardId shard) const override {
    return "file-" + std::to_string(shard.value);
  }
  [[nodiscard]] std::int64_t length(ShardId shard) const {
    return lengths_.at(static_cast<std::size_t>(shard.value));
  }

  bool knows_lengths = true;
  std::size_t blob_bytes = 0;  // of its cursors
  std::function<void(StreamId)> on_read;
  std::function<void()> on_cursor;

 private:
  std::vector<std::int64_t> lengths_;
  std::vector<Field> fields_{{.name = "x", .dtype = DType::int64, .shape = {2}, .ragged = false},
                             {.name = "text", .dtype = DType::uint8, .shape = {}, .ragged = true}};
};

/// Of a NumberedStream. Its cursor is (next, next + 7).
class NumberedShard : public ShardStream {
 public:
  NumberedShard(const NumberedStream& source, ShardId shard, std::int64_t next)
      : source_(source), shard_(shard), next_(next) {}

  bool next(StreamSample& out) override {
    if (next_ == source_.length(shard_)) return false;
    out.set_id({.shard = shard_, .input = next_});
    if (source_.on_read) source_.on_read(out.id());
    const std::array x{shard_.value, next_};
    out.set(0, std::as_bytes(std::span(x)));
    for (std::byte& b : out.resize(1, (shard_.value + next_) % 5)) b = static_cast<std::byte>(next_);
    ++next_;
    return true;
  }
  void cursor(StreamCursor& out) const override {
    if (source_.on_cursor) source_.on_cursor();
    out.numbers = {next_, next_ + 7};
    out.blob.assign(source_.blob_bytes, 'b');
  }

 private:
  const NumberedStream& source_;
  ShardId shard_;
  std::int64_t next_;
};

inline std::unique_ptr<ShardStream> NumberedStream::open(ShardId shard, std::int64_t /*epoch*/,
                                                         const StreamCursor& cursor) const {
  if (cursor.is_start()) return std::make_unique<NumberedShard>(*this, shard, 0);
  if (cursor.numbers.size() != 2 || cursor.numbers[1] != cursor.numbers[0] + 7 ||
      cursor.blob.size() != blob_bytes) {
    throw Error(ErrorCode::corrupt, "not a cursor of a numbered stream");
  }
  return std::make_unique<NumberedShard>(*this, shard, cursor.numbers[0]);
}

/// Which sample, and what is in it.
using Seen = std::pair<StreamId, std::string>;

inline Seen seen(const StreamSample& sample) {
  std::string bytes;
  for (std::size_t f = 0; f < sample.size(); ++f) {
    const auto field = sample.bytes(f);
    bytes.append(reinterpret_cast<const char*>(field.data()), field.size());
  }
  return {sample.id(), bytes};
}

inline std::vector<Seen> read_all(ShardStream& stream, const StreamSource& source) {
  std::vector<Seen> all;
  StreamSample sample(source.fields());
  while (stream.next(sample)) all.push_back(seen(sample));
  return all;
}

inline std::vector<Seen> read_all(const StreamSource& source, ShardId shard, std::int64_t epoch = 0) {
  return read_all(*source.open(shard, epoch, {}), source);
}

inline std::vector<Seen> seen(const StreamBatch& batch) {
  std::vector<Seen> all;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    std::string bytes;
    for (std::size_t f = 0; f < batch.fields().size(); ++f) {
      const auto field = batch.bytes(f, i);
      bytes.append(reinterpret_cast<const char*>(field.data()), field.size());
    }
    all.emplace_back(batch.ids()[static_cast<std::size_t>(i)], bytes);
  }
  return all;
}

/// Keeps what is not divisible by 3.
inline std::shared_ptr<const StreamSource> two_of_three(std::shared_ptr<const StreamSource> source) {
  return filter(std::move(source),
                [](std::int64_t, const StreamSample& sample) { return sample.id().input % 3 != 0; });
}

/// Makes 0 to 3 samples of one, each a number.
inline std::shared_ptr<const StreamSource> up_to_three(std::shared_ptr<const StreamSource> source) {
  const auto make = [](std::int64_t epoch, const StreamSample& sample, StreamOutputs& outputs) {
    for (std::int64_t k = 0; k < (sample.id().input + epoch) % 4; ++k) {
      const std::int64_t value = 10 * sample.as<std::int64_t>(0)[1] + k;
      outputs.add().set(0, std::as_bytes(std::span(&value, 1)));
    }
  };
  return flat_map(std::move(source), make,
                  {.fields = {{.name = "value", .dtype = DType::int64, .shape = {}}}, .name = "up to three"});
}

}  // namespace rota::test
