#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.hpp"
#include "rota/stream.hpp"
#include "stream/stream_facts.hpp"

namespace rota::internal {

/// What a transform's cursor is made of: numbers of its own behind those of the source that it is made of,
/// and bytes of its own before that one's.
struct SplitCursor {
  StreamCursor inner;
  std::vector<std::int64_t> numbers;
  std::string blob;
};

/// A source made of another: the parts that all transforms have alike.
class StreamAdaptor : public StreamSource {
 public:
  /// `numbers` of its own in a cursor. `what` is what is being made of `inner`. Throws
  /// Error{invalid_argument} where there is none, and as `ask_facts` does.
  StreamAdaptor(std::shared_ptr<const StreamSource> inner, std::int64_t numbers, std::string_view what);

  [[nodiscard]] const std::vector<Field>& fields() const override { return inner_facts_.fields; }
  [[nodiscard]] std::int64_t shards() const override { return inner_facts_.shards; }
  [[nodiscard]] std::int64_t cursor_numbers() const override {
    return inner_facts_.cursor_numbers + numbers_;
  }
  [[nodiscard]] std::optional<std::int64_t> remaining(ShardId shard,
                                                      const StreamCursor& cursor) const override;
  [[nodiscard]] std::string where(ShardId shard) const override { return inner_->where(shard); }

 protected:
  [[nodiscard]] const StreamSource& inner() const noexcept { return *inner_; }
  [[nodiscard]] const std::vector<Field>& inner_fields() const noexcept { return inner_facts_.fields; }
  /// Throws Error{corrupt} for a cursor that cannot be one of this source.
  [[nodiscard]] SplitCursor split(ShardId shard, const StreamCursor& cursor) const;

 private:
  std::shared_ptr<const StreamSource> inner_;
  StreamFacts inner_facts_;
  std::int64_t numbers_;
};

/// Samples one after the other in bytes, little-endian on any machine: shard, input, output and rows of each
/// field, 8 bytes each, then the fields' bytes.
void append_sample(const StreamSample& sample, std::string& out);
[[nodiscard]] std::size_t sample_bytes(const StreamSample& sample) noexcept;
/// Such bytes, which may be anything, to be read.
[[nodiscard]] ByteReader samples_in(std::string_view bytes);
/// Takes the first sample off. Throws Error{corrupt}.
void take_sample(ByteReader& bytes, std::span<const Field> fields, StreamSample& out);

}  // namespace rota::internal
