#pragma once

// A run over streams that never happened: correct traces for tests to break. It shares no code with what
// writes traces or audits them.

#include "cli/fake_run.hpp"

/// One line of a trace, to be changed at will.
struct FakeStreamBatch {
  struct Id {
    std::int64_t shard = 0;
    std::int64_t input = 0;
  };
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::vector<Id> ids = {};
  std::vector<std::int64_t> positions = {};
  std::vector<std::uint64_t> digests = {};
};

/// Two epochs of two shards of 4 and 6 samples, two of each a step where there are, by two ranks that own one
/// each; then, from step 1 of the second epoch on, by one rank.
// NOLINTNEXTLINE(readability-identifier-naming): what it sees is the loop by which the compiler copies arrays
class FakeStream {
 public:
  FakeStream() {
    for (std::int64_t step = 0; step < 5; ++step) {
      for (int rank = 0; rank < 2; ++rank) add({0, rank}, step, {rank});
    }
    for (std::int64_t step = 4; step < 6; ++step) add({1, 0}, step, {0, 1});
  }

  using Key = std::pair<std::int64_t, int>;          // phase, rank
  using At = std::pair<std::int64_t, std::int64_t>;  // epoch, step
  std::map<Key, std::vector<FakeStreamBatch>> batches;
  std::map<Key, At> ends{{{1, 0}, {2, 6}}};
  int worlds[2] = {2, 1};
  At resumed[2] = {{}, {1, 4}};
  std::string split = "by_shard";

  void write(const std::filesystem::path& dir) const {
    std::filesystem::create_directories(dir);
    for (const auto& [key, records] : batches) write_file(dir, key, records);
  }

 private:
  void add(Key key, std::int64_t step, const std::vector<std::int64_t>& shards) {
    FakeStreamBatch batch{.epoch = step / 3, .step = step};
    for (const std::int64_t shard : shards) {
      for (std::int64_t position = step % 3 * 2; position < step % 3 * 2 + 2 && position < 4 + 2 * shard;
           ++position) {
        batch.ids.push_back({.shard = shard, .input = 10 * position});
        batch.positions.push_back(position);
        batch.digests.push_back(static_cast<std::uint64_t>(100 * shard + position));
      }
    }
    batches[key].push_back(batch);
  }

  void write_file(const std::filesystem::path& dir, const Key& key,
                  const std::vector<FakeStreamBatch>& records) const {
    const auto [phase, rank] = key;
    std::ofstream out(dir / fmt::format("p{}r{}.jsonl", phase, rank));
    const std::string owner = fmt::format(R"(,"phase":{},"rank":{})", phase, rank);
    out << fmt::format(R"({{"event":"start","v":1{},"world":{},"workers":1,"batch":4,"shards":2,)"
                       R"("fingerprint":"f","split":"{}","epoch":{},"step":{}}})",
                       owner, worlds[phase], split, resumed[phase].first, resumed[phase].second)
        << '\n';
    std::size_t slots = 0;
    for (const FakeStreamBatch& r : records) {
      std::vector<std::string> ids;
      for (const auto& id : r.ids) ids.push_back(fmt::format("{}:{}:0", id.shard, id.input));
      out << fmt::format(R"({{"event":"batch"{},"epoch":{},"step":{},"ids":{},"positions":{},"digests":{}}})",
                         owner, r.epoch, r.step, ids, r.positions, digest_texts(r.digests))
          << '\n';
      slots += ids.size();
    }
    if (!ends.contains(key)) return;
    out << fmt::format(R"({{"event":"end"{},"epoch":{},"step":{},"batches":{},"slots":{}}})", owner,
                       ends.at(key).first, ends.at(key).second, records.size(), slots)
        << '\n';
  }
};
