// Pairs of files as Megatron-LM writes them.

#include "formats/megatron_writer.hpp"
#include "formats/python.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::megatron_test {

constexpr MegatronOptions kSequences{.sequence_is_sample = true};

class Megatron : public testing::Test {
 protected:
  auto write(const std::string& script) { return python(directory_, kMegatronWriter + script); }
  [[nodiscard]] std::string at(std::string_view name) const { return (directory_ / name).string(); }
  [[nodiscard]] auto opening(const MegatronOptions& options = {}) const {
    return error_of([&] { open_megatron(directory_.path(), options); });
  }
  // What is said of a document index of these numbers, of three sequences.
  auto with_index(const std::string& numbers) {
    write(fmt::format("write('a', 'uint16', 8, [[5], [6], [7]], index={})", numbers));
    return opening();
  }

  // Each sample of `source` is what was told.
  static void expect_samples(const Source& source, const std::vector<std::string>& expected) {
    ASSERT_EQ(source.size(), std::ssize(expected));
    std::mt19937_64 random(1);
    for (const Ids& wanted : {all_ids(source), random_ids(source, 2 * expected.size(), random)}) {
      const Samples samples(source, wanted);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_EQ(samples.sample(0, i), expected[static_cast<std::size_t>(wanted[i].value)]) << i;
      }
    }
  }

  TemporaryDirectory directory_;
};

constexpr const char* kSplit = R"(
for name, documents in (('a', [[5], [], [0, 3, 1], [300, 2], [], [0]]), ('b', []), ('c', [[], [7, 7]])):
    tell(*joined(documents, write(name, 'uint16', 8, documents)))
)";

TEST_F(Megatron, SamplesAreDocumentsHoweverManySequencesTheyHave) {
  const auto documents = write(kSplit);
  ASSERT_THAT(documents, SizeIs(8));
  const auto source = open(directory_.path(), "megatron");
  EXPECT_THAT(source->fields(), ElementsAre(Field{"tokens", DType::uint16, {}, true}));
  expect_samples(*source, documents);
  EXPECT_EQ(source->where({2}), at("a.bin") + ", record 2 at byte 10");
  EXPECT_EQ(source->where({6}), at("c.bin") + ", record 0 at byte 0");
}

TEST_F(Megatron, SamplesAreSequencesWhereTheseAreWanted) {
  const auto sequences = write(R"(
for name, documents in (('a', [[5], [], [0, 3, 1]]), ('b', [[7, 7]])):
    tell(*write(name, 'uint16', 8, documents))
)");
  ASSERT_THAT(sequences, SizeIs(6));
  expect_samples(*open_megatron(directory_.path(), kSequences), sequences);
}

TEST_F(Megatron, DocumentsOfAnySplitAreReadAsTheyWereBefore) {
  const auto documents = write(R"(
random.seed(1)
for name in 'abcdefghijklmnopqrst':
    documents = [[random.randrange(9) for _ in range(random.randrange(5))] for _ in range(random.randrange(30))]
    tell(*joined(documents, write(name, 'int32', 4, documents)))
)");
  expect_samples(*open_megatron(directory_.path()), documents);
}

