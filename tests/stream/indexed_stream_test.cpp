// Indexed sources as streams: small samples are read a few at a time, which nobody is to notice.

#include "source/told_source.hpp"
#include "stream/numbered_stream.hpp"

namespace rota::test::indexed_stream_test {

/// "x" is the id; "text" is ragged, of given sizes, all of it the id's low byte.
class TextSource : public ToldSource {
 public:
  explicit TextSource(Numbers sizes)
      : ToldSource(std::ssize(sizes), {{.name = "x", .dtype = DType::int64},
                                       {.name = "text", .dtype = DType::uint8, .ragged = true}}) {
    rows_of = [sizes = std::move(sizes)](SampleId id, std::size_t) {
      return sizes.at(static_cast<std::size_t>(id.value));
    };
    fill = [](SampleId id, std::size_t field, std::int64_t, std::span<std::byte> to) {
      if (field == 0) std::memcpy(to.data(), &id.value, 8);
      if (field == 1) std::ranges::fill(to, static_cast<std::byte>(id.value));
    };
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    ToldSource::read(ids, out);
    std::size_t bytes = 8 * ids.size();
    for (std::size_t i = 0; i < ids.size(); ++i) bytes += out.bytes(1, i).size();
    calls.push_back(bytes);
  }

  mutable std::vector<std::size_t> calls;  // bytes of each
};

Numbers sizes_up_to(std::int64_t most, std::size_t count) {
  std::mt19937_64 random(static_cast<std::uint64_t>(most));
  Numbers sizes(count);
  for (auto& size : sizes) size = draw(random, 0, most);
  return sizes;
}

std::vector<Seen> expected(const Numbers& sizes) {
  std::vector<Seen> all;
  for (std::int64_t i = 0; i < std::ssize(sizes); ++i) {
    std::string bytes(8 + static_cast<std::size_t>(sizes[static_cast<std::size_t>(i)]), static_cast<char>(i));
    std::memcpy(bytes.data(), &i, 8);
    all.emplace_back(StreamId{.shard = {0}, .input = i}, bytes);
  }
  return all;
}

TEST(IndexedStream, YieldsSamplesOfAnySizesFromAnyCursorOn) {
  for (const std::int64_t most : {0, 100, 2000, 9000, 40'000}) {
    const auto sizes = sizes_up_to(most, 300);
    const auto stream = as_stream(std::make_shared<TextSource>(sizes), 1);
    const auto all = expected(sizes);
    EXPECT_EQ(read_all(*stream, {0}), all);
    const auto begun = stream->open({0}, 0, {});
    StreamSample sample(stream->fields());
    StreamCursor cursor;
    for (std::size_t i = 0; i < all.size(); i += 23) {
      begun->cursor(cursor);
      const auto rest = read_all(*stream->open({0}, 0, cursor), *stream);
      EXPECT_TRUE(std::ranges::equal(rest, std::span(all).subspan(i)));
      for (int k = 0; k < 23; ++k) begun->next(sample);
    }
  }
}

TEST(IndexedStream, ReadsSmallSamplesAFewAtATimeAndLargeOnesAlone) {
  const auto calls_of = [](std::int64_t size, std::int64_t shards) {
    const std::int64_t samples = std::max<std::int64_t>(2048, 64 * shards);
    const auto source = std::make_shared<TextSource>(Numbers(static_cast<std::size_t>(samples), size));
    const auto stream = as_stream(source, shards);
    for (std::int64_t s = 0; s < shards; ++s) static_cast<void>(read_all(*stream, {s}));
    return source->calls;
  };
  EXPECT_LE(calls_of(100, 1).size(), 2048 / 32 + 6);
  EXPECT_LE(std::ranges::max(calls_of(1000, 1)), std::size_t{16} << 10);
  EXPECT_EQ(calls_of(9000, 1).size(), 2048);
  EXPECT_LE(std::ranges::max(calls_of(100, 4096)), std::size_t{1} << 10) << "4 MiB of all shards";
}

TEST(IndexedStream, WhoeverNeedsFewSamplesWaitsForFew) {
  const auto source = std::make_shared<TextSource>(Numbers(1000, 0));
  const auto stream = as_stream(source, 1)->open({0}, 0, {});
  StreamSample sample(source->fields());
  std::size_t read = 0;
  for (std::size_t taken = 1; taken < 100; ++taken) {
    stream->next(sample);
    read = std::accumulate(source->calls.begin(), source->calls.end(), std::size_t{0}) / 8;
    EXPECT_LE(read, 2 * taken);
  }
}

TEST(IndexedStream, ABadSampleIsAnErrorOfNoOther) {
  for (const std::int64_t bad : {0, 1, 2, 30, 63, 64, 99}) {
    const auto source = std::make_shared<TextSource>(Numbers(100, 10));
    source->corrupt = {bad};
    const auto stream = as_stream(source, 1);
    const auto opened = stream->open({0}, 0, {});
    StreamSample sample(stream->fields());
    for (std::int64_t i = 0; i < bad; ++i) {
      EXPECT_TRUE(opened->next(sample));
      EXPECT_EQ(sample.id().input, i);
    }
    EXPECT_THROW(opened->next(sample), Error);
  }
}

}  // namespace rota::test::indexed_stream_test
