#pragma once

// Streams that say of themselves what a test has them say, and fields that none can have.

#include "source/reading.hpp"
#include "source/told_source.hpp"
#include "stream/numbered_stream.hpp"

namespace rota::test {

/// `shards` shards of three samples "x". Its cursor is the number of the next sample.
class ToldStream : public StreamSource {
 public:
  explicit ToldStream(std::int64_t shards, Fields fields = kOneNumber, std::int64_t cursor_numbers = 1)
      : shards_(shards), cursor_numbers_(cursor_numbers), fields_(std::move(fields)) {}

  const Fields& fields() const override {
    return times_asked++ == 0 || later_fields.empty() ? fields_ : later_fields;
  }
  std::int64_t shards() const override { return shards_; }
  std::int64_t cursor_numbers() const override { return cursor_numbers_; }
  std::optional<std::int64_t> remaining(ShardId /*shard*/, const StreamCursor& /*cursor*/) const override {
    return left;
  }
  std::unique_ptr<ShardStream> open(ShardId /*shard*/, std::int64_t /*epoch*/,
                                    const StreamCursor& cursor) const override {
    if (gives_none) return nullptr;
    return std::make_unique<Shard>(cursor.is_start() ? 0 : cursor.numbers[0], first_output);
  }

  Fields later_fields;  // where asked again
  std::optional<std::int64_t> left;
  bool gives_none = false;
  std::int64_t first_output = 0;
  mutable std::atomic<int> times_asked = 0;

 private:
  class Shard : public ShardStream {
   public:
    Shard(std::int64_t next, std::int64_t output) : next_(next), output_(output) {}
    bool next(StreamSample& out) override {
      if (next_ == 3) return false;
      out.set_id({.shard = {}, .input = next_, .output = output_});
      out.set(0, std::as_bytes(std::span(&next_, 1)));
      ++next_;
      return true;
    }
    void cursor(StreamCursor& out) const override { out = {.numbers = {next_}}; }

   private:
    std::int64_t next_;
    std::int64_t output_;
  };

  std::int64_t shards_;
  std::int64_t cursor_numbers_;
  Fields fields_;
};

inline std::shared_ptr<ToldStream> told_stream(std::int64_t shards, Fields fields = kOneNumber,
                                               std::int64_t cursor_numbers = 1) {
  return std::make_shared<ToldStream>(shards, std::move(fields), cursor_numbers);
}

/// Fields that no source can have, and a word that says why.
struct Impossible {
  Fields fields;
  std::string why;
};

inline std::vector<Impossible> impossible_fields() {
  constexpr std::int64_t kHalf = std::int64_t{1} << 49;
  const auto of = [](Numbers shape, DType dtype = DType::int64, bool ragged = false) {
    return Fields{{.name = "x", .dtype = dtype, .shape = std::move(shape), .ragged = ragged}};
  };
  Fields many;
  for (int f = 0; f < 4097; ++f) many.push_back({.name = std::to_string(f)});
  return {
      {of({-1}), "an extent is -1"},
      {of({0, -7}), "an extent is -7"},
      {of({-2}, DType::int64, true), "an extent is -2"},
      {of({std::numeric_limits<std::int64_t>::min()}), "an extent is -92233"},
      {of({(std::int64_t{1} << 61) + 1}), "2^50 bytes"},
      {of({(std::int64_t{1} << 61) + 1}, DType::int64, true), "2^50 bytes"},
      {of({std::int64_t{1} << 40, std::int64_t{1} << 40}), "2^50 bytes"},
      {of({(std::int64_t{1} << 50) + 1}, DType::uint8), "2^50 bytes"},
      {Fields{{.name = "a", .shape = {kHalf}}, {.name = "b", .shape = {kHalf + 1}}}, "all fields together"},
      {of({2}, static_cast<DType>(13)), "type number 13"},
      {of({2}, static_cast<DType>(255), true), "type number 255"},
      {Fields{{.name = "x"}, {.name = "y"}, {.name = "x"}}, "another one has that name"},
      {Fields{{.name = ""}, {.name = ""}}, "another one has that name"},
      {many, "4097 fields"}};
}

}  // namespace rota::test
