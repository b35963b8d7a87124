#pragma once

// What loaders hand out, step by step, in worlds that take turns.

#include "loader/ahead.hpp"
#include "order/random_plan.hpp"
#include "source/documents.hpp"
#include "source/numbered_rows.hpp"
#include "source/reading.hpp"

namespace rota::test {

inline Numbers ids_of(const Batch& batch) {
  Numbers ids;
  for (const SampleId id : batch.ids()) ids.push_back(id.value);
  return ids;
}

/// The ids of all batches that remain.
inline Numbers rest_of(Loader& loader) {
  Numbers ids;
  for (const Batch& batch : loader) std::ranges::copy(ids_of(batch), std::back_inserter(ids));
  return ids;
}

inline void run_out(Loader& loader) {
  while (loader.next()) continue;
}

/// A directory of checkpoints that one process writes.
class Checkpoints {
 public:
  CheckpointDirectory* operator->() { return &checkpoints_; }
  CheckpointDirectory& operator*() { return checkpoints_; }

 private:
  TemporaryDirectory directory_;
  CheckpointDirectory checkpoints_{Communicator(), directory_.path()};
};

/// What a batch says of a slot, with a digest of its content.
struct Slot {
  std::int64_t slot;
  std::int64_t id;
  std::int64_t epoch;
  std::int64_t dataset;
  std::int64_t kind;
  std::int64_t content;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees one in the defaulted operator
  friend auto operator<=>(const Slot&, const Slot&) = default;
};

/// A global batch.
struct Step {
  Position start;
  std::vector<Slot> slots;
  friend bool operator==(const Step&, const Step&) = default;

  /// Puts a rank's part into its slots.
  void add(const Batch& batch) {
    start = batch.start();
    EXPECT_TRUE(!batch.micro_ends().empty() || std::ranges::is_sorted(batch.slots()));
    for (std::size_t i = 0; i < batch.ids().size(); ++i) {
      FingerprintBuilder content;
      for (std::size_t f = 0; f < batch.fields().size(); ++f) {
        content.add(text_of(batch.bytes(f, static_cast<std::int64_t>(i))));
      }
      slots.push_back({batch.slots()[i], batch.ids()[i].value, batch.epochs()[i], batch.datasets()[i],
                       static_cast<std::int64_t>(batch.kinds()[i]),
                       static_cast<std::int64_t>(content.finish().low)});
    }
  }
  /// Once all ranks' parts are in.
  void expect_each_slot_once(std::int64_t global_size) {
    std::ranges::sort(slots);
    ASSERT_EQ(std::ssize(slots), global_size);
    for (std::int64_t i = 0; i < global_size; ++i) ASSERT_EQ(slots[static_cast<std::size_t>(i)].slot, i);
  }
};

/// The loaders of all ranks of a world, in one process.
class SideBySide {
 public:
  /// Makes the loader of each rank.
  using Make = std::function<Loader(World)>;

  SideBySide(int size, const Make& make) {
    for (int r = 0; r < size; ++r) loaders_.push_back(make({.rank = r, .size = size}));
  }

  /// Has each rank take a step, and hands what it gets to `take(loader, batch)`. False at the end of the run,
  /// which all reach together.
  template <typename Take>
  bool step(Take take) {
    std::size_t ended = 0;
    for (Loader& loader : loaders_) {
      const auto batch = loader.next();
      if (batch) take(loader, *batch);
      if (!batch) ++ended;
    }
    EXPECT_TRUE(ended == 0 || ended == loaders_.size()) << "ranks took unequal numbers of steps";
    return ended == 0;
  }
  /// The next step; nothing at the end of the course.
  std::optional<Step> step() {
    Step all;
    std::int64_t size = 0;
    const auto add = [&](const Loader&, const Batch& batch) {
      all.add(batch);
      size = batch.global_size();
    };
    if (!step(add)) return std::nullopt;
    all.expect_each_slot_once(size);
    return all;
  }

  /// Does `work` with the loader of each rank.
  template <typename Work>
  void each(Work work) {
    for (Loader& loader : loaders_) work(loader);
  }
  Loader& front() { return loaders_.front(); }
  void save(CheckpointDirectory& checkpoints) { checkpoints.save_all(front().position().step, front()); }

