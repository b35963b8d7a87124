// Streams made of others: filter, flat_map and shuffle_buffer.

#include <limits>
#include <utility>

#include "core/failure.hpp"
#include "core/option.hpp"
#include "order/permutation.hpp"
#include "source/field_check.hpp"
#include "stream/adaptor.hpp"
#include "stream/stream_facts.hpp"

namespace rota {

namespace {

using internal::SplitCursor;

constexpr std::string_view kFiltering = "filter a stream";
constexpr std::string_view kMapping = "flat_map a stream";
constexpr std::string_view kShuffling = "shuffle a stream";

class FilteredStream final : public ShardStream {
 public:
  FilteredStream(std::unique_ptr<ShardStream> inner, const KeepFunction& keep, std::int64_t epoch)
      : inner_(std::move(inner)), keep_(keep), epoch_(epoch) {}

  bool next(StreamSample& out) override {
    while (inner_->next(out)) {
      if (keep_(epoch_, out)) return true;
    }
    return false;
  }
  // What was passed over since the last sample is not known of: it will be passed over again.
  void cursor(StreamCursor& out) const override { inner_->cursor(out); }

 private:
  std::unique_ptr<ShardStream> inner_;
  const KeepFunction& keep_;
  std::int64_t epoch_;
};

class Filter final : public internal::StreamAdaptor {
 public:
  Filter(std::shared_ptr<const StreamSource> source, KeepFunction keep, std::string name)
      : StreamAdaptor(std::move(source), 0, kFiltering), keep_(std::move(keep)), name_(std::move(name)) {
    if (!keep_) internal::OptionCheck(kFiltering).refuse("keep", "empty", "a function");
  }

  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                  const StreamCursor& cursor) const override {
    return std::make_unique<FilteredStream>(internal::ask_stream(inner(), shard, epoch, cursor), keep_,
                                            epoch);
  }
  [[nodiscard]] std::unique_ptr<const StreamSource> for_worker(const WorkerInfo& worker) const override {
    auto own = internal::instance_of(inner(), worker);
    return own ? std::make_unique<Filter>(std::move(own), keep_, name_) : nullptr;
  }
  [[nodiscard]] Fingerprint fingerprint() const override {
    return FingerprintBuilder().add("filter").add(to_string(inner().fingerprint())).add(name_).finish();
  }

 private:
  KeepFunction keep_;
  std::string name_;
};

// What all streams of one source share.
struct Rule {
  FlatMapFunction make;
  std::int64_t most;
};

// Of its own a cursor has two numbers, how many samples of the input were handed out and how long that input
// is; and the input. Both are 0, and it is left out, where all of them were.
class FlatMapStream final : public ShardStream {
 public:
  FlatMapStream(std::unique_ptr<ShardStream> inner, const Rule& rule, std::int64_t epoch,
                std::span<const Field> inner_fields, std::span<const Field> fields)
      : inner_(std::move(inner)), rule_(rule), epoch_(epoch), input_(inner_fields), outputs_(fields) {}

  // Goes on in the midst of an input.
  void restore(const SplitCursor& cursor, std::span<const Field> inner_fields) {
    if (cursor.numbers.empty() || cursor.numbers[0] == 0) return;
    auto bytes = internal::samples_in(cursor.blob);
    internal::take_sample(bytes, inner_fields, input_);
    make();
    given_ = cursor.numbers[0];
    if (given_ > 0 && given_ <= outputs_.size()) return;
    throw internal::failure(ErrorCode::mismatch,
                            "go on in the midst of input {}: {} of its samples were handed out, and {} are "
                            "made of it now; use the same function, or start a new run",
                            to_string(input_.id()), given_, outputs_.size());
  }

  bool next(StreamSample& out) override {
    while (given_ == outputs_.size()) {
      outputs_.clear();
      given_ = 0;
      if (!inner_->next(input_)) return false;
      make();
    }
    out.copy(outputs_[given_++]);
    return true;
  }

  void cursor(StreamCursor& out) const override {
    inner_->cursor(out);
    const std::size_t inner_bytes = out.blob.size();
    const bool is_midst = given_ < outputs_.size();
    if (is_midst) internal::append_sample(input_, out.blob);
    out.numbers.push_back(is_midst ? given_ : 0);
    out.numbers.push_back(static_cast<std::int64_t>(out.blob.size() - inner_bytes));
  }

