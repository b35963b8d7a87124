// Settle::by_hand: what a loader has handed out is trained when the program says so, and not before.

#include <deque>
#include <set>

#include "allocations.hpp"
#include "loader/course.hpp"
#include "loader/ledger.hpp"
#include "rota/resume.hpp"

namespace rota::test::settle_test {

using Name = std::pair<std::int64_t, std::int64_t>;  // id, epoch
using Names = std::vector<Name>;

Names names_of(const Batch& batch) {
  Names names;
  for (std::size_t i = 0; i < batch.ids().size(); ++i) {
    if (batch.kinds()[i] == SlotKind::sample) names.emplace_back(batch.ids()[i].value, batch.epochs()[i]);
  }
  return names;
}

struct Columns {
  explicit Columns(const Names& names) {
    for (const auto& [id, epoch] : names) {
      ids.push_back({id});
      epochs.push_back(epoch);
    }
  }
  std::vector<SampleId> ids;
  std::vector<std::int64_t> epochs;
};

void settle(Loader& loader, const Names& names) {
  const Columns columns(names);
  loader.settle(columns.ids, columns.epochs);
}

LoaderOptions by_hand(std::int64_t batch = 10, LoaderOptions options = {}) {
  options.global_batch_size = batch;
  options.settle = Settle::by_hand;
  return options;
}

// ---- runs that are killed ----

/// What became of samples, as a program's own log has it, which goes back with the checkpoint.
struct Log {
  std::multiset<Name> trained;
  std::multiset<Name> dropped;
};

/// A rank and what is with its consumers.
struct Rank {
  Loader loader;
  Names in_flight = {};

  bool next() {
    const auto batch = loader.next();
    if (batch) std::ranges::copy(names_of(*batch), std::back_inserter(in_flight));
    return batch.has_value();
  }
  Names take(std::mt19937_64& random) {
    std::ranges::shuffle(in_flight, random);
    const std::int64_t count = draw(random, 0, std::ssize(in_flight));
    Names taken(in_flight.end() - count, in_flight.end());
    in_flight.erase(in_flight.end() - count, in_flight.end());
    return taken;
  }
};

class KilledRuns {
 public:
  KilledRuns(std::mt19937_64& random, Course course) : random_(random), course_(std::move(course)) {}

  /// A world that takes some steps, and is killed.
  void live(int size) {
    std::vector<Rank> ranks = begin(size);
    for (std::int64_t acts = draw(random_, 0, 40); acts > 0; --acts) act(ranks);
    log_ = saved_log_;
  }
  /// To the end, by one rank.
  Log finish() {
    std::vector<Rank> ranks = begin(1);
    Rank& rank = ranks.front();
    while (rank.next() || !rank.in_flight.empty()) {
      if (draw(random_, 0, 2) > 0) train(rank, rank.take(random_));
      if (draw(random_, 0, 9) == 0) give_up(rank);
    }
    for (const auto& [reason, count] : rank.loader.dropped().counts) dropped_ += count;
    EXPECT_TRUE(rank.loader.run().open().ids.empty());
    return log_;
  }
  std::int64_t dropped() const { return dropped_; }

 private:
  std::vector<Rank> begin(int size) {
    std::vector<Rank> ranks;
    for (int r = 0; r < size; ++r) {
      course_.options.workers = static_cast<int>(draw(random_, 0, 2));
      ranks.push_back({course_.make(World{.rank = r, .size = size})});
      if (!text_.empty()) restore(ranks.back().loader, text_);
    }
    return ranks;
  }
  void act(std::vector<Rank>& ranks) {
    Rank& rank = ranks[random_() % ranks.size()];
    const std::int64_t which = draw(random_, 0, 9);
    if (which < 4) {
      for (Rank& each : ranks) each.next();
    } else if (which < 7) {
      train(rank, rank.take(random_));
    } else if (which == 7) {
      drop(rank, rank.take(random_));
    } else if (which == 8) {
      give_up(rank);
    } else {
      save(ranks);
    }
  }
  void train(Rank& rank, const Names& names) {
    settle(rank.loader, names);
    log_.trained.insert(names.begin(), names.end());
  }
  void drop(Rank& rank, const Names& names) {
    const Columns columns(names);
    rank.loader.drop(columns.ids, columns.epochs, "stale");
    log_.dropped.insert(names.begin(), names.end());
  }
  void give_up(Rank& rank) {
    const Columns columns(rank.take(random_));
    rank.loader.again(columns.ids, columns.epochs);
  }
  void save(std::vector<Rank>& ranks) {
    std::vector<std::string> texts;
    for (const Rank& rank : ranks) texts.push_back(state(rank.loader));
    text_ = merge_states(texts);
    saved_log_ = log_;
  }

