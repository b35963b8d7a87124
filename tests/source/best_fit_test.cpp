#include "source/best_fit.hpp"

#include "messages.hpp"
#include "source/documents.hpp"
#include "source/lengths.hpp"
#include "source/reading.hpp"

namespace rota::test::best_fit_test {

using Packed = std::shared_ptr<const Source>;
using Pieces = std::multiset<Numbers>;

constexpr std::int64_t kPad = -3;

Packed pack_best(Numbers lengths, PackOptions options) {
  options.fit = Fit::best;
  options.pad = kPad;
  return pack(std::make_shared<Documents>(std::move(lengths)), options);
}

/// The tokens of each document, cut into whole sequences and a rest.
std::map<std::int64_t, Pieces> cut_naively(const Numbers& lengths, const PackOptions& options) {
  std::map<std::int64_t, Pieces> all;
  for (std::int64_t document = 0; document < std::ssize(lengths); ++document) {
    Numbers tokens;
    if (options.bos) tokens.push_back(*options.bos);
    for (std::int64_t k = 0; k < lengths[static_cast<std::size_t>(document)]; ++k) {
      tokens.push_back(Documents::token(document, k));
    }
    if (options.eos) tokens.push_back(*options.eos);
    for (std::int64_t at = 0; at < std::ssize(tokens); at += options.length) {
      const auto end = std::min(at + options.length, std::ssize(tokens));
      all[document].insert(Numbers(tokens.begin() + at, tokens.begin() + end));
    }
  }
  return all;
}

/// How much room sequences have left where one document after the other is laid, the longest first.
std::multiset<std::int64_t> rooms_naively(const std::map<std::int64_t, Pieces>& documents,
                                          std::int64_t length) {
  Numbers longest_first;
  for (const auto& [document, pieces] : documents) {
    for (const Numbers& piece : pieces) longest_first.push_back(std::ssize(piece));
  }
  std::ranges::sort(longest_first, std::greater());
  std::multiset<std::int64_t> rooms;
  for (const std::int64_t one : longest_first) {
    const auto best = rooms.lower_bound(one);
    const std::int64_t room = best == rooms.end() ? length : *best;
    if (best != rooms.end()) rooms.erase(best);
    rooms.insert(room - one);
  }
  return rooms;
}

/// What the sequences of an epoch are made of.
struct Epoch {
  std::map<std::int64_t, Pieces> documents;
  std::multiset<std::int64_t> rooms;  // that are left in sequences
  std::vector<Ids> ids;
};

Epoch read(const Source& packed, std::int64_t epoch) {
  const Samples samples(packed, all_ids(packed), true, epoch);
  Epoch all;
  for (std::size_t s = 0; s < static_cast<std::size_t>(packed.size()); ++s) {
    const auto tokens = samples.values<std::int64_t>(0, s);
    const auto segments = samples.values<std::int32_t>(1, s);
    const auto positions = samples.values<std::int32_t>(2, s);
    const Ids& ids = all.ids.emplace_back(documents_of(packed, {static_cast<std::int64_t>(s)}, epoch));
    std::size_t at = 0;
    for (std::size_t d = 0; d < ids.size(); ++d) {
      Numbers piece;
      for (; at < tokens.size() && segments[at] == static_cast<std::int32_t>(d) + 1; ++at) {
        EXPECT_EQ(positions[at], std::ssize(piece));
        piece.push_back(tokens[at]);
      }
      all.documents[ids[d].value].insert(std::move(piece));
    }
    all.rooms.insert(std::ssize(tokens) - static_cast<std::int64_t>(at));
    for (; at < tokens.size(); ++at) {
      EXPECT_EQ(std::tuple(tokens[at], segments[at], positions[at]), std::tuple(kPad, 0, 0));
    }
  }
  return all;
}

PackOptions random_options(std::mt19937_64& random) {
  PackOptions options{
      .length = draw(random, 1, 40), .seed = random(), .shuffle_documents = draw(random, 0, 3) != 0};
  if (draw(random, 0, 1) == 0) options.bos = -1;
  if (draw(random, 0, 1) == 0) options.eos = -2;
  return options;
}

TEST(BestFit, HasEachDocumentWholeOnceAnEpochWhereOneByOneTheLongestFirstFits) {
  const SinkMessages quiet;
  for_seeds(300, [&](std::uint64_t, std::mt19937_64& random) {
    const PackOptions options = random_options(random);
    const Numbers lengths = random_lengths(random, 60, options.length);
    const auto documents = cut_naively(lengths, options);
    const Packed packed = pack_best(lengths, options);
    for (const std::int64_t epoch : {0, 1, 7}) {
      const Epoch got = read(*packed, epoch);
      ASSERT_EQ(got.documents, documents);
      ASSERT_EQ(got.rooms, rooms_naively(documents, options.length));
    }
  });
}

TEST(BestFit, HasDocumentsOfALengthInOtherPlacesInEachEpoch) {
  const SinkMessages quiet;
  std::mt19937_64 random(3);
  Numbers lengths(500);
  for (auto& length : lengths) length = draw(random, 1, 20);
  const Packed packed = pack_best(lengths, {.length = 32, .seed = 5});
  EXPECT_NE(read(*packed, 0).ids, read(*packed, 1).ids);
  EXPECT_EQ(read(*packed, 3).ids, read(*packed, 3).ids);
  EXPECT_NE(read(*packed, 0).ids, read(*pack_best(lengths, {.length = 32, .seed = 6}), 0).ids);
  const Packed in_order = pack_best(lengths, {.length = 32, .shuffle_documents = false});
  EXPECT_EQ(read(*in_order, 0).ids, read(*in_order, 1).ids);
  EXPECT_THAT(packed->where({2}), HasSubstr("in epoch 0 from document "));
  EXPECT_THAT(in_order->where({2}), StartsWith("from document "));
  EXPECT_EQ(documents_of(*packed, {2}), documents_of(*packed, {2}, 0));
}

TEST(BestFit, OfALoaderIsArrangedAnewInEachOfItsEpochs) {
  std::mt19937_64 random(4);
  Numbers lengths(300);
  for (auto& length : lengths) length = draw(random, 1, 30);
  const Packed packed = pack_best(lengths, {.length = 64, .seed = 2});
  Loader loader(packed, {.global_batch_size = 7, .tail = Tail::carry, .epochs = 3, .workers = 2});
  std::array<std::multiset<std::int64_t>, 3> seen;
  std::set<std::vector<std::int64_t>> different;
  while (const auto batch = loader.next()) {
    const auto tokens = batch->tensor(0).as<std::int64_t>();
    for (std::size_t i = 0; i < batch->ids().size(); ++i) {
      const std::int64_t epoch = batch->epochs()[i];
      Numbers ids;
      for (const SampleId id : documents_of(*packed, batch->ids()[i], epoch)) ids.push_back(id.value);
      EXPECT_EQ(tokens[64 * i] >> 20, ids[0]);
      seen.at(static_cast<std::size_t>(epoch)).insert(ids.begin(), ids.end());
      different.insert(ids);
    }
  }
  for (const auto& documents : seen) {
    EXPECT_EQ(documents.size(), 300U);
    EXPECT_EQ(std::set(documents.begin(), documents.end()).size(), 300U);
  }
  EXPECT_GT(std::ssize(different), 2 * packed->size());
}

TEST(BestFit, DoesNotBeginWithTheLongestDocuments) {
  Numbers lengths(4000);
  std::iota(lengths.begin(), lengths.end(), 1);
  for (const bool shuffles : {true, false}) {
    const Packed packed = pack_best(lengths, {.length = 4000, .shuffle_documents = shuffles});
    std::int64_t sum = 0;
    for (std::int64_t s = 0; s < 100; ++s) sum += documents_of(*packed, {s})[0].value;
    EXPECT_NEAR(static_cast<double>(sum) / 100, 3000, 250);  // those of the first half begin sequences
  }
}

TEST(BestFit, FillsSequencesOfWebTextAndKeepsFourBytesADocument) {
  constexpr std::int64_t kDocuments = 1'000'000;
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> lengths(std::log(665), 1.0);
  Numbers all(kDocuments);
  for (auto& length : all) length = std::clamp<std::int64_t>(std::llround(lengths(random)), 1, 8192);
  const Documents documents(all);
  const ranks::Nodes nodes;
  const Lengths known = ask_lengths(documents, kDocuments, 1, {.task = "pack documents"}, nodes);
  EXPECT_EQ(known.most(), 8192);
  const BestFit fit(known, {.length = 2048, .seed = 1}, nodes);
  const std::int64_t tokens = std::accumulate(all.begin(), all.end(), std::int64_t{0});
  EXPECT_EQ(fit.counts().tokens, tokens);
  EXPECT_EQ(fit.counts().cut, std::ranges::count_if(all, [](std::int64_t length) { return length > 2048; }));
  EXPECT_GT(static_cast<double>(tokens) / static_cast<double>(fit.sequences() * 2048), 0.999);
  EXPECT_LE(std::ssize(fit.bytes()), 4 * kDocuments + 8 * fit.counts().cut);
}

TEST(BestFit, NeverChangesFromOneReleaseToTheNext) {
  const Packed packed = pack_best({5, 3, 3, 1, 9, 3, 1, 4, 0, 0, 1}, {.length = 6, .eos = -2, .seed = 7});
  std::vector<Numbers> ids;
  for (const std::int64_t epoch : {0, 1}) {
    for (const SampleId sequence : all_ids(*packed)) {
      ids.emplace_back();
      for (const SampleId id : documents_of(*packed, sequence, epoch)) ids.back().push_back(id.value);
    }
  }
  EXPECT_EQ(ids, (std::vector<Numbers>{{5, 9},
                                       {2, 10},
                                       {0},
                                       {4, 3},
                                       {4},
                                       {1, 6},
                                       {7, 8},
                                       {4, 9},
                                       {1, 3},
                                       {0},
                                       {2, 6},
                                       {4},
                                       {5, 10},
                                       {7, 8}}));
  EXPECT_EQ(to_string(packed->fingerprint()), "10da3ca2df47eefaf825dcb82b1e60f7");
}

TEST(BestFit, IsAnotherDatasetThanAnotherFitOrThatOfOtherLengths) {
  const SinkMessages quiet;
  const auto of = [](const Numbers& lengths, Fit fit, bool cut_longer = true) {
    return to_string(
        pack(std::make_shared<Documents>(lengths), {.length = 5, .fit = fit, .cut_longer = cut_longer})
            ->fingerprint());
  };
  const std::set<std::string> different{of({3, 4, 2}, Fit::best), of({3, 4, 2}, Fit::concat),
                                        of({4, 3, 2}, Fit::best), of({3, 4, 3}, Fit::best)};
  EXPECT_EQ(different.size(), 4U);
  EXPECT_EQ(of({3, 4, 2}, Fit::best, false), of({3, 4, 2}, Fit::best));
  const LoaderOptions options{.global_batch_size = 1};
  const auto documents = std::make_shared<Documents>(Numbers{3, 4, 2});
  Loader by_best(pack(documents, {.length = 5, .fit = Fit::best}), options);
  Loader by_concat(pack(documents, {.length = 5}), options);
  EXPECT_ERROR(restore(by_concat, state(by_best)), mismatch, {"fingerprint"});
}

TEST(BestFit, RefusesWhatIsLongerWhereItMayNotBeCut) {
  const auto documents = std::make_shared<Documents>(Numbers{3, 5, 9, 12});
  PackOptions options{.length = 9, .eos = 1, .fit = Fit::best, .cut_longer = false};
  EXPECT_ERROR(pack(documents, options), invalid_argument,
               {"document 2 takes 10 tokens", "has 9", "cut_longer"});
  options.length = 13;
  EXPECT_EQ(packing_of(*pack(documents, options)).cut, 0);
  options.fit = Fit::concat;
  EXPECT_ERROR(pack(documents, options), invalid_argument, {"cut_longer is false", "unless fit is best"});
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  EXPECT_ERROR(pack_best({kMost, 1}, {}), out_of_range, {"2^62 tokens"});
  const Packed one = pack_best({kMost - 3, 3}, {.length = 4});
  EXPECT_EQ(one->size(), kMost / 4);
}

TEST(BestFit, SaysHowFullSequencesAreAndTellsWhereTheyAreNot) {
  SinkMessages told;
  const auto facts_of = [](const Numbers& lengths, Fit fit) {
    const PackFacts facts =
        packing_of(*pack(std::make_shared<Documents>(lengths), {.length = 10, .fit = fit}));
    return std::tuple(facts.sequences, facts.documents, facts.cut, facts.tokens, facts.fill);
  };
  EXPECT_EQ(facts_of({0, 6, 4, 13, 7}, Fit::best), std::tuple(3, 4, 1, 30, 1.0));
  EXPECT_EQ(facts_of({}, Fit::best), std::tuple(0, 0, 0, 0, 1.0));
  EXPECT_EQ(facts_of({6, 1}, Fit::best), std::tuple(1, 2, 0, 7, 0.7));  // no message: less than a sequence
  EXPECT_EQ(facts_of(Numbers(10, 6), Fit::concat), std::tuple(6, 10, 4, 60, 1.0));
  EXPECT_THAT(told.lines, IsEmpty());
  EXPECT_EQ(facts_of(Numbers(10, 6), Fit::best), std::tuple(10, 10, 0, 60, 0.6));
  EXPECT_THAT(told.lines, ElementsAre(HasSubstr("fills 60.0 % of sequences of 10 tokens")));
  EXPECT_ERROR(packing_of(Documents({3})), invalid_argument, {"none of pack()"});
}

/// Documents of tokens, labels that are tokens + 1000, and weights that are half of them.
std::shared_ptr<ToldSource> labelled(const Numbers& tokens, const Numbers& labels) {
  const Fields fields{{.name = "weights", .dtype = DType::float32, .ragged = true},
                      {.name = "tokens", .dtype = DType::int32, .ragged = true},
                      {.name = "labels", .dtype = DType::int16, .ragged = true},
                      {.name = "id", .dtype = DType::int64},
                      {.name = "pairs", .dtype = DType::int8, .shape = {2}, .ragged = true}};
  const auto source = std::make_shared<ToldSource>(std::ssize(tokens), fields);
  source->reads_parts = true;
  source->rows_of = [=](SampleId id, std::size_t field) {
    return (field == 2 ? labels : tokens)[static_cast<std::size_t>(id.value)];
  };
  source->fill = [fields](SampleId id, std::size_t field, std::int64_t first, std::span<std::byte> to) {
    const std::size_t width = fields[field].row_bytes();
    for (std::size_t at = 0; at < to.size(); at += width, ++first) {
      const auto token = static_cast<std::int32_t>(10 * id.value + first);
      const std::int32_t value = field == 1   ? token
                                 : field == 2 ? token + 1000
                                              : std::bit_cast<std::int32_t>(static_cast<float>(token) / 2);
      std::memcpy(&to[at], &value, width);
    }
  };
  return source;
}

TEST(PackedFields, AreCutLikeTheTokensByEitherFit) {
  const SinkMessages quiet;
  const Numbers lengths{3, 7, 0, 9, 2, 4, 5};
  for (const Fit fit : {Fit::concat, Fit::best}) {
    const Packed packed = pack(labelled(lengths, lengths), {.length = 6,
                                                            .bos = -1,
                                                            .eos = -2,
                                                            .pad = -3,
                                                            .fit = fit,
                                                            .field = "tokens",
                                                            .fields = {{"weights", 0}, {"labels", -100}}});
    EXPECT_EQ(packed->fields()[3], (Field{"labels", DType::int16, {6}}));
    const Samples samples(*packed, all_ids(*packed));
    std::int64_t seen = 0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(packed->size()); ++s) {
      const auto tokens = samples.values<std::int32_t>(0, s);
      for (std::size_t k = 0; k < 6; ++k) {
        const bool is_added = tokens[k] < 0;
        seen += is_added ? 0 : 1;
        EXPECT_EQ(samples.values<std::int16_t>(3, s)[k], is_added ? -100 : tokens[k] + 1000);
        EXPECT_EQ(samples.values<float>(4, s)[k], is_added ? 0 : static_cast<float>(tokens[k]) / 2);
      }
    }
    EXPECT_EQ(seen, 30);
  }
}

