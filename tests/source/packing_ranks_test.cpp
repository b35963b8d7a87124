// Ranks that pack together get what one process alone would, and keep it once on each node.

#include "mapped_file.hpp"
#include "ranks/collectives.hpp"
#include "ranks_main.hpp"
#include "source/best_fit.hpp"
#include "source/document_stream.hpp"
#include "source/documents.hpp"
#include "source/reading.hpp"

namespace rota::test::packing_ranks_test {

const Communicator& comm() { return everyone(); }

Numbers some_lengths(std::uint64_t seed, std::int64_t most) {
  std::mt19937_64 random(seed);
  return random_lengths(random, most, 16);
}

/// Bytes of all fields of all samples.
std::string contents(const Source& source) {
  const Samples samples(source, all_ids(source));
  std::string text;
  for (std::size_t i = 0; i < static_cast<std::size_t>(source.size()); ++i) {
    for (std::size_t f = 0; f < source.fields().size(); ++f) text += samples.sample(f, i);
  }
  return text;
}

TEST(PackingTogether, MakesWhatOneProcessMakes) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const auto documents = std::make_shared<Documents>(some_lengths(seed, seed < 10 ? 5 : 200));
    PackOptions options{.length = 16,
                        .eos = 5,
                        .fit = seed % 2 == 0 ? Fit::concat : Fit::best,
                        .seed = seed,
                        .shuffle_documents = seed % 3 != 0};
    const auto alone = pack(documents, options);
    const auto together = pack(comm(), documents, options);
    EXPECT_EQ(together->fingerprint(), alone->fingerprint());
    EXPECT_EQ(together->size(), alone->size());
    EXPECT_EQ(contents(*together), contents(*alone));
  }
}

TEST(PackingTogether, AsksForEachLengthOnceAndKeepsOneCopyForTheRanksOfANode) {
  std::atomic<std::int64_t> mine = 0;
  Documents documents(Numbers(50'000, 3));
  documents.on_rows = [&](SampleId) { ++mine; };
  const ranks::Nodes nodes(comm().duplicate());
  const Lengths lengths =
      ask_lengths(documents, documents.size(), 1, {.task = "pack documents", .threads = 3}, nodes);
  const DocumentStream stream(lengths, {.seed = 1, .threads = 3}, nodes);
  EXPECT_EQ(stream.bytes().size(), 400'000U);
  EXPECT_EQ(stream.tokens(), 150'000);
  std::int64_t asked = mine;
  comm().sum(std::span(&asked, 1));
  EXPECT_EQ(asked, 50'000);
  if (comm().size() == 1) GTEST_SKIP() << "one rank has no others";
  const std::string file = file_behind(stream.bytes().data());
  EXPECT_FALSE(file.empty());
  EXPECT_EQ(ranks::broadcast(comm(), file), file);
}

TEST(PackingTogether, FitsTheSameOnAnyNodes) {
  const Documents documents(some_lengths(7, 300));
  const auto ids_of = [&](const ranks::Nodes& nodes) {
    const Lengths lengths = ask_lengths(documents, documents.size(), 1, {.task = "pack documents"}, nodes);
    const BestFit fit(lengths, {.length = 16, .seed = 3}, nodes);
    Numbers ids{static_cast<std::int64_t>(lengths.digest().low)};
    for (std::int64_t s = 0; s < fit.sequences(); ++s) {
      fit.visit(s, 2, [&](const DocumentPiece& piece) { ids.push_back(piece.document.value); });
    }
    EXPECT_LE(std::ssize(fit.bytes()), 4 * documents.size() + 8 * fit.sequences());
    return ids;
  };
  const Numbers alone = ids_of(ranks::Nodes());
  for (const int ranks_per_node : {0, 1, 2}) {
    EXPECT_EQ(ids_of(ranks::Nodes(comm().duplicate(), ranks_per_node)), alone) << ranks_per_node;
  }
}

TEST(PackingTogether, ThrowsOnAllRanksWhatIsThrownOnOne) {
  const auto torn = std::make_shared<Documents>(Numbers(10'000, 1));
  torn->on_rows = [](SampleId id) {
    if (id.value == 77) throw Error(io, "page 77 is torn");
  };
  EXPECT_ERROR(pack(comm(), torn, {}), io, {"page 77 is torn"});
  const bool is_last = comm().rank() == comm().size() - 1;
  const auto documents = std::make_shared<Documents>(some_lengths(3, 50));
  EXPECT_ERROR(pack(comm(), is_last ? nullptr : documents, {}), invalid_argument, {"null"});
  EXPECT_ERROR(pack(comm(), documents, {.length = is_last ? 0 : 5}), invalid_argument, {"length is 0"});
  if (comm().size() == 1) GTEST_SKIP() << "one rank has no others";
  EXPECT_ERROR(pack(comm(), documents, {.length = is_last ? 6 : 5}), mismatch,
               {"documents and options with fingerprint"});
}

TEST(DrawingTogether, DrawsWhatOneProcessDrawsOnMoreRanksThanThereAreSamples) {
  for (const std::int64_t samples : {1, 2, 3, 40}) {
    std::vector<double> weights;
    for (std::int64_t i = 0; i < samples; ++i) weights.push_back(static_cast<double>(1 + i % 3));
    const auto source = std::make_shared<Documents>(Numbers(static_cast<std::size_t>(samples), 3));
    const auto alone = weighted(source, weights, 60, 4);
    const auto together = weighted(comm(), source, weights, 60, 4);
    EXPECT_EQ(together->fingerprint(), alone->fingerprint());
    for (const SampleId id : all_ids(*alone)) EXPECT_EQ(drawn(*together, id, 3), drawn(*alone, id, 3));
  }
}

}  // namespace rota::test::packing_ranks_test
