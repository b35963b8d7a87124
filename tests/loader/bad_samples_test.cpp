// Samples that are corrupt, or that a transform refuses: their places stay, and nothing else is passed over.

#include "loader/course.hpp"

namespace rota::test::bad_samples_test {

enum class Kind { none, in_place, makes_fields };

/// Refuses samples, after it has written into them.
Transform make_transform(Kind kind, std::set<std::int64_t> refused) {
  if (kind == Kind::none) return {};
  Transform transform{.apply = [refused = std::move(refused)](const TransformContext& context,
                                                              const SampleView& in, SampleOutput& out) {
    const std::int64_t x = in.as<std::int64_t>(0)[0];
    out.as<std::int64_t>(0)[0] = -x;
    if (refused.contains(context.id.value)) throw std::runtime_error("not this one");
  }};
  if (kind == Kind::makes_fields) transform.fields = {{.name = "y", .dtype = DType::int64}};
  return transform;
}

/// Over numbers of workers, fixed or ragged fields, kinds of transform.
class BadSamplesOf : public TestWithParam<std::tuple<int, bool, Kind>> {
 protected:
  static int workers() { return std::get<0>(GetParam()); }
  static bool is_ragged() { return std::get<1>(GetParam()); }
  static Kind kind() { return std::get<2>(GetParam()); }

  void make_source(std::int64_t size) { source_ = faulty(size, is_ragged()); }

  bool is_bad(SampleId id) const {
    return source_->is_corrupt(id.value) || (kind() != Kind::none && refused_.contains(id.value));
  }

  Loader make(World world = {}) const {
    LoaderOptions options = options_;
    options.workers = workers();
    options.transform = make_transform(kind(), refused_);
    return Loader(source_, options, world);
  }

  /// The content of each slot is its sample's where it is real, and nothing but zeros where it is skipped.
  void expect_slots(const Batch& batch) const {
    EXPECT_EQ(batch.real(), std::count(batch.kinds().begin(), batch.kinds().end(), SlotKind::sample));
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const SampleId id = batch.ids()[static_cast<std::size_t>(i)];
      const SlotKind kind = batch.kinds()[static_cast<std::size_t>(i)];
      EXPECT_TRUE(kind == SlotKind::pad || (kind == SlotKind::skipped) == is_bad(id)) << id.value;
      for (std::size_t f = 0; f < batch.fields().size(); ++f) expect_content(batch, f, i, id);
    }
  }

  std::shared_ptr<ToldSource> source_;
  std::set<std::int64_t> refused_;
  LoaderOptions options_{.global_batch_size = 6,
                         .shards = 3,
                         .bad_samples = {.policy = BadSamples::Policy::skip, .retry_wait = {}}};

 private:
  void expect_content(const Batch& batch, std::size_t f, std::int64_t i, SampleId id) const {
    const auto bytes = batch.bytes(f, i);
    if (is_bad(id)) {
      EXPECT_THAT(bytes, Each(std::byte{0})) << id.value;
    } else if (f == 0) {
      const std::int64_t x = id.value + 1;
      std::int64_t found = 0;
      std::memcpy(&found, bytes.data(), sizeof(found));
      EXPECT_EQ(found, kind() == Kind::none ? x : -x);
    }
    if (!batch.fields()[f].ragged) return;
    const bool has_size = !source_->corrupt_sizes.contains(id.value);
    EXPECT_EQ(std::ssize(bytes), has_size ? 1 + id.value % 3 : 0);
  }
};

TEST_P(BadSamplesOf, AnyPlaceStayInItMaskedAndBlank) {
  for (std::int64_t bad = 0; bad < 13; ++bad) {
    for (int how = 0; how < 3; ++how) {
      make_source(13);
      refused_.clear();
      (how == 0 ? source_->corrupt : how == 1 ? source_->corrupt_sizes : refused_) = {bad};
      Loader loader = make();
      std::int64_t real = 0;
      for (const Batch& batch : loader) {
        expect_slots(batch);
        real += batch.real();
      }
      const bool is_seen = is_bad({bad});
      EXPECT_EQ(real, is_seen ? 12 : 13);
      EXPECT_EQ(loader.skipped().count, is_seen ? 1 : 0);
      EXPECT_EQ(loader.stats().skipped, is_seen ? 1 : 0);
    }
  }
}

TEST_P(BadSamplesOf, AnyNumberAreCountedInSoThatWithTheRealOnesTheyAreTheEpoch) {
  std::mt19937 random(7);
  static constexpr std::array kTails = {Tail::partial, Tail::carry, Tail::pad};
  for (int round = 0; round < 60; ++round) {
    make_source(1 + static_cast<std::int64_t>(random() % 40));
    refused_.clear();
    for (std::int64_t id = 0; id < source_->size(); ++id) {
      const auto fate = random() % (round % 4 == 0 ? 3 : 12);  // often many, up to all
      if (fate < 3) (fate == 0 ? source_->corrupt : fate == 1 ? source_->corrupt_sizes : refused_).insert(id);
    }
    options_.global_batch_size = 1 + static_cast<std::int64_t>(random() % 12);
    options_.tail = kTails.at(random() % 3);
    options_.epochs = 2;
    const int size = 1 + static_cast<int>(random() % 4);
    std::map<std::pair<std::int64_t, std::int64_t>, int> seen;
    for (int rank = 0; rank < size; ++rank) {
      Loader loader = make({.rank = rank, .size = size});
      for (const Batch& batch : loader) {
        expect_slots(batch);
        for (std::size_t i = 0; i < batch.ids().size(); ++i) {
          if (batch.kinds()[i] != SlotKind::pad) ++seen[{batch.epochs()[i], batch.ids()[i].value}];
        }
      }
    }
    EXPECT_THAT(seen, SizeIs(2 * source_->size()));
    EXPECT_THAT(seen, Each(Pair(_, 1)));
  }
}

