#pragma once

// A run that never happened: correct traces, made by counting, for tests to break. It shares no code with
// what writes traces or audits them.

#include "test.hpp"

/// As they stand in a trace.
inline std::vector<std::string> digest_texts(const std::vector<std::uint64_t>& digests) {
  std::vector<std::string> texts;
  for (const std::uint64_t digest : digests) texts.push_back(fmt::format("{:016x}", digest));
  return texts;
}

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
  std::string more = {};                 // members of its line, as they are

  void swap_first_two() {
    std::swap(ids[0], ids[1]);
    std::swap(digests[0], digests[1]);
  }
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
  /// A rank reads slices of batches, as it does from the beginning on.
  FakeRun& by_sample() { return *this; }
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
    for (int rank = 0; rank < world; ++rank) {
      files_[first_file + static_cast<std::size_t>(rank)].records.push_back(part_of(all, rank, world));
    }
    settle(batch);
    return true;
  }

  [[nodiscard]] bool has(int rank, int world, const FakeRecord& all, std::size_t i) const {
    const auto slot = static_cast<std::int64_t>(i);
    if (split_ == "by_shard") return all.ids[i] % world == rank;
    if (split_ == "interleaved") return slot % world == rank;
    return slot >= all.n * rank / world && slot < all.n * (rank + 1) / world;
  }

  // A slice of it, those of the rank's shards, or of its turns.
  [[nodiscard]] FakeRecord part_of(const FakeRecord& all, int rank, int world) const {
    FakeRecord own{all.epoch, all.first, all.step, all.n, {}, {}, {}, {}};
    for (std::size_t i = 0; i < all.ids.size(); ++i) {
      if (!has(rank, world, all, i)) continue;
      own.ids.push_back(all.ids[i]);
      own.digests.push_back(all.digests[i]);
      own.mask.push_back(all.mask[i]);
      own.epochs.push_back(all.epochs[i]);
      own.slots.push_back(static_cast<std::int64_t>(i));
    }
    return own;
  }

  static void write_file(const std::filesystem::path& dir, const FakeFile& f) {
    std::ofstream out(dir / fmt::format("p{}r{}.jsonl", 100 + f.phase, 100 + f.rank));
    out << fmt::format(
        R"({{"event":"start","v":1,"phase":{},"world":{},"rank":{},"workers":1,"samples":[{}],"batch":{},)"
        R"("tail":"{}","split":"{}","fingerprint":"f","epoch":{},"consumed":{},"step":{}}})",
        f.phase, f.world, f.rank, f.samples, f.batch, f.tail, f.split.empty() ? "by_sample" : f.split,
        f.resumed_from.first, f.resumed_from.second, f.step);
    for (const FakeRecord& r : f.records) {
      out << '\n'
          << fmt::format(
                 R"({{"event":"batch","phase":{},"rank":{},"epoch":{},"consumed":{},"step":{},"n":{},)"
                 R"("ids":{},"digests":{})",
                 f.phase, f.rank, r.epoch, r.first, r.step, r.n, r.ids, digest_texts(r.digests));
      const auto differs = [](auto usual) { return [=](auto value) { return value != usual; }; };
      if (!f.split.empty()) out << fmt::format(R"(,"slots":{})", r.slots);
      if (std::ranges::any_of(r.mask, differs(0))) out << fmt::format(R"(,"mask":{})", r.mask);
      if (std::ranges::any_of(r.epochs, differs(r.epoch))) out << fmt::format(R"(,"epochs":{})", r.epochs);
      out << r.more << '}';
    }
    out << '\n' << f.last_words;
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
