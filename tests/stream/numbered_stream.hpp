#pragma once

// A stream whose samples say who they are, what is made of it, and what can be told of samples that were
// read.

#include "test.hpp"

namespace rota::test {

/// Shards of the given lengths. "x" is (shard, input), "text" is ragged, (shard + input) modulo 5 bytes. Its
/// cursors are (next, next + 7). Its members are set before it is read.
class NumberedStream : public StreamSource {
 public:
  explicit NumberedStream(Numbers lengths) : lengths_(std::move(lengths)) {}

  const std::vector<Field>& fields() const override { return field_list; }
  std::int64_t shards() const override { return std::ssize(lengths_); }
  std::int64_t cursor_numbers() const override { return numbers; }
  std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                    const StreamCursor& cursor) const override;
  std::unique_ptr<const StreamSource> for_worker(const WorkerInfo& worker) const override {
    return on_worker ? on_worker(worker) : nullptr;
  }
  std::optional<std::int64_t> remaining(ShardId shard, const StreamCursor& cursor) const override {
    if (on_remaining) on_remaining();
    if (!knows_lengths) return std::nullopt;
    return length(shard) - (cursor.is_start() ? 0 : cursor.numbers.at(0));
  }
  std::string where(ShardId shard) const override { return "file-" + std::to_string(shard.value); }
  std::int64_t length(ShardId shard) const { return lengths_.at(static_cast<std::size_t>(shard.value)); }

  // What it has.
  bool knows_lengths = true;
  std::size_t blob_bytes = 0;  ///< of its cursors
  std::int64_t numbers = 2;    ///< that it says its cursors have
  std::vector<Field> field_list{{.name = "x", .dtype = DType::int64, .shape = {2}},
                                {.name = "text", .dtype = DType::uint8, .ragged = true}};

  // Who hears what it is asked, and may throw.
  std::function<void(StreamId)> on_read;
  std::function<void()> on_cursor;
  std::function<void()> on_remaining;
  std::function<void(const char* what, ShardId)>
      on_use;  ///< each time that a shard is used, until it is closed
  std::function<std::int64_t(std::int64_t epoch, std::int64_t next)> on_open;  ///< says where it is opened
  std::function<std::unique_ptr<const StreamSource>(const WorkerInfo&)> on_worker;

 private:
  Numbers lengths_;
};

class NumberedShard : public ShardStream {
 public:
  NumberedShard(const NumberedStream& source, ShardId shard, std::int64_t next)
      : source_(source), shard_(shard), next_(next) {
    use("opened");
  }
  ~NumberedShard() override { use("closed"); }
  NumberedShard(const NumberedShard&) = delete;
  NumberedShard& operator=(const NumberedShard&) = delete;

  bool next(StreamSample& out) override {
    use("read");
    if (next_ == source_.length(shard_)) return false;
    out.set_id({.shard = shard_, .input = next_});
    if (source_.on_read) source_.on_read(out.id());
    const std::array x{shard_.value, next_};
    out.set(0, std::as_bytes(std::span(x)));
    std::ranges::fill(out.resize(1, (shard_.value + next_) % 5), static_cast<std::byte>(next_));
    ++next_;
    return true;
  }
  void cursor(StreamCursor& out) const override {
    use("asked for its cursor");
    if (source_.on_cursor) source_.on_cursor();
    out.numbers = {next_, next_ + 7};
    out.blob.assign(source_.blob_bytes, 'b');
  }

 private:
  void use(const char* what) const {
    if (source_.on_use) source_.on_use(what, shard_);
  }

  const NumberedStream& source_;
  ShardId shard_;
  std::int64_t next_;
};

inline std::unique_ptr<ShardStream> NumberedStream::open(ShardId shard, std::int64_t epoch,
                                                         const StreamCursor& cursor) const {
  std::int64_t next = 0;
  if (!cursor.is_start()) {
    next = cursor.numbers.at(0);
    if (cursor.numbers != Numbers{next, next + 7} || cursor.blob.size() != blob_bytes) {
      throw Error(ErrorCode::corrupt, "not a cursor of a numbered stream");
    }
  }
  if (on_open) next = on_open(epoch, next);
  return std::make_unique<NumberedShard>(*this, shard, next);
}