 private:
  std::vector<Loader> loaders_;
};

/// A turn of a world.
struct Turn {
  int ranks = 1;
  int workers = 0;
  std::int64_t steps = std::int64_t{1} << 40;  ///< to the end
  bool is_killed = false;                      ///< before it has saved
};

/// Turns of worlds of 1 to `most` ranks, the last of which goes to the end.
inline std::vector<Turn> random_turns(std::mt19937_64& random, int most) {
  std::vector<Turn> turns(12);
  for (Turn& turn : turns) {
    turn = {.ranks = static_cast<int>(draw(random, 1, most)),
            .workers = static_cast<int>(draw(random, 0, 3)),
            .steps = draw(random, 0, 6),
            .is_killed = draw(random, 0, 3) == 0};
  }
  turns.push_back({});
  return turns;
}

/// What a run is of, and what is said to its loaders on the way.
struct Course {
  std::shared_ptr<const Source> source = {};
  Mixture mixture = {};  ///< in the place of `source`, where it has datasets
  LoaderOptions options = {};
  Numbers batch_sizes = {};                                  ///< in turn, three steps each
  std::map<std::int64_t, std::vector<double>> weights = {};  ///< that are set at a step

  Loader make(World world) const {
    return source ? Loader(source, options, world) : Loader(mixture, options, world);
  }
  /// **Collective.**
  Loader make(const Communicator& comm) const {
    return source ? Loader(comm, source, options) : Loader(comm, mixture, options);
  }

  /// Up to so many steps after the newest checkpoint, by loaders that begin. True at the end of the course.
  template <typename Ranks>
  bool take(Turn turn, Ranks& ranks, CheckpointDirectory& checkpoints, std::vector<Step>& steps) const {
    if (const auto checkpoint = checkpoints.latest()) {
      ranks.each([&](Loader& loader) { restore(loader, *checkpoint); });
    }
    steps.resize(static_cast<std::size_t>(ranks.front().position().step));
    bool is_over = false;
    for (; turn.steps > 0 && !is_over; --turn.steps) {
      ranks.each([&](Loader& loader) { prepare(loader); });
      auto step = ranks.step();
      is_over = !step;
      if (step) steps.push_back(std::move(*step));
    }
    if (is_over || !turn.is_killed) ranks.save(checkpoints);
    return is_over;
  }

  /// The steps of a world that nobody stops.
  std::vector<Step> unbroken(int size = 1) const {
    SideBySide ranks(size, [&](World world) { return make(world); });
    std::vector<Step> steps;
    for (;;) {
      ranks.each([&](Loader& loader) { prepare(loader); });
      auto step = ranks.step();
      if (!step) return steps;
      steps.push_back(std::move(*step));
    }
  }

 private:
  void prepare(Loader& loader) const {
    const std::int64_t step = loader.position().step;
    if (!batch_sizes.empty() && (options.plan.stages.empty() || step % 3 == 0)) {
      const std::int64_t size = batch_sizes[static_cast<std::size_t>(step) / 3 % batch_sizes.size()];
      if (loader.run().global_batch_size() != size) loader.set_global_batch_size(size);
    }
    if (const auto found = weights.find(step); found != weights.end()) loader.set_weights(found->second);
  }
};

/// How often each sample was read: (dataset, epoch, id).
inline std::map<std::array<std::int64_t, 3>, int> times_read(const std::vector<Step>& steps) {
  std::map<std::array<std::int64_t, 3>, int> times;
  for (const Step& step : steps) {
    for (const Slot& slot : step.slots) {
      if (slot.kind != static_cast<std::int64_t>(SlotKind::pad)) ++times[{slot.dataset, slot.epoch, slot.id}];
    }
  }
  return times;
}

// ---- runs at random ----

inline std::shared_ptr<const Source> random_counting(std::mt19937_64& random, std::int64_t shards,
                                                     std::int64_t most) {
  if (draw(random, 0, 1) == 0) return counting(draw(random, 1, most));
  Numbers lengths(static_cast<std::size_t>(shards));
  for (auto& length : lengths) length = draw(random, 0, most / 10);
  lengths.front() += 1;
  return counting(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), lengths);
}

inline std::shared_ptr<const Source> random_packed(std::mt19937_64& random, std::int64_t length) {
  auto lengths = random_lengths(random, 40, length);
  lengths.push_back(7 * length);
  PackOptions how{.length = length, .seed = random(), .shuffle_documents = draw(random, 0, 3) != 0};
  if (draw(random, 0, 1) == 0) how.eos = -1;
  return pack(std::make_shared<Documents>(lengths), how);
}