  std::mt19937_64& random_;
  Course course_;
  std::string text_;
  Log log_;
  Log saved_log_;
  std::int64_t dropped_ = 0;
};

TEST(Settle, TrainsEachSampleOnceOrListsItAsDroppedHoweverOftenARunIsKilled) {
  for_seeds(300, [&](std::uint64_t, std::mt19937_64& random) {
    Course course = random_course(kCourses[random() % kCourses.size()], random);
    course.options.settle = Settle::by_hand;
    course.batch_sizes.clear();
    course.weights.clear();
    std::multiset<Name> all;
    Loader loader = course.make(World{});
    while (const auto batch = loader.next()) {
      for (const Name& name : names_of(*batch)) all.insert(name);
      loader.settle(*batch);
    }
    KilledRuns runs(random, course);
    for (std::int64_t lives = draw(random, 0, 6); lives > 0; --lives)
      runs.live(static_cast<int>(draw(random, 1, 4)));
    Log log = runs.finish();
    const std::int64_t tail = runs.dropped() - std::ssize(log.dropped);
    ASSERT_GE(tail, 0);
    if (course.options.tail != Tail::drop) ASSERT_EQ(tail, 0);
    log.trained.merge(log.dropped);
    if (tail == 0) ASSERT_EQ(log.trained, all);
    ASSERT_EQ(std::ssize(log.trained) + tail, std::ssize(all));
    ASSERT_TRUE(std::ranges::includes(all, log.trained));
  });
}

// ---- states ----

TEST(Settle, InOrderHasTheStatesOfALoaderThatCountsAtDelivery) {
  const auto source = counting(100);
  Loader plain(source, {.global_batch_size = 10});
  Loader loader(source, by_hand());
  std::vector<std::string> states{state(plain)};
  while (plain.next()) states.push_back(state(plain));
  EXPECT_EQ(state(loader), states.front());
  std::deque<Batch> ahead;
  for (std::size_t step = 0; step + 1 < states.size(); ++step) {
    while (ahead.size() < 3) {
      auto batch = loader.next();
      if (!batch) break;
      ahead.push_back(std::move(*batch));
    }
    EXPECT_EQ(state(loader), states[step]);
    loader.settle(ahead.front());
    ahead.pop_front();
  }
  EXPECT_EQ(state(loader), states.back());
}

TEST(Settle, InOrderOfOneOfSeveralRanksIsWholeWhateverWasRefused) {
  const auto source = counting(100);
  Loader plain(source, {.global_batch_size = 10}, World{1, 3});
  Loader loader(source, by_hand(), World{1, 3});
  ASSERT_TRUE(plain.next());
  const auto batch = loader.next();
  loader.settle(*batch);
  EXPECT_ERROR(loader.settle(*batch), invalid_argument, {"settled or dropped before"});
  EXPECT_EQ(state(loader), state(plain));
}

TEST(Settle, AStateIsSmall) {
  const auto source = counting(1'000'000'000);
  Loader loader(source, by_hand(65'536, {.open_limit = 100'000, .workers = 0}));
  const auto batch = loader.next();
  std::mt19937_64 random(1);
  Names names = names_of(*batch);
  std::ranges::shuffle(names, random);
  const Names open(names.end() - 1024, names.end());
  names.resize(names.size() - 1024);
  settle(loader, names);
  const std::string text = state(loader);
  EXPECT_LT(text.size(), 4096U);
  Loader other(source, {.global_batch_size = 1024, .workers = 0});
  restore(other, text);
  const auto again = other.next();
  EXPECT_TRUE(again->is_again());
  EXPECT_EQ(again->start(), again->end());
  const Names come = names_of(*again);
  EXPECT_EQ(std::set(come.begin(), come.end()), std::set(open.begin(), open.end()));
  EXPECT_EQ((*other.next()).start().consumed, 65'536);
}

TEST(Settle, OfOneOfSeveralRanksIsAPart) {
  const auto source = counting(100);
  const LoaderOptions options = by_hand(10);
  std::vector<Loader> loaders;
  std::vector<std::string> texts;
  for (int r = 0; r < 3; ++r) {
    loaders.emplace_back(source, options, World{.rank = r, .size = 3});
    const auto batch = loaders.back().next();
    settle(loaders.back(), {names_of(*batch).front()});
    texts.push_back(state(loaders.back()));
  }
  Loader other(source, options);
  EXPECT_ERROR(restore(other, texts[1]), mismatch, {"part of rank 1 of 3", "merge_states"});
  EXPECT_ERROR(merge_states({}), invalid_argument, {"none"});
  EXPECT_ERROR(merge_states(std::vector{texts[0], texts[2]}), invalid_argument, {"2", "3 ranks"});
  EXPECT_ERROR(merge_states(std::vector{texts[0], texts[2], texts[2]}), invalid_argument, {"rank 2"});
  ASSERT_TRUE(loaders[2].next());
  EXPECT_ERROR(merge_states(std::vector{texts[0], texts[1], state(loaders[2])}), mismatch, {"position"});
  restore(other, merge_states(std::vector{texts[2], texts[0], texts[1]}));
  EXPECT_EQ((*other.next()).real(), 7);
  EXPECT_EQ(other.position().consumed, 10);
}

TEST(Settle, PartsThatAreNotBehindTheSameBatchThatComesAgainAreRefused) {
  const auto source = counting(100);
  Loader before(source, by_hand(12));
  ASSERT_TRUE(before.next());
  settle(before, {names_of(*before.next()).front()});
  std::vector<Loader> loaders;
  for (int r = 0; r < 2; ++r) {
    loaders.emplace_back(source, by_hand(12), World{.rank = r, .size = 2});
    restore(loaders.back(), state(before));
  }
  const auto merged = [&] { return merge_states(std::vector{state(loaders[0]), state(loaders[1])}); };
  const auto first = loaders[0].next();
  for (const bool is_settled : {false, true}) {
    if (is_settled) loaders[0].settle(*first);
    EXPECT_ERROR(merged(), mismatch, {"\"coming\" is 11 in one and 23 in another", "the same step"});
  }
  ASSERT_TRUE(loaders[1].next());
  Loader other(source, by_hand(100));
  restore(other, merged());
  EXPECT_EQ((*other.next()).real(), 17);
}

// ---- what is refused ----

TEST(Settle, RefusesWhatIsNotOutAndDoesNothingThen) {
  const auto source = counting(30);
  Loader loader(source, by_hand(10, {.shuffle = Shuffle::none, .tail = Tail::pad}));
  const auto batch = loader.next();
  EXPECT_ERROR(settle(loader, {{0, 0}, {0, 0}}), invalid_argument, {"sample 0 of epoch 0", "named twice"});
  EXPECT_ERROR(settle(loader, {{0, 0}, {17, 0}}), invalid_argument, {"sample 17 of epoch 0", "not out"});
  EXPECT_ERROR(settle(loader, {{-5, 0}}), invalid_argument, {"sample -5"});
  settle(loader, {{0, 0}});
  EXPECT_ERROR(settle(loader, {{0, 0}}), invalid_argument, {"settled or dropped before"});
  EXPECT_ERROR(loader.settle(*batch), invalid_argument, {"sample 0"});
  loader.again(Columns({{1, 0}}).ids, Columns({{1, 0}}).epochs);
  EXPECT_ERROR(settle(loader, {{1, 0}}), invalid_argument, {"given up", "try_settle"});
  const Columns some({{0, 0}, {1, 0}, {2, 0}, {17, 0}});
  EXPECT_EQ(loader.try_settle(some.ids, some.epochs), (std::vector{false, true, true, false}));
  loader.drop(Columns({{3, 0}}).ids, Columns({{3, 0}}).epochs, "stale");
  EXPECT_ERROR(settle(loader, {{3, 0}}), invalid_argument, {"settled or dropped before"});
  EXPECT_ERROR(loader.drop(some.ids, some.epochs, "stale"), invalid_argument, {"drop sample 0 of epoch 0"});
  EXPECT_ERROR(loader.drop(*batch, "odd\xff"), invalid_argument, {"odd\\xff", "no UTF-8"});
  EXPECT_ERROR(loader.again(some.ids, some.epochs), invalid_argument, {"give up sample 0 of epoch 0"});
  for (const Name& beyond : {Name{10, 0}, {30, 0}, {4, 1}, {4, -1}})
    EXPECT_ERROR(settle(loader, {{4, 0}, beyond}), invalid_argument, {"was not handed out"});
  EXPECT_EQ(loader.stats().open, 6);
  EXPECT_EQ(loader.dropped().counts, (std::map<std::string, std::int64_t>{{"stale", 1}}));
  EXPECT_ERROR(loader.settle(some.ids, std::vector<std::int64_t>{0}), invalid_argument,
               {"4 ids", "1 epochs"});
  Loader plain(source, {});
  EXPECT_ERROR(plain.again(), invalid_argument, {"settle = by_hand"});
}

TEST(Settle, SaysByWhatItBeganAnew) {
  Loader loader(counting(30), by_hand(10));
  const std::string text = state(loader);
  const std::vector<std::pair<std::string, std::function<void()>>> calls{
      {"since seek()", [&] { loader.seek({}); }},
      {"since restart()", [&] { loader.restart(); }},
      {"since a restore", [&] { restore(loader, text); }}};
  for (const auto& [since, call] : calls) {
    const auto batch = loader.next();
    call();
    EXPECT_ERROR(loader.settle(*batch), invalid_argument, {since});
  }
}

TEST(Settle, PassesOverPadsOfABatchAndRefusesThemByTheirNames) {
  Loader loader(counting(25), by_hand(10, {.shuffle = Shuffle::none, .tail = Tail::pad}));
  for (int step = 0; step < 2; ++step) loader.settle(*loader.next());
  const auto batch = loader.next();
  EXPECT_ERROR(loader.settle(batch->ids(), batch->epochs()), invalid_argument, {"sample 0 of epoch 0"});
  EXPECT_EQ(loader.stats().open, 5);
  loader.settle(*batch);
  EXPECT_EQ(loader.stats().open, 0);
}

TEST(Settle, TakesAnyLimitOfOneAndMore) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t limit : {std::int64_t{0}, std::int64_t{-1}, -kMost})
    EXPECT_ERROR(Loader(counting(30), by_hand(10, {.open_limit = limit})), invalid_argument,
                 {"open_limit", std::to_string(limit)});
  Loader loader(counting(30), by_hand(10, {.open_limit = kMost}));
  while (loader.next()) continue;
  EXPECT_EQ(loader.stats().open, 30);
}

