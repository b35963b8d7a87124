#include <fmt/format.h>

#include <utility>

#include "core/option.hpp"
#include "order/permutation.hpp"
#include "rota/error.hpp"
#include "stream/adaptor.hpp"
#include "stream/instance.hpp"

namespace rota {
namespace {

using internal::SplitCursor;

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
    std::string_view bytes = cursor.blob;
    while (!bytes.empty()) {
      buffer_.push_back(std::make_unique<StreamSample>(fields_));
      internal::take_sample(bytes, fields_, *buffer_.back());
    }
    if (draws_ >= 0 && std::ssize(buffer_) == cursor.numbers[1] && std::ssize(buffer_) <= size_) return;
    throw Error(
        ErrorCode::corrupt,
        fmt::format("restore a shuffle buffer of {} samples: its cursor says {} draws and {} samples, "
                    "and holds {}",
                    size_, draws_, cursor.numbers[1], buffer_.size()));
  }

  bool next(StreamSample& out) override {
    fill();
    if (buffer_.empty()) return false;
    const internal::Key drawn = internal::derive_key(key_.low, draws_++, internal::Purpose::buffer,
                                                     static_cast<std::int64_t>(key_.high));
    std::unique_ptr<StreamSample>& chosen = buffer_[static_cast<std::size_t>(drawn.low % buffer_.size())];
    out.copy(*chosen);
    std::swap(chosen, buffer_.back());
    spare_.push_back(std::move(buffer_.back()));
    buffer_.pop_back();
    return true;
  }

  void cursor(StreamCursor& out) const override {
    inner_->cursor(out);
    const std::size_t inner_bytes = out.blob.size();
    std::size_t room = inner_bytes;
    for (const auto& sample : buffer_) room += internal::sample_bytes(*sample);
    out.blob.reserve(room);
    for (const auto& sample : buffer_) internal::append_sample(*sample, out.blob);
    out.numbers.push_back(draws_);
    out.numbers.push_back(std::ssize(buffer_));
    out.numbers.push_back(static_cast<std::int64_t>(out.blob.size() - inner_bytes));
  }

 private:
  void fill() {
    while (!is_over_ && std::ssize(buffer_) < size_) {
      if (spare_.empty()) spare_.push_back(std::make_unique<StreamSample>(fields_));
      if (!inner_->next(*spare_.back())) {
        is_over_ = true;
        return;
      }
      buffer_.push_back(std::move(spare_.back()));
      spare_.pop_back();
    }
  }

  std::unique_ptr<ShardStream> inner_;
  std::int64_t size_;
  internal::Key key_;
  std::span<const Field> fields_;
  std::vector<std::unique_ptr<StreamSample>> buffer_;
  std::vector<std::unique_ptr<StreamSample>> spare_;  // memory for those to come
  bool is_over_ = false;                              // the inner stream
  std::int64_t draws_ = 0;
};

class ShuffleBuffer final : public internal::StreamAdaptor {
 public:
  ShuffleBuffer(std::shared_ptr<const StreamSource> source, std::int64_t size, std::uint64_t seed)
      : StreamAdaptor(std::move(source), 3, "shuffle a stream"), size_(size), seed_(seed) {
    internal::OptionCheck("shuffle a stream").in_range("size", size_, 1, internal::kUnbounded, "samples");
  }

  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                  const StreamCursor& cursor) const override {
    const SplitCursor parts = split(shard, cursor);
    auto stream = std::make_unique<BufferedStream>(
        open_inner(shard, epoch, parts.inner), size_,
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

std::shared_ptr<const StreamSource> shuffle_buffer(std::shared_ptr<const StreamSource> source,
                                                   std::int64_t size, std::uint64_t seed) {
  return std::make_shared<ShuffleBuffer>(std::move(source), size, seed);
}

}  // namespace rota