TEST_P(BadSamplesOf, ARunAreListedOnceInOrderOfDelivery) {
  make_source(40);
  source_->corrupt = {3, 17, 18, 39};
  source_->corrupt_sizes = {5};
  refused_ = {6};
  options_.epochs = 2;
  options_.tail = Tail::pad;
  Loader loader = make();
  std::vector<std::pair<std::int64_t, std::int64_t>> expected;
  for (const Batch& batch : loader) {
    for (std::size_t i = 0; i < batch.ids().size(); ++i) {
      if (batch.kinds()[i] == SlotKind::skipped) {
        expected.emplace_back(batch.epochs()[i], batch.ids()[i].value);
      }
    }
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> listed;
  for (const SkippedSamples::Sample& s : loader.skipped().samples) {
    listed.emplace_back(s.epoch, s.id.value);
    EXPECT_EQ(s.where, "place-" + std::to_string(s.id.value));
    EXPECT_EQ(s.error, s.id.value == 6   ? "transform: not this one"
                       : s.id.value == 5 ? "size: the length is wrong"
                                         : "read: the bytes are wrong");
  }
  EXPECT_EQ(listed, expected);
  EXPECT_EQ(loader.skipped().count, std::ssize(expected));
}

TEST_P(BadSamplesOf, BatchesThatAreNotHandedOutYetDoNotCount) {
  make_source(60);
  for (std::int64_t id = 0; id < 60; id += 2) source_->corrupt.insert(id);
  Loader loader = make();
  loader.warm_up();
  EXPECT_EQ(loader.skipped().count, 0);
  std::int64_t skipped = 0;
  for (int step = 0; step < 4; ++step) {
    const auto batch = loader.next();
    skipped += batch->size() - batch->real();
    EXPECT_EQ(loader.skipped().count, skipped);
    if (step == 2) loader.rescale({.rank = 1, .size = 2});
    EXPECT_THAT(loader.skipped().samples, SizeIs(skipped));
  }
}

std::string name_of(const TestParamInfo<std::tuple<int, bool, Kind>>& info) {
  static constexpr std::array kKinds = {"AsRead", "InPlace", "FieldsMade"};
  return "Workers" + std::to_string(std::get<0>(info.param)) +
         (std::get<1>(info.param) ? "Ragged" : "Fixed") +
         kKinds.at(static_cast<std::size_t>(std::get<2>(info.param)));
}
INSTANTIATE_TEST_SUITE_P(Loaders, BadSamplesOf,
                         Combine(Values(0, 1, 2, 3), Values(false, true),
                                 Values(Kind::none, Kind::in_place, Kind::makes_fields)),
                         name_of);

// ---- what is not the samples' fault ----

LoaderOptions skipping(std::function<void(const TransformContext&)> apply) {
  LoaderOptions options = in_order(30, 1, kSkip);
  options.transform.apply = [apply = std::move(apply)](const TransformContext& context, const SampleView&,
                                                       SampleOutput&) { apply(context); };
  return options;
}

TEST(Programs, ThatAreWrongAreNotSkipped) {
  for (const ErrorCode code : {mismatch, out_of_range, invalid_argument}) {
    Loader loader(counting(60), skipping([&](const TransformContext& context) {
                    if (context.id.value == 7) throw Error(code, "wrong");
                  }));
    EXPECT_ERROR(loader.next(), code, {"transform sample 7", "wrong"});
  }
  Loader loader(counting(60), {.transform = {.apply = [](const TransformContext&, const SampleView& in,
                                                         SampleOutput&) { (void)in.as<float>(0); }},
                               .bad_samples = kSkip});
  EXPECT_ERROR((void)loader.next(), mismatch, {"transform sample", "field \"x\" as float32", "int64"});
}

TEST(Programs, ThatFindAHundredBadSamplesFirstEnd) {
  std::int64_t good = 130;
  const auto refuse = [&](const TransformContext& context) {
    if (context.id.value != good) throw std::runtime_error("not this one");
  };
  Loader none(counting(600), skipping(refuse));
  EXPECT_ERROR(run_out(none), corrupt, {"all of the first 120 are bad", "sample 0", "not this one"});
  good = 95;
  Loader one(counting(600), skipping(refuse));
  run_out(one);
  EXPECT_EQ(one.skipped().count, 599);
}

TEST(BadSamples, OfOtherRanksAreNotKnownToABatch) {
  const auto nothing = [](const Batch&, BatchOutput&) {};
  for (const bool is_collated : {false, true}) {
    LoaderOptions options{.global_batch_size = 1, .bad_samples = kSkip};
    if (is_collated) options.collate = {.apply = nothing, .fields = kOneNumber};
    for (const int rank : {0, 1}) {
      Loader loader(counting(3), options, World{rank, 2});
      const Batch batch = loader.next().value();
      EXPECT_ERROR(batch.global_real(), invalid_argument, {"sum real() over ranks"});
    }
    Loader alone(counting(3), options, World{});
    EXPECT_EQ(Batch(alone.next().value()).global_real(), 1);
  }
}

}  // namespace rota::test::bad_samples_test
