#include "limits/refusals.hpp"
#include "limits/told_source.hpp"
#include "loader/access.hpp"
#include "test.hpp"

namespace rota::test::source_values_test {

using test::expect_refused;
using test::kLeast;
using test::kMost;
using test::kTwo62;
using test::told;

using Shared = std::shared_ptr<const Source>;

/// All that takes a user's source.
struct Taker {
  std::string name;
  std::function<void(const Shared&)> take;
};

std::vector<Taker> takers() {
  const auto good = told(10);
  const auto mix = [=](const Shared& source) {
    Loader(Mixture{.datasets = {{.source = good}, {.source = source}}}, {.workers = 0});
  };
  return {{"Loader", [](const Shared& source) { Loader(source, {.workers = 0}); }},
          {"Mixture", mix},
          {"join", [](const Shared& source) { join({source}); }},
          {"join, behind another",
           [=](const Shared& source) {
             join({good, source});
           }},
          {"split",
           [](const Shared& source) {
             split(source, std::vector{0.5, 0.5}, 1);
           }},
          {"windows", [](const Shared& source) { windows(source, {.length = 2}); }},
          {"pack", [](const Shared& source) { pack(source, {}); }},
          {"as_stream", [](const Shared& source) { as_stream(source, 4); }}};
}

TEST(SourceValues, SizesThatCannotBeAreRefusedByAllThatTakesASource) {
  for (const Taker& taker : takers()) {
    for (const std::int64_t size : {std::int64_t{-1}, kLeast, kTwo62 + 1, kMost}) {
      expect_refused(
          {.what = taker.name + " of " + std::to_string(size),
           .call = [&] { taker.take(told(size)); },
           .code = ErrorCode::callback,
           .words = {"the source says that it has " + std::to_string(size) + " samples", "0 to 2^62"}});
    }
  }
}

TEST(SourceValues, FieldsThatCannotBeAreRefusedByAllThatTakesASource) {
  for (const Taker& taker : takers()) {
    for (const auto& [fields, why] : test::impossible_fields()) {
      expect_refused({.what = taker.name + ": " + why,
                      .call = [&, &fields = fields] { taker.take(told(10, fields)); },
                      .code = ErrorCode::callback,
                      .words = {"the source has", why}});
    }
  }
}

TEST(SourceValues, WhatASourceThrowsWhenAskedIsAnError) {
  for (const Taker& taker : takers()) {
    const auto source = told(10);
    source->on_size = [](int /*time*/) -> std::int64_t { throw std::out_of_range("no idea"); };
    expect_refused({.what = taker.name,
                    .call = [&] { taker.take(source); },
                    .code = ErrorCode::callback,
                    .words = {"ask the source for its size: no idea"}});
  }
}

TEST(SourceValues, ExtentsOfZeroAndOneFieldWithoutANameAreRead) {
  const test::Fields fields{{.name = "none", .dtype = DType::int64, .shape = {0, kMost}},
                            {.name = "rows", .dtype = DType::int64, .shape = {0}, .ragged = true},
                            {.name = "", .dtype = DType::uint8, .shape = {3}}};
  const auto source = told(10, fields);
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
  const std::vector<std::vector<std::int64_t>> wrong{
      {4, 5}, {-1, 11}, {11, -1}, {kMost, kMost}, {kTwo62, kTwo62}, {kLeast, kLeast}, {kMost, 11}};
  for (const auto& lengths : wrong) {
    const auto source = told(10);
    source->lengths = source->parts = lengths;
    const auto refused = [&](std::string what, std::function<void()> call, std::string method) {
      expect_refused({.what = std::move(what),
                      .call = std::move(call),
                      .code = ErrorCode::callback,
                      .words = {"its 10 samples are in 2", "mend its " + method}});
    };
    refused(
        "Loader", [&] { Loader(source, {.shards = 2, .workers = 0}); }, "shard_lengths()");
    refused(
        "as_stream", [&] { as_stream(source, 2); }, "shard_lengths()");
    refused(
        "windows", [&] { windows(source, {.length = 1}); }, "part_sizes()");
    refused(
        "join", [&] { static_cast<void>(join({source})->part_sizes()); }, "part_sizes()");
    source->parts.clear();
    const auto rows = windows(source, {.length = 1});
    refused(
        "windows' shards", [&] { static_cast<void>(rows->shard_lengths(2)); }, "shard_lengths()");
  }
  const auto source = told(10);
  source->lengths = {5, 5};
  expect_refused({.what = "another number of shards",
                  .call = [&] { Loader(source, {.shards = 3, .workers = 0}); },
                  .code = ErrorCode::callback,
                  .words = {"into 2 shards", "asked for 3"}});
}

TEST(SourceValues, SumsOfSizesDoNotOverflow) {
  const auto huge = told(kTwo62);
  const auto refused = [](std::string what, std::function<void()> call) {
    expect_refused({.what = std::move(what), .call = std::move(call), .words = {"number 1 has", "2^62"}});
  };
  refused("join of three times 2^62", [&] { join({huge, huge, huge}); });
  refused("join of 2^62 and 1", [&] { join({huge, told(1)}); });
  refused("a mixture of them", [&] {
    Loader(Mixture{.datasets = {{.source = huge}, {.source = huge}}}, {.workers = 0});
  });
  EXPECT_EQ(join({told(kTwo62 - 1), told(1)})->size(), kTwo62);
}

TEST(SourceValues, RowsThatCannotBeAreRefusedWhereverTheyAreAsked) {
  const test::Fields fields{{.name = "t", .dtype = DType::int64, .ragged = true}};
  // The last two are 0 bytes, modulo 2^64.
  for (const std::int64_t rows : {std::int64_t{-1}, kLeast, kMost, std::int64_t{1} << 61, kTwo62}) {
    const auto source = told(10, fields);
    source->row_count = rows;
    const auto refused = [&](std::string what, std::function<void()> call) {
      expect_refused({.what = std::move(what) + " of " + std::to_string(rows),
                      .call = std::move(call),
                      .code = ErrorCode::callback,
                      .words = {std::to_string(rows), "cannot be"}});
    };
    refused("Loader", [&] { Loader(source, {.workers = 0}).next(); });
    refused("Loader with workers", [&] { Loader(source, {.workers = 2}).next(); });
    refused("StreamLoader", [&] { StreamLoader(as_stream(source, 2), {.workers = 0}).next(); });
    std::int64_t to = 0;
    const SampleRows wanted{.id = {1}, .first = 0, .count = 1, .to = reinterpret_cast<std::byte*>(&to)};
    refused("read_rows", [&] { source->read_rows({&wanted, 1}, 0); });
  }
  for (const std::int64_t rows : {std::int64_t{-1}, kLeast, kMost}) {
    const auto source = told(10, fields);
    source->row_count = rows;
    expect_refused({.what = "pack",
                    .call = [&] { pack(source, {}); },
                    .code = ErrorCode::callback,
                    .words = {std::to_string(rows) + " tokens"}});
  }
}

TEST(SourceValues, RowsOfManySamplesDoNotOverflow) {
  const auto source = told(10, {{.name = "t", .dtype = DType::int64, .ragged = true}});
  source->row_count = std::int64_t{1} << 46;  // of 8 bytes each: 2^49
  expect_refused({.what = "a batch of three",
                  .call = [&] { Loader(source, {.workers = 0}).next(); },
                  .words = {"field \"t\"", "more than 2^50 bytes", "global_batch_size"}});
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
  EXPECT_EQ(windows(growing(), {.length = 3})->size(), 8);
  EXPECT_EQ(LoaderAccess::order(Loader(growing(), {.workers = 0})).plan().samples(), 10);
  const auto source = growing();
  expect_refused({.what = "a mixture, which asks twice",
                  .call = [&] { Loader(Mixture{.datasets = {{.source = source}}}, {.workers = 0}); },
                  .code = ErrorCode::callback,
                  .words = {"must not change"}});
  EXPECT_EQ(StreamLoader(as_stream(growing(), 2), {.workers = 0}).source().shards(), 2);
}

TEST(SourceValues, ManyDocumentsAreNoAllocationBeyondAllMemory) {
  const auto source = told(kTwo62, {{.name = "t", .dtype = DType::int32, .ragged = true}});
  expect_refused({.what = "pack",
                  .call = [&] { pack(source, {}); },
                  .code = ErrorCode::io,
                  .words = {"4611686018427387904", "not so much memory"}});
}

}  // namespace rota::test::source_values_test
