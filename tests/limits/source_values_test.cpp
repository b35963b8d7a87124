#include "limits/refusals.hpp"
#include "limits/told_stream.hpp"
#include "loader/loader_impl.hpp"

namespace rota::test::source_values_test {

using Shared = std::shared_ptr<const Source>;

const Fields kRagged{{.name = "t", .dtype = DType::int64, .ragged = true}};

/// All that takes a user's source, by name.
std::map<std::string, std::function<void(const Shared&)>> takers() {
  const std::vector halves{0.5, 0.5};
  const auto good = told(10);
  return {{"Loader", [](const Shared& source) { Loader(source, {.workers = 0}); }},
          {"Mixture",
           [=](const Shared& source) {
             Loader(Mixture{.datasets = {{.source = good}, {.source = source}}}, {.workers = 0});
           }},
          {"join", [](const Shared& source) { join({source}); }},
          {"join, behind another",
           [=](const Shared& source) {
             join(std::vector<Shared>{good, source});
           }},
          {"split", [=](const Shared& source) { split(source, halves, 1); }},
          {"select", [](const Shared& source) { select(source, {}); }},
          {"take", [](const Shared& source) { take(source, 0); }},
          {"zip", [](const Shared& source) { zip({source}); }},
          {"windows", [](const Shared& source) { windows(source, {.length = 2}); }},
          {"pack", [](const Shared& source) { pack(source, {}); }},
          {"as_stream", [](const Shared& source) { as_stream(source, 4); }}};
}

TEST(SourceValues, ThatCannotBeAreRefusedByAllThatTakesASource) {
  for (const auto& [name, taker] : takers()) {
    const auto& take = taker;  // clang 14 captures no binding
    SCOPED_TRACE(name);
    for (const std::int64_t size : {std::int64_t{-1}, kLeast, kTwo62 + 1, kMost}) {
      refused(kCallback, {"the source says that it has " + std::to_string(size) + " samples", "0 to 2^62"},
              [&] { take(told(size)); });
    }
    for (const auto& wrong : impossible_fields()) {
      refused(kCallback, {"the source has", wrong.why}, [&] { take(told(10, wrong.fields)); });
    }
    const auto source = told(10);
    source->on_size = [](int /*time*/) -> std::int64_t { throw std::out_of_range("no idea"); };
    refused(kCallback, {"ask the source for its size: no idea"}, [&] { take(source); });
  }
}

TEST(SourceValues, ExtentsOfZeroAndOneFieldWithoutANameAreRead) {
  const auto source = told(10, {{.name = "none", .dtype = DType::int64, .shape = {0, kMost}},
                                {.name = "rows", .dtype = DType::int64, .shape = {0}, .ragged = true},
                                {.name = "", .dtype = DType::uint8, .shape = {3}}});
  source->row_count = 1 << 20;
  for (const int workers : {0, 2}) {
    Loader loader(join(split(source, std::vector{0.5, 0.5}, 1)),
                  {.global_batch_size = 10, .workers = workers});
    const auto batch = loader.next();
    EXPECT_EQ(batch->tensor("none").bytes.size() + batch->tensor("rows").bytes.size(), 0U);
    EXPECT_EQ(batch->tensor("").bytes.size(), 30U);
    StreamLoader stream(as_stream(source, 2), {.global_batch_size = 10, .workers = workers});
    const auto streamed = stream.next();
    EXPECT_EQ(streamed->tensor("rows").offsets.back(), 10 << 20);
    EXPECT_EQ(streamed->tensor("").bytes.size(), 30U);
  }
}

TEST(SourceValues, LengthsThatDoNotAddUpAreRefused) {
  const std::vector<std::pair<Numbers, std::string>> wrong{
      {{4, 5}, "all together have 9"}, {{-1, 11}, "one has -1"},         {{11, -1}, "one has 11"},
      {{kMost, kMost}, "one has 92"},  {{kTwo62, kTwo62}, "one has 46"}, {{kLeast, kLeast}, "one has -92"},
      {{kMost, 11}, "one has 92"}};
  for (const auto& [lengths, why] : wrong) {
    const auto source = told(10);
    source->lengths = source->parts = lengths;
    const Words of_shards{"its 10 samples are in 2", why, "mend its shard_lengths()"};
    const Words of_parts{"its 10 samples are in 2", why, "mend its part_sizes()"};
    refused(kCallback, of_shards, [&] { Loader(source, {.shards = 2, .workers = 0}); });
    refused(kCallback, of_shards, [&] { as_stream(source, 2); });
    refused(kCallback, of_parts, [&] { windows(source, {.length = 1}); });
    refused(kCallback, of_parts, [&] { join({source})->part_sizes(); });
    source->parts.clear();
    const auto rows = windows(source, {.length = 1});
    refused(kCallback, of_shards, [&] { rows->shard_lengths(2); });
  }
  const auto source = told(10);
  source->lengths = {5, 5};
  refused(kCallback, {"into 2 shards", "asked for 3"}, [&] { Loader(source, {.shards = 3, .workers = 0}); });
}

TEST(SourceValues, SumsOfSizesDoNotOverflow) {
  const auto huge = told(kTwo62);
  const Mixture mixture{.datasets = {{.source = huge}, {.source = huge}}};
  refused({"number 1 has", "2^62"}, [&] { join({huge, huge, huge}); });
  refused({"number 1 has", "2^62"}, [&] { join(std::vector<Shared>{huge, told(1)}); });
  refused({"number 1 has", "2^62"}, [&] { Loader(mixture, {.workers = 0}); });
  EXPECT_EQ(join({told(kTwo62 - 1), told(1)})->size(), kTwo62);
}

TEST(SourceValues, RowsThatCannotBeAreRefusedWhereverTheyAreAsked) {
  // The last two are 0 bytes, modulo 2^64.
  for (const std::int64_t rows : {std::int64_t{-1}, kLeast, kMost, std::int64_t{1} << 61, kTwo62}) {
    const auto source = told(10, kRagged);
    source->row_count = rows;
    const Words words{std::to_string(rows), "cannot be"};
    refused(kCallback, words, [&] { (void)Loader(source, {.workers = 0}).next(); });
    refused(kCallback, words, [&] { (void)Loader(source, {.workers = 2}).next(); });
    refused(kCallback, words, [&] { StreamLoader(as_stream(source, 2), {.workers = 0}).next(); });
    std::int64_t to = 0;
    const SampleRows wanted{.id = {1}, .first = 0, .count = 1, .to = reinterpret_cast<std::byte*>(&to)};
    refused(kCallback, words, [&] { source->read_rows({&wanted, 1}, 0); });
  }
  for (const std::int64_t rows : {std::int64_t{-1}, kLeast, kMost}) {
    const auto source = told(10, kRagged);
    source->row_count = rows;
    refused(kCallback, {std::to_string(rows) + " tokens"}, [&] { pack(source, {}); });
  }
}

TEST(SourceValues, RowsOfManySamplesDoNotOverflow) {
  const auto source = told(10, kRagged);
  source->row_count = std::int64_t{1} << 46;  // of 8 bytes each: 2^49
  refused({"field \"t\"", "more than 2^50 bytes", "global_batch_size"},
          [&] { (void)Loader(source, {.workers = 0}).next(); });
}

TEST(SourceValues, ASizeThatChangesIsAskedOnceOrRefused) {
  const auto growing = [] {
    auto source = told(10);
    source->on_size = [](int time) { return 10 + time; };
    return source;
  };
  const auto parts = split(growing(), std::vector{0.5, 0.5}, 1);
  EXPECT_EQ(parts[0]->size() + parts[1]->size(), 10);
  EXPECT_EQ(join({growing()})->size(), 10);
  EXPECT_EQ(skip_first(growing(), 1)->size(), 9);
  EXPECT_EQ(zip({growing()})->size(), 10);
  EXPECT_EQ(windows(growing(), {.length = 3})->size(), 8);
  EXPECT_EQ(Loader(growing(), {.workers = 0}).run().samples(), 10);
  const Mixture asking_twice{.datasets = {{.source = growing()}}};
  refused(kCallback, {"must not change"}, [&] { Loader(asking_twice, {.workers = 0}); });
  EXPECT_EQ(StreamLoader(as_stream(growing(), 2), {.workers = 0}).source().shards(), 2);
}

TEST(SourceValues, ManyDocumentsAreNoAllocationBeyondAllMemory) {
  refused(io, {"4611686018427387904", "not so much memory"},
          [] { pack(told(kTwo62, {{.name = "t", .dtype = DType::int32, .ragged = true}}), {}); });
}

}  // namespace rota::test::source_values_test