TEST(Settle, WaitsForRoomAndNamesTheOldest) {
  LoaderOptions options = by_hand(10, {.open_limit = 20, .deadline = std::chrono::milliseconds(50)});
  options.shuffle = Shuffle::none;
  Loader loader(counting(100), options);
  const auto first = loader.next();
  const auto second = loader.next();
  EXPECT_ERROR(loader.next(), timeout, {"20 samples are out", "none was ever settled"});
  settle(loader, {{0, 0}});
  ASSERT_TRUE(loader.next());
  EXPECT_ERROR(loader.next(), timeout, {"29 samples are out", "sample", "of epoch 0"});
  std::jthread consumer([&] { loader.settle(*second); });
  options.deadline = std::chrono::milliseconds(0);
  consumer.join();
  EXPECT_TRUE(loader.next());
}

TEST(Settle, WhatIsSettledWhileItIsToComeAgainIsNotDroppedAndNotOpen) {
  Loader loader(counting(12), by_hand(8, {.tail = Tail::drop, .epochs = 1}));
  const auto batch = loader.next();
  const auto ids = batch->ids();
  const auto epochs = batch->epochs();
  loader.again(ids.first(1), epochs.first(1));
  loader.settle(ids.subspan(1), epochs.subspan(1));
  EXPECT_TRUE(loader.try_settle(ids.first(1), epochs.first(1)).front());
  EXPECT_FALSE(loader.next());
  EXPECT_THAT(loader.dropped().counts, IsEmpty());

  Loader other(counting(12), by_hand(8, {.epochs = 1}));
  const auto first = other.next();
  other.again(first->ids().first(1), first->epochs().first(1));
  other.settle(first->ids().subspan(1), first->epochs().subspan(1));
  other.settle(*other.next());  // and the one waits for others
  EXPECT_TRUE(other.try_settle(first->ids().first(1), first->epochs().first(1)).front());
  other.rescale({.rank = 0, .size = 2});
  EXPECT_FALSE(other.next());
}

