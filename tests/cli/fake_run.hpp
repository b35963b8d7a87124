#pragma once

// A run that never happened: correct traces, made by counting, for tests to break. It shares no code with
// what writes traces or audits them.

#include "test.hpp"

/// One line of a trace, to be changed at will.
struct FakeRecord {
  std::int64_t epoch = 0;
  std::int64_t first = 0;
  std::int64_t step = 0;
  std::int64_t n = 0;
  std::vector<std::int64_t> ids;
  std::vector<std::uint64_t> digests;
  std::vector<int> mask;                 // written only where it is not all 0
  std::vector<std::int64_t> epochs;      // written only where they are not all `epoch`
  std::vector<std::int64_t> slots = {};  // where ranks are split by shard
};

/// One trace file.
struct FakeFile {
  std::int64_t samples = 0;
  std::int64_t batch = 0;
  int world = 1;
  int rank = 0;
  std::int64_t phase = 0;
  std::string tail;
  std::pair<std::int64_t, std::int64_t> resumed_from;
  std::int64_t step = 0;  // that it begins with
  std::vector<FakeRecord> records;
  std::string last_words;  // appended as they are
  std::string split;       // of ranks; none: by_sample
};

class FakeRun {
 public:
  FakeRun(std::int64_t samples, std::string tail, std::int64_t epochs)
      : samples_(samples), tail_(std::move(tail)), epochs_(epochs) {}

  /// Runs a phase of `steps` global batches (or to the end) from where the run is.
  FakeRun& phase(int world, std::int64_t batch, std::int64_t steps = 1 << 30) {
    const auto from = std::pair(epoch_, consumed_);
    const std::size_t first_file = files_.size();
    for (int rank = 0; rank < world; ++rank) {
      files_.push_back({samples_, batch, world, rank, phases_, tail_, from, step_, {}, "", split_});
    }
    for (std::int64_t s = 0; s < steps && step(world, batch, first_file); ++s) {
    }
    ++phases_;
    return *this;
  }
  /// From here on, a rank reads whole shards: those samples whose ids it is congruent to.
  FakeRun& by_shard() {
    split_ = "by_shard";
    return *this;
  }
  /// From here on, ranks take turns.
  FakeRun& interleaved() {
    split_ = "interleaved";
    return *this;
  }
  /// Goes back, as a run does that is resumed from an older checkpoint.
  FakeRun& back_to(std::int64_t epoch, std::int64_t consumed) {
    if (std::pair(epoch, consumed) != std::pair(epoch_, consumed_)) step_ = step_at(epoch, consumed);
    epoch_ = epoch;
    consumed_ = consumed;
    return *this;
  }

  FakeFile& file(std::int64_t phase, int rank) {
    return *std::ranges::find_if(files_,
                                 [&](const FakeFile& f) { return f.phase == phase && f.rank == rank; });
  }
  FakeRecord& record(std::int64_t phase, int rank, std::size_t i) { return file(phase, rank).records.at(i); }
  void remove(std::int64_t phase, int rank) {
    std::erase_if(files_, [&](const FakeFile& f) { return f.phase == phase && f.rank == rank; });
  }
  [[nodiscard]] std::vector<FakeFile>& files() { return files_; }
  [[nodiscard]] std::int64_t samples() const { return samples_; }

  void write(const std::filesystem::path& dir) const {
    std::filesystem::create_directories(dir);
    for (const FakeFile& file : files_) write_file(dir, file);
  }

 private:
  // The step that began there, or one that nobody took.
  [[nodiscard]] std::int64_t step_at(std::int64_t epoch, std::int64_t consumed) const {
    for (const FakeFile& file : files_) {
      for (const FakeRecord& record : file.records) {
        if (record.epoch == epoch && record.first == consumed) return record.step;
      }
    }
    return step_ + 1;
  }

  // The turns of an epoch: its samples in some order.
  const std::vector<std::int64_t>& turns(std::int64_t epoch) {
    auto& turns = turns_[epoch];
    if (turns.empty()) {
      turns.resize(static_cast<std::size_t>(samples_));
      std::iota(turns.begin(), turns.end(), 0);
      std::shuffle(turns.begin(), turns.end(), std::mt19937_64(static_cast<std::uint64_t>(epoch) + 1));
    }
    return turns;
  }

  void add_slot(FakeRecord& all, std::int64_t epoch, std::int64_t turn, int mark) {
    const std::int64_t id = turns(epoch)[static_cast<std::size_t>(turn % samples_)];
    all.ids.push_back(id);
    all.digests.push_back(0x1234567 * static_cast<std::uint64_t>(id + 1));
    all.mask.push_back(mark);
    all.epochs.push_back(epoch);
  }

  // Ends the epoch where nothing more can come of it; false where that ends the run.
  bool settle(std::int64_t batch) {
    if (tail_ == "drop" && samples_ < batch) return false;
    if (consumed_ == samples_ || (tail_ == "drop" && samples_ - consumed_ < batch)) {
      ++epoch_;
      consumed_ = 0;
    }
    return epoch_ < epochs_;
  }