TEST(PackedFields, AreRefusedWhereTheyHaveNoValueForEachToken) {
  const auto with = [](std::map<std::string, std::int64_t> fields, const Numbers& labels = {3, 7}) {
    return pack(labelled({3, 7}, labels), {.field = "tokens", .fields = std::move(fields)});
  };
  EXPECT_ERROR(with({{"labels", 0}}, {3, 8}), mismatch,
               {"document 1 has 7 tokens in field \"tokens\", and 8 in field \"labels\""});
  EXPECT_ERROR(with({{"label", 0}}), not_found, {"no field \"label\"", "\"labels\""});
  EXPECT_ERROR(with({{"tokens", 0}}), invalid_argument, {"\"tokens\" is that of the tokens"});
  EXPECT_ERROR(with({{"id", 0}}), invalid_argument, {"field \"id\" is not ragged"});
  EXPECT_ERROR(with({{"pairs", 0}}), invalid_argument, {"field \"pairs\" is not ragged, of scalars"});
  EXPECT_ERROR(with({{"labels", 40'000}}), invalid_argument, {"\"labels\" is 40000", "int16", "32767"});
  EXPECT_NE(with({{"labels", 0}})->fingerprint(), with({{"labels", 1}})->fingerprint());
  EXPECT_NE(with({})->fingerprint(), with({{"labels", 0}})->fingerprint());
}

}  // namespace rota::test::best_fit_test