// Not one end within a document.
TEST_F(Megatron, PackingPutsAnEndBehindEachDocumentAndNotBehindItsSequences) {
  write("write('a', 'uint16', 8, [[3, 2], [1], [4, 4]])");
  const auto documents = open_megatron(directory_.path());
  EXPECT_EQ(pack(documents, {.length = 17, .eos = 60'000})->size(), 1);
  EXPECT_EQ(pack(open_megatron(directory_.path(), kSequences), {.length = 17, .eos = 60'000})->size(), 2);
}

// Here each document is one sequence.
TEST_F(Megatron, FingerprintsTellDocumentsFromSequences) {
  write("write('a', 'uint16', 8, [[5], [3]])");
  EXPECT_NE(open_megatron(directory_.path())->fingerprint(),
            open_megatron(directory_.path(), kSequences)->fingerprint());
}

TEST_F(Megatron, ASavedCatalogKeepsDocumentsAndSequencesApart) {
  const auto documents = write(kSplit);
  const TemporaryDirectory elsewhere;
  const Catalog catalog(directory_.path());
  const auto sequences = open_megatron(catalog, kSequences);
  catalog.save(elsewhere / "saved");
  expect_samples(*open_megatron(Catalog(elsewhere / "saved")), documents);
  EXPECT_EQ(open_megatron(Catalog(elsewhere / "saved"), kSequences)->size(), sequences->size());
}

TEST_F(Megatron, HaveTheTypeThatTheIndexSays) {
  const auto documents = write("tell(*write('a', 'int32', 4, [[5], [2]]))");
  const auto source = open_megatron(at("a.idx"));
  EXPECT_EQ(source->fields()[0].dtype, DType::int32);
  expect_samples(*source, documents);
}

TEST_F(Megatron, ModesOfMultimodalDataArePassedOver) {
  const auto documents = write("tell(*write('a', 'uint16', 8, [[5], [2]], modes=bytes([0, 1])))");
  expect_samples(*open_megatron(directory_.path()), documents);
}

TEST_F(Megatron, DocumentsThatWereSplitAnewAreIndexedAnew) {
  write("write('a', 'uint16', 8, [[5], [3]])");
  const TemporaryDirectory elsewhere;
  {
    const Catalog catalog(directory_.path());
    (void)open_megatron(catalog);
    catalog.save(elsewhere / "saved");
  }
  // The tokens' file is as it was, as far as anybody can tell.
  const auto documents = write(R"(
before = os.stat('a.bin')
tell(*write('a', 'uint16', 8, [[2], [6]]))
os.utime('a.bin', ns=(before.st_atime_ns, before.st_mtime_ns))
)");
  expect_samples(*open_megatron(Catalog(elsewhere / "saved")), documents);
}

// Where it lies in the file: 34 bytes of head, and 12 of each sequence, go before it.
TEST_F(Megatron, ADocumentIndexThatDoesNotRiseFromNoneToAllIsDamage) {
  const auto damaged = [&](const std::string& place, const std::string& what) {
    return is_error(ErrorCode::corrupt, {at("a.idx"), place, what, "sequence_is_sample"});
  };
  EXPECT_THAT(with_index("[]"), damaged("byte 70", "no entry"));
  EXPECT_THAT(with_index("[1, 2, 3]"), damaged("byte 70", "begins with 1"));
  EXPECT_THAT(with_index("[-1, 2, 3]"), damaged("byte 70", "begins with -1"));
  EXPECT_THAT(with_index("[0, 2, 1, 3]"), damaged("byte 86", "falls from 2 to 1"));
  EXPECT_THAT(with_index("[0, 4, 3]"), damaged("byte 86", "falls from 4 to 3"));
  EXPECT_THAT(with_index("[0, 2]"), damaged("byte 78", "ends with 2, and there are 3 sequences"));
  EXPECT_THAT(with_index("[0, 1, 1 << 62]"), damaged("byte 86", "ends with 4611686018427387904"));
  EXPECT_THAT(with_index("[0]"), damaged("byte 70", "ends with 0"));
  EXPECT_EQ(opening(kSequences), std::nullopt);
  EXPECT_EQ(with_index("[0, 0, 3, 3]"), std::nullopt);
}

TEST_F(Megatron, SequencesOfADocumentThatLieApartCannotBeJoined) {
  write("write('a', 'uint16', 8, [[5], [2, 3], [1]], places=[10, 0, 14, 20])");
  EXPECT_THAT(opening(), is_error(ErrorCode::unsupported, {at("a.idx"), "byte 66", "sequence 2", "(1)"}));
  EXPECT_EQ(opening(kSequences), std::nullopt);
  write("write('a', 'uint16', 8, [[5], [2, 3], [1]], places=[10, 0, 4, 20])");
  EXPECT_EQ(opening(), std::nullopt);
}

TEST_F(Megatron, AnIndexThatIsDamagedIsNamed) {
  const auto damaged = [&](const std::string& script) {
    write(script);
    return opening();
  };
  EXPECT_THAT(damaged("write('a', 'uint16', 8, [[5]]); os.truncate('a.bin', 8)"),
              is_error(ErrorCode::corrupt, {at("a.idx"), "byte 38", "5 tokens", "8 bytes"}));
  EXPECT_THAT(damaged("write('a', 'uint16', 8, [[5]]); os.truncate('a.idx', 44)"),
              is_error(ErrorCode::corrupt, {at("a.idx"), "byte 18", "1 sequences"}));
  EXPECT_THAT(damaged("write('a', 'uint16', 8, [[5]]); os.truncate('a.idx', 54)"),
              is_error(ErrorCode::corrupt, {at("a.idx"), "byte 26", "2 entries", "8 bytes"}));
  EXPECT_THAT(damaged("write('a', 'uint16', 8, [[5, 5]], modes=b'x')"),
              is_error(ErrorCode::corrupt, {at("a.idx"), "byte 74", "1 bytes", "2 sequences"}));
  EXPECT_THAT(damaged("write('a', 'uint16', 99, [[5]])"),
              is_error(ErrorCode::corrupt, {"byte 17", "type 99"}));
  EXPECT_THAT(damaged("write('a', 'uint16', 8, [[5]], 2)"), is_error(ErrorCode::unsupported, {"version 2"}));
  EXPECT_THAT(damaged("open('a.idx', 'wb').write(b'x' * 50)"), is_error(ErrorCode::corrupt, {"no index"}));
  EXPECT_THAT(damaged("write('a', 'uint16', 8, [[5]]); os.remove('a.bin')"),
              is_error(ErrorCode::io, {at("a.bin")}));
}

}  // namespace rota::test::megatron_test