  bool step(int world, std::int64_t batch, std::size_t first_file) {
    if (!settle(batch)) return false;
    FakeRecord all{epoch_, consumed_, step_++, 0, {}, {}, {}, {}};
    for (std::int64_t slot = 0; slot < batch; ++slot) {
      if (consumed_ == samples_ && tail_ == "carry" && epoch_ + 1 < epochs_) {
        ++epoch_;
        consumed_ = 0;
      }
      if (consumed_ < samples_) {
        add_slot(all, epoch_, consumed_++, 0);
      } else if (tail_ == "pad") {
        add_slot(all, epoch_, slot - (samples_ - all.first), 1);
      } else {
        break;
      }
    }
    all.n = static_cast<std::int64_t>(all.ids.size());
    for (int rank = 0; rank < world; ++rank)
      files_[first_file + rank_index(rank)].records.push_back(split_.empty() ? slice(all, rank, world)
                                                                             : some_of(all, rank, world));
    settle(batch);
    return true;
  }

  static std::size_t rank_index(int rank) { return static_cast<std::size_t>(rank); }

  static FakeRecord slice(const FakeRecord& all, int rank, int world) {
    const auto begin = all.n * rank / world;
    const auto end = all.n * (rank + 1) / world;
    const auto cut = [&](const auto& list) {
      return std::remove_cvref_t<decltype(list)>(list.begin() + begin, list.begin() + end);
    };
    return {all.epoch,    all.first,        all.step,      all.n,
            cut(all.ids), cut(all.digests), cut(all.mask), cut(all.epochs)};
  }

  // Those of its shards, or of its turns.
  [[nodiscard]] FakeRecord some_of(const FakeRecord& all, int rank, int world) const {
    FakeRecord own{all.epoch, all.first, all.step, all.n, {}, {}, {}, {}};
    for (std::size_t i = 0; i < all.ids.size(); ++i) {
      const auto place = split_ == "by_shard" ? all.ids[i] : static_cast<std::int64_t>(i);
      if (place % world != rank) continue;
      own.ids.push_back(all.ids[i]);
      own.digests.push_back(all.digests[i]);
      own.mask.push_back(all.mask[i]);
      own.epochs.push_back(all.epochs[i]);
      own.slots.push_back(static_cast<std::int64_t>(i));
    }
    return own;
  }

  template <typename T, typename Write>
  static void write_list(std::ofstream& out, const char* name, const std::vector<T>& values, Write write) {
    out << ",\"" << name << "\":[";
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out << ',';
      write(values[i]);
    }
    out << ']';
  }

  static void write_file(const std::filesystem::path& dir, const FakeFile& f) {
    std::ofstream out(dir /
                      ("p" + std::to_string(100 + f.phase) + "r" + std::to_string(100 + f.rank) + ".jsonl"));
    out << R"({"event":"start","v":1,"phase":)" << f.phase << ",\"world\":" << f.world
        << ",\"rank\":" << f.rank << ",\"workers\":1,\"samples\":[" << f.samples << "],\"batch\":" << f.batch
        << R"(,"tail":")" << f.tail << R"(","split":")" << (f.split.empty() ? "by_sample" : f.split)
        << R"(","fingerprint":"f","epoch":)" << f.resumed_from.first
        << ",\"consumed\":" << f.resumed_from.second << ",\"step\":" << f.step << "}\n";
    for (const FakeRecord& r : f.records) {
      out << R"({"event":"batch","phase":)" << f.phase << ",\"rank\":" << f.rank << ",\"epoch\":" << r.epoch
          << ",\"consumed\":" << r.first << ",\"step\":" << r.step << ",\"n\":" << r.n;
      write_list(out, "ids", r.ids, [&](std::int64_t id) { out << id; });
      if (!f.split.empty()) write_list(out, "slots", r.slots, [&](std::int64_t slot) { out << slot; });
      write_list(out, "digests", r.digests, [&](std::uint64_t digest) {
        char text[17];
        std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(digest));
        out << '"' << text << '"';
      });
      if (std::ranges::any_of(r.mask, [](int mark) { return mark != 0; })) {
        write_list(out, "mask", r.mask, [&](int mark) { out << mark; });
      }
      if (std::ranges::any_of(r.epochs, [&](std::int64_t epoch) { return epoch != r.epoch; })) {
        write_list(out, "epochs", r.epochs, [&](std::int64_t epoch) { out << epoch; });
      }
      out << "}\n";
    }
    out << f.last_words;
  }

  std::int64_t samples_;
  std::string tail_;
  std::int64_t epochs_;
  std::int64_t epoch_ = 0;
  std::int64_t consumed_ = 0;
  std::int64_t phases_ = 0;
  std::int64_t step_ = 0;
  std::string split_;
  std::vector<FakeFile> files_;
  std::map<std::int64_t, std::vector<std::int64_t>> turns_;
};