inline std::shared_ptr<NumberedStream> numbered(Numbers lengths) {
  return std::make_shared<NumberedStream>(std::move(lengths));
}

/// A pipe: what was read of it is gone, whoever reads on; `gone` items by all programs. As a program that has
/// just begun has it, which takes its word for where the pipe stands.
inline std::shared_ptr<NumberedStream> pipe_of(std::int64_t length, std::shared_ptr<std::int64_t> gone) {
  auto pipe = numbered({length});
  pipe->on_read = [gone](StreamId) { ++*gone; };
  pipe->on_open = [gone, was_opened = false](std::int64_t epoch, std::int64_t next) mutable {
    if (std::exchange(was_opened, true) && (next != *gone || epoch > 0)) {
      throw Error(ErrorCode::io,
                  fmt::format("a pipe at item {} cannot go to item {} of epoch {}", *gone, next, epoch));
    }
    return *gone;
  };
  return pipe;
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
                  {.fields = {{.name = "value", .dtype = DType::int64}}, .name = "up to three"});
}

/// All transforms in a row.
inline std::shared_ptr<const StreamSource> mixed(std::shared_ptr<const StreamSource> source,
                                                 std::int64_t buffer = 4, std::uint64_t seed = 9) {
  return shuffle_buffer(up_to_three(two_of_three(std::move(source))), buffer, seed);
}

/// What the launched runs (streamer.cpp) read, so many epochs: ten shards, one of them empty and one a
/// hundred times the others; and what rank 0 dispatches.
inline constexpr std::int64_t kStreamedEpochs = 2;
inline std::shared_ptr<const StreamSource> streamed(bool is_dispatched) {
  return mixed(numbered(is_dispatched ? Numbers{500} : Numbers{4, 400, 0, 4, 4, 4, 4, 4, 4, 4}), 16, 3);
}

/// Which sample, and what is in it.
using Seen = std::pair<StreamId, std::string>;

inline Seen seen(const StreamSample& sample) {
  std::string bytes;
  for (std::size_t f = 0; f < sample.size(); ++f) bytes += text_of(sample.bytes(f));
  return {sample.id(), bytes};
}

inline std::vector<Seen> seen(const Batch& batch) {
  std::vector<Seen> all;
  for (const StreamId& id : batch.stream_ids()) {
    std::string bytes;
    for (std::size_t f = 0; f < batch.fields().size(); ++f) bytes += text_of(batch.bytes(f, std::ssize(all)));
    all.emplace_back(id, bytes);
  }
  return all;
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

/// Of a run from here to its end.
inline std::vector<std::vector<Seen>> batches_of(StreamLoader& loader) {
  std::vector<std::vector<Seen>> batches;
  while (const auto batch = loader.next()) batches.push_back(seen(*batch));
  return batches;
}

/// Samples that were seen: epoch, shard, position, input, output, and a number made of what is in them.
using SeenRows = std::vector<std::array<std::int64_t, 6>>;

inline void add(std::int64_t epoch, std::int64_t position, const Seen& sample, SeenRows& all) {
  const auto& [id, bytes] = sample;
  const auto number = static_cast<std::int64_t>(std::hash<std::string>{}(bytes));
  all.push_back({epoch, id.shard.value, position, id.input, id.output, number});
}

inline void add(const Batch& batch, SeenRows& all) {
  const auto samples = seen(batch);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    add(batch.start().epoch, batch.positions()[i], samples[i], all);
  }
}

inline SeenRows sorted(SeenRows rows) {
  std::ranges::sort(rows);
  return rows;
}

/// What `epochs` epochs are to give, sorted: each sample once.
inline SeenRows whole(const StreamSource& source, std::int64_t epochs) {
  SeenRows all;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (std::int64_t s = 0; s < source.shards(); ++s) {
      std::int64_t position = 0;
      for (const Seen& sample : read_all(source, {s}, epoch)) add(epoch, position++, sample, all);
    }
  }
  return all;
}

}  // namespace rota::test
