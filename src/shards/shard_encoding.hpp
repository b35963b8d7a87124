#pragma once

// Batches as the bytes of shards.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/batch.hpp"
#include "rota/source.hpp"
#include "rota/write_shards.hpp"

namespace rota::internal {

/// A shard that is there.
struct WrittenShard {
  std::string name;
  std::uint64_t bytes = 0;
  std::int64_t samples = 0;
};

/// A format of shards, for samples of certain fields. Any thread.
class ShardEncoding {
 public:
  ShardEncoding() = default;
  ShardEncoding(const ShardEncoding&) = delete;
  ShardEncoding& operator=(const ShardEncoding&) = delete;
  virtual ~ShardEncoding() = default;

  /// How the names of its files end.
  [[nodiscard]] virtual std::string_view ending() const = 0;
  /// Throws Error{invalid_argument} where samples of `source` would not be read back as they are.
  virtual void require(const Source& /*source*/) const {}
  /// How many bytes a sample takes whose fields take these.
  [[nodiscard]] virtual std::uint64_t sample_bytes(std::span<const std::uint64_t> fields) const = 0;
  /// A shard of these samples.
  [[nodiscard]] virtual std::string encode(const Batch& samples) const = 0;
  /// What else belongs to all shards: the content of "index.json"; empty: nothing.
  [[nodiscard]] virtual std::string index(std::span<const WrittenShard> /*shards*/) const { return {}; }
};

/// Throws Error{unsupported} for fields that the format does not have.
std::unique_ptr<const ShardEncoding> make_encoding(ShardOptions::Format format,
                                                   const std::vector<Field>& fields);

}  // namespace rota::internal
