#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "formats/mds_columns.hpp"
#include "rota/error.hpp"
#include "shards/shard_encoding.hpp"
#include "source/field_check.hpp"

namespace rota::internal {
namespace {

using nlohmann::json;

void append_number(std::string& to, std::size_t value) {
  const auto number = static_cast<std::uint32_t>(value);
  to.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

class MdsEncoding final : public ShardEncoding {
 public:
  explicit MdsEncoding(const std::vector<Field>& fields) {
    json names = json::array();
    json encodings = json::array();
    json sizes = json::array();
    for (const Field& field : fields) {
      const std::string encoding = mds_encoding(field);
      const bool fits = field.row_bytes() <= std::numeric_limits<std::uint32_t>::max();
      if (encoding.empty() || !fits) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("write MDS shards: they have no field such as {}", describe({field})));
      }
      std::optional<std::uint32_t> size;
      if (!field.ragged) size = static_cast<std::uint32_t>(field.row_bytes());
      columns_.push_back(make_mds_column(field.name, encoding, size, {}));
      names.push_back(field.name);
      encodings.push_back(encoding);
      sizes.push_back(size ? json(*size) : json());
    }
    shard_ = {{"column_encodings", encodings}, {"column_names", names}, {"column_sizes", sizes},
              {"compression", nullptr},        {"format", "mds"},       {"hashes", json::array()},
              {"size_limit", nullptr},         {"version", 2}};
    try {
      head_ = shard_.dump();
    } catch (const json::exception& error) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("write MDS shards: the name of a field is not in UTF-8 ({})", error.what()));
    }
  }

  [[nodiscard]] std::string_view ending() const override { return ".mds"; }

  [[nodiscard]] std::uint64_t sample_bytes(std::span<const std::uint64_t> fields) const override {
    std::uint64_t bytes = sizeof(std::uint32_t);
    for (const std::uint64_t field : fields) bytes += sizeof(std::uint32_t) + field;
    return bytes;
  }

  // How many samples; where each begins, and the last ends; a part of index.json; samples. A sample: the
  // sizes of columns that differ, then the columns.
  [[nodiscard]] std::string encode(const Batch& samples) const override {
    const auto count = static_cast<std::size_t>(samples.size());
    std::string shard;
    append_number(shard, count);
    shard.resize((count + 2) * sizeof(std::uint32_t));
    shard += head_;
    for (std::size_t i = 0; i <= count; ++i) {
      if (shard.size() > std::numeric_limits<std::uint32_t>::max()) {
        throw Error(ErrorCode::unsupported,
                    "write MDS shards: one would have more than 4 GiB; choose smaller ones");
      }
      const auto begin = static_cast<std::uint32_t>(shard.size());
      std::memcpy(shard.data() + (i + 1) * sizeof(begin), &begin, sizeof(begin));
      if (i < count) append_sample(shard, samples, static_cast<std::int64_t>(i));
    }
    return shard;
  }

  [[nodiscard]] std::string index(std::span<const WrittenShard> shards) const override {
    json all = json::array();
    for (const WrittenShard& shard : shards) {
      json one = shard_;
      one["raw_data"] = {{"basename", shard.name}, {"bytes", shard.bytes}, {"hashes", json::object()}};
      one["samples"] = shard.samples;
      one["zip_data"] = nullptr;
      all.push_back(std::move(one));
    }
    return json{{"shards", all}, {"version", 2}}.dump();
  }

 private:
  void append_sample(std::string& shard, const Batch& samples, std::int64_t i) const {
    std::string values;
    for (std::size_t f = 0; f < columns_.size(); ++f) {
      const auto bytes = samples.bytes(f, i);
      const std::size_t before = values.size();
      if (columns_[f].has_shape) append_mds_shape(values, bytes.size() / columns_[f].field->row_bytes());
      values.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (columns_[f].field->ragged) append_number(shard, values.size() - before);
    }
    shard += values;
  }

  std::vector<MdsColumn> columns_;
  json shard_;  // of index.json: what all shards have
  std::string head_;
};

}  // namespace

std::unique_ptr<const ShardEncoding> make_mds_encoding(const std::vector<Field>& fields) {
  return std::make_unique<const MdsEncoding>(fields);
}

}  // namespace rota::internal
