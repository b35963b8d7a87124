#pragma once

// A run over streams that never happened: correct traces for tests to break. It shares no code with what
// writes traces or audits them.

#include "test.hpp"

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

  template <typename T, typename Write>
  static void write_list(std::ofstream& out, const char* name, const std::vector<T>& values, Write write) {
    out << ",\"" << name << "\":[";
    for (std::size_t i = 0; i < values.size(); ++i) {
      out << (i > 0 ? "," : "");
      write(values[i]);
    }
    out << ']';
  }

  void write_file(const std::filesystem::path& dir, const Key& key,
                  const std::vector<FakeStreamBatch>& records) const {
    const auto [phase, rank] = key;
    std::ofstream out(dir / ("p" + std::to_string(phase) + "r" + std::to_string(rank) + ".jsonl"));
    const std::string owner = ",\"phase\":" + std::to_string(phase) + ",\"rank\":" + std::to_string(rank);
    out << R"({"event":"start","v":1)" << owner << ",\"world\":" << worlds[phase]
        << R"(,"workers":1,"batch":4,"shards":2,"fingerprint":"f","split":")" << split << R"(","epoch":)"
        << resumed[phase].first << ",\"step\":" << resumed[phase].second << "}\n";
    std::size_t slots = 0;
    for (const FakeStreamBatch& r : records) {
      out << R"({"event":"batch")" << owner << ",\"epoch\":" << r.epoch << ",\"step\":" << r.step;
      write_list(out, "ids", r.ids,
                 [&](const auto& id) { out << '"' << id.shard << ':' << id.input << ":0\""; });
      write_list(out, "positions", r.positions, [&](std::int64_t position) { out << position; });
      write_list(out, "digests", r.digests, [&](std::uint64_t digest) {
        char text[17];
        std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(digest));
        out << '"' << text << '"';
      });
      out << "}\n";
      slots += r.ids.size();
    }
    if (!ends.contains(key)) return;
    out << R"({"event":"end")" << owner << ",\"epoch\":" << ends.at(key).first
        << ",\"step\":" << ends.at(key).second << ",\"batches\":" << records.size() << ",\"slots\":" << slots
        << "}\n";
  }
};