 private:
  void make() {
    outputs_.clear();
    rule_.make(epoch_, input_, outputs_);
    const std::int64_t number = input_.id().output;
    const bool fits =
        number >= 0 && number <= (std::numeric_limits<std::int64_t>::max() - rule_.most) / rule_.most;
    if (outputs_.size() > rule_.most || !fits) {
      throw internal::failure(ErrorCode::callback,
                              "flat_map {}: {} samples were made of it, and no more than {} may be; raise "
                              "the option most, or lower it where they are applied again and again",
                              to_string(input_.id()), outputs_.size(), rule_.most);
    }
    for (std::int64_t k = 0; k < outputs_.size(); ++k) {
      StreamId id = input_.id();
      id.output = id.output * rule_.most + k;
      outputs_[k].set_id(id);
    }
  }

  std::unique_ptr<ShardStream> inner_;
  const Rule& rule_;
  std::int64_t epoch_;
  StreamSample input_;
  StreamOutputs outputs_;
  std::int64_t given_ = 0;
};

class FlatMap final : public internal::StreamAdaptor {
 public:
  FlatMap(std::shared_ptr<const StreamSource> source, FlatMapFunction make, FlatMapOptions options)
      : StreamAdaptor(std::move(source), 2, kMapping),
        rule_{.make = std::move(make), .most = options.most},
        fields_(options.fields.empty() ? inner_fields() : options.fields),
        name_(std::move(options.name)) {
    if (!rule_.make) internal::OptionCheck(kMapping).refuse("make", "empty", "a function");
    internal::OptionCheck(kMapping).in_range("most", rule_.most, 1);
    internal::check_fields(fields_, kMapping, "fields", ErrorCode::invalid_argument);
  }

  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }

  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                  const StreamCursor& cursor) const override {
    const SplitCursor parts = split(shard, cursor);
    auto stream = std::make_unique<FlatMapStream>(internal::ask_stream(inner(), shard, epoch, parts.inner),
                                                  rule_, epoch, inner_fields(), fields_);
    stream->restore(parts, inner_fields());
    return stream;
  }

  [[nodiscard]] std::unique_ptr<const StreamSource> for_worker(const WorkerInfo& worker) const override {
    auto own = internal::instance_of(inner(), worker);
    if (!own) return nullptr;
    return std::make_unique<FlatMap>(std::move(own), rule_.make,
                                     FlatMapOptions{.fields = fields_, .name = name_, .most = rule_.most});
  }

  [[nodiscard]] Fingerprint fingerprint() const override {
    FingerprintBuilder digest;
    digest.add("flat_map").add(to_string(inner().fingerprint())).add(name_).add(rule_.most);
    for (const Field& field : fields_) {
      digest.add(field.name).add(to_string(field.dtype)).add(field.shape).add(std::int64_t{field.ragged});
    }
    return digest.finish();
  }

 private:
  Rule rule_;
  std::vector<Field> fields_;
  std::string name_;
};

// Of its own a cursor has three numbers: draws so far, samples in the buffer, and how long they are; and
// those samples, in order of their places.
class BufferedStream final : public ShardStream {
 public:
  BufferedStream(std::unique_ptr<ShardStream> inner, std::int64_t size, internal::Key key,
                 std::span<const Field> fields)
      : inner_(std::move(inner)), size_(size), key_(key), fields_(fields) {}

  void restore(const SplitCursor& cursor) {
    if (cursor.numbers.empty()) return;
    draws_ = cursor.numbers[0];
    auto bytes = internal::samples_in(cursor.blob);
    for (; !bytes.at_end(); ++held_) internal::take_sample(bytes, fields_, next_free());
    if (draws_ >= 0 && held_ == cursor.numbers[1] && held_ <= size_) return;
    throw internal::failure(
        ErrorCode::corrupt,
        "restore a shuffle buffer of {} samples: its cursor says {} draws and {} samples, and holds {}",
        size_, draws_, cursor.numbers[1], held_);
  }