/// Over files, some of which are empty, and one of which is far larger. At times they are the shards.
inline std::shared_ptr<const Source> random_windows(std::mt19937_64& random, std::int64_t shards) {
  const bool is_by_file = draw(random, 0, 2) == 0;
  Numbers parts(static_cast<std::size_t>(is_by_file ? shards : draw(random, 4, 9)));
  for (auto& part : parts) part = draw(random, 0, 2) == 0 ? 0 : draw(random, 0, 30);
  parts.back() = 200;
  const auto rows = std::make_shared<NumberedRows>(parts);
  if (is_by_file) rows->lengths = parts;
  return windows(
      rows,
      {.length = draw(random, 1, 20), .stride = draw(random, 1, 5), .across_files = draw(random, 0, 1) == 1});
}

inline LoaderOptions random_options(std::mt19937_64& random) {
  return {.global_batch_size = draw(random, 1, 40),
          .shards = draw(random, 1, 40),
          .interleave = draw(random, 0, 4),
          .shuffle = static_cast<Shuffle>(draw(random, 0, 3)),
          .seed = random(),
          .block = {.samples = 4, .blocks = 3},
          .tail = static_cast<Tail>(draw(random, 0, 3)),
          .rank_split = static_cast<Split>(draw(random, 0, 2)),
          .worker_split = static_cast<Split>(draw(random, 0, 2)),
          .epochs = draw(random, 1, 3),
          .workers = 0,
          .read_ahead_batches = draw(random, 1, 5)};
}

inline const std::array<std::string, 5> kCourses = {"Samples", "Windows", "Packing", "Mixture", "Everything"};

inline Balance random_balance(std::mt19937_64& random, std::int64_t samples) {
  Balance balance;
  for (std::int64_t i = draw(random, 1, 2); i > 0; --i) {
    Numbers lengths(static_cast<std::size_t>(samples));
    for (auto& length : lengths) length = draw(random, 0, draw(random, 1, 1000));
    balance.columns.push_back({.lengths = Lengths(lengths), .quadratic = 0.01});
  }
  balance.equal_counts = draw(random, 0, 1) == 0;
  const bool is_one = balance.columns.size() == 1;
  balance.padded = is_one && draw(random, 0, 1) == 0;
  if (is_one && draw(random, 0, 1) == 0)
    balance.micro_cost = static_cast<double>(draw(random, 1, 20'000));
  else
    balance.micro_batches = draw(random, 1, 4);
  return balance;
}

inline Course random_course(const std::string& of, std::mt19937_64& random) {
  Course course{.options = random_options(random)};
  const std::int64_t shards = course.options.shards;
  if (of == "Samples") course.source = random_counting(random, shards, 300);
  if (of == "Windows") course.source = random_windows(random, shards);
  if (of == "Packing") course.source = random_packed(random, draw(random, 1, 30));
  if (of == "Mixture") {
    course.mixture.datasets = {{counting(97), 0.6}, {counting(240), 0.3}, {counting(15), 0.1}};
    course.weights = {{11, {1, 7, 2}}, {17, {0.2, 0, 0.8}}, {21, {0.5, 0.4, 0.1}}};
  }
  if (of == "Everything") {
    const std::int64_t length = draw(random, 1, 30);
    for (const double weight : {3, 5}) {
      const auto packed = random_packed(random, length);
      course.mixture.datasets.push_back({windows(packed, {.length = 3, .stride = 2}), weight});
    }
  }
  if (draw(random, 0, 3) == 0) {
    course.options.rank_split = Split::balanced;
    std::int64_t samples = course.source ? course.source->size() : 0;
    for (const Mixture::Part& part : course.mixture.datasets) samples += part.source->size();
    course.options.balance = random_balance(random, samples);
  }
  course.mixture.end = draw(random, 0, 1) == 0 ? MixtureEnd::all_exhausted : MixtureEnd::first_exhausted;
  const bool is_planned = draw(random, 0, 2) == 0;
  if (is_planned) course.options.plan = random_plan(random, course.mixture.datasets.size());
  course.options.plan.skip.clear();  // of a course each sample is read
  for (std::int64_t i = draw(random, is_planned ? 0 : 1, 3); i > 0; --i)
    course.batch_sizes.push_back(draw(random, 1, 40));
  return course;
}

}  // namespace rota::test