TEST(Settle, WithoutMemoryHandsOutNothingOfABatchAndAllAtTheNextTry) {
  rota::Run run(1000, {.global_batch_size = 200});
  RunSlice batch;
  ASSERT_TRUE(run.slice(batch));
  internal::Ledger ledger(1000);
  grant_no_more_than(500);
  EXPECT_THROW(ledger.hand_out(batch, true), std::bad_alloc);
  grant_all();
  EXPECT_EQ(ledger.counts().out, 0);
  EXPECT_EQ(ledger.counts().given_up, 0);
  EXPECT_EQ(ledger.open(batch.end).place, batch.end);
  ledger.hand_out(batch, true);
  EXPECT_EQ(ledger.counts().out, 200);
  EXPECT_EQ(ledger.open(batch.end).place, batch.start);
}

TEST(Settle, GivesUpIntoBatchesThatAreNoSteps) {
  Loader loader(counting(35), by_hand(10, {.workers = 1}));
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  EXPECT_EQ(loader.position().step, 4);
  loader.again(batches[1]);
  loader.again(batches[3]);
  const Names given_up = names_of(batches[1]);
  const auto again = loader.next();
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->is_again());
  EXPECT_EQ(loader.position().step, 4);
  EXPECT_EQ(again->real(), 10);
  const auto rest = loader.next();
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->real(), 5);
  EXPECT_FALSE(loader.next());
  loader.again();
  Numbers come;
  while (const auto batch = loader.next()) std::ranges::copy(ids_of(*batch), std::back_inserter(come));
  std::ranges::sort(come);
  Numbers all(35);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(come, all);
}

}  // namespace rota::test::settle_test