  bool next(StreamSample& out) override {
    while (!is_over_ && held_ < size_) {
      is_over_ = !inner_->next(next_free());
      held_ += is_over_ ? 0 : 1;
    }
    if (held_ == 0) return false;
    const internal::Key drawn = internal::derive_key(key_.low, draws_++, internal::Purpose::buffer,
                                                     static_cast<std::int64_t>(key_.high));
    auto& chosen = buffer_[static_cast<std::size_t>(drawn.low % static_cast<std::uint64_t>(held_))];
    out.copy(*chosen);
    std::swap(chosen, buffer_[static_cast<std::size_t>(--held_)]);
    return true;
  }

  void cursor(StreamCursor& out) const override {
    inner_->cursor(out);
    const std::size_t inner_bytes = out.blob.size();
    std::size_t room = inner_bytes;
    const std::span held(buffer_.data(), static_cast<std::size_t>(held_));
    for (const auto& sample : held) room += internal::sample_bytes(*sample);
    out.blob.reserve(room);
    for (const auto& sample : held) internal::append_sample(*sample, out.blob);
    out.numbers.push_back(draws_);
    out.numbers.push_back(held_);
    out.numbers.push_back(static_cast<std::int64_t>(out.blob.size() - inner_bytes));
  }

 private:
  StreamSample& next_free() {
    if (held_ == std::ssize(buffer_)) buffer_.push_back(std::make_unique<StreamSample>(fields_));
    return *buffer_[static_cast<std::size_t>(held_)];
  }

  std::unique_ptr<ShardStream> inner_;
  std::int64_t size_;
  internal::Key key_;
  std::span<const Field> fields_;
  std::vector<std::unique_ptr<StreamSample>> buffer_;  // behind those held: memory for those to come
  std::int64_t held_ = 0;
  bool is_over_ = false;  // the inner stream
  std::int64_t draws_ = 0;
};

class ShuffleBuffer final : public internal::StreamAdaptor {
 public:
  ShuffleBuffer(std::shared_ptr<const StreamSource> source, std::int64_t size, std::uint64_t seed)
      : StreamAdaptor(std::move(source), 3, kShuffling), size_(size), seed_(seed) {
    internal::OptionCheck(kShuffling).in_range("size", size_, 1, internal::kUnbounded, "samples");
  }

  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                  const StreamCursor& cursor) const override {
    const SplitCursor parts = split(shard, cursor);
    auto stream = std::make_unique<BufferedStream>(
        internal::ask_stream(inner(), shard, epoch, parts.inner), size_,
        internal::derive_key(seed_, epoch, internal::Purpose::buffer, shard.value), fields());
    stream->restore(parts);
    return stream;
  }

  [[nodiscard]] std::optional<std::int64_t> remaining(ShardId shard,
                                                      const StreamCursor& cursor) const override {
    const auto inner = StreamAdaptor::remaining(shard, cursor);
    if (!inner || cursor.is_start()) return inner;
    return *inner + split(shard, cursor).numbers[1];
  }

  [[nodiscard]] std::unique_ptr<const StreamSource> for_worker(const WorkerInfo& worker) const override {
    auto own = internal::instance_of(inner(), worker);
    return own ? std::make_unique<ShuffleBuffer>(std::move(own), size_, seed_) : nullptr;
  }

  [[nodiscard]] Fingerprint fingerprint() const override {
    return FingerprintBuilder()
        .add("shuffle_buffer")
        .add(to_string(inner().fingerprint()))
        .add(size_)
        .add(static_cast<std::int64_t>(seed_))
        .finish();
  }

 private:
  std::int64_t size_;
  std::uint64_t seed_;
};

}  // namespace

std::shared_ptr<const StreamSource> filter(std::shared_ptr<const StreamSource> source, KeepFunction keep,
                                           std::string name) {
  return std::make_shared<Filter>(std::move(source), std::move(keep), std::move(name));
}

std::shared_ptr<const StreamSource> flat_map(std::shared_ptr<const StreamSource> source, FlatMapFunction make,
                                             FlatMapOptions options) {
  return std::make_shared<FlatMap>(std::move(source), std::move(make), std::move(options));
}

std::shared_ptr<const StreamSource> shuffle_buffer(std::shared_ptr<const StreamSource> source,
                                                   std::int64_t size, std::uint64_t seed) {
  return std::make_shared<ShuffleBuffer>(std::move(source), size, seed);
}

}  // namespace rota
