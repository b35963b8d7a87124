// Pairs of files as Megatron-LM writes them.

#include "formats/python.hpp"

namespace rota::test::megatron_test {

constexpr MegatronOptions kSequences{.sequence_is_sample = true};

class Megatron : public PythonTest {
 protected:
  Megatron() : PythonTest("from writers import joined, write_megatron as write\n") {}
  static auto opening(const fs::path& path, const MegatronOptions& options = {}) {
    return error_of([&] { open(path, options); });
  }
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

TEST_F(Megatron, APairIsFoundByItsCommonNameAndByEachOfItsFiles) {
  const auto documents = write("tell(*joined([[5], [3, 1]], write('a', 'uint16', 8, [[5], [3, 1]])))");
  const auto whole = open(directory_.path());
  const auto sequences = open(directory_.path(), kSequences);
  expect_samples(*whole, documents);
  for (const std::string name : {"a", "a.idx", "a.bin", "*.bin"}) {
    EXPECT_EQ(find_format(Catalog(directory_ / name)), "megatron") << name;
    EXPECT_EQ(open(directory_ / name)->fingerprint(), whole->fingerprint()) << name;
    EXPECT_EQ(open(directory_ / name, kSequences)->size(), sequences->size()) << name;
  }
  const TemporaryDirectory elsewhere;
  Catalog(directory_ / "a").save(elsewhere / "saved");
  expect_samples(*open(elsewhere / "saved"), documents);
}

TEST_F(Megatron, FilesThatAreNoPairAreNotTakenForOne) {
  write("write('a', 'uint16', 8, [[5]])");
  directory_.write("b.bin", "tokens");
  EXPECT_EQ(find_format(Catalog(directory_ / "b.bin")), "files");
  EXPECT_ERROR(open(directory_.path()), unsupported, {"a.idx", "\"megatron\""});
  directory_.write("b.idx", "another index, of other data than tokens");
  EXPECT_EQ(find_format(Catalog(directory_ / "b.bin")), "files");
  fs::remove(directory_ / "a.bin");
  EXPECT_ERROR(open(directory_ / "a.idx"), io, {"a.bin", "No such file"});
  EXPECT_ERROR(open(directory_ / "a"), not_found, {"check the path"});
  EXPECT_ERROR(open(directory_ / "b.*", "megatron"), corrupt, {"b.idx"});
}

TEST_F(Megatron, SamplesAreSequencesWhereTheseAreWanted) {
  const auto sequences = write(R"(
for name, documents in (('a', [[5], [], [0, 3, 1]]), ('b', [[7, 7]])):
    tell(*write(name, 'uint16', 8, documents))
)");
  ASSERT_THAT(sequences, SizeIs(6));
  expect_samples(*open(directory_.path(), kSequences), sequences);
}

TEST_F(Megatron, DocumentsOfAnySplitAreReadAsTheyWereBefore) {
  const auto documents = write(R"(
random.seed(1)
for name in 'abcdefghijklmnopqrst':
    documents = [[random.randrange(9) for _ in range(random.randrange(5))] for _ in range(random.randrange(30))]
    tell(*joined(documents, write(name, 'int32', 4, documents)))
)");
  const auto source = open(directory_.path(), "megatron");
  EXPECT_EQ(source->fields()[0].dtype, DType::int32);
  expect_samples(*source, documents);
}

// Not one end within a document.
TEST_F(Megatron, PackingPutsAnEndBehindEachDocumentAndNotBehindItsSequences) {
  write("write('a', 'uint16', 8, [[3, 2], [1], [4, 4]])");
  const auto documents = open(directory_.path(), "megatron");
  EXPECT_EQ(pack(documents, {.length = 17, .eos = 60'000})->size(), 1);
  EXPECT_EQ(pack(open(directory_.path(), kSequences), {.length = 17, .eos = 60'000})->size(), 2);
}

TEST_F(Megatron, ASavedCatalogAndFingerprintsKeepDocumentsAndSequencesApart) {
  const auto documents = write(kSplit);
  const TemporaryDirectory elsewhere;
  const Catalog catalog(directory_.path());
  const auto sequences = open(catalog, kSequences);
  catalog.save(elsewhere / "saved");
  expect_samples(*open(Catalog(elsewhere / "saved"), "megatron"), documents);
  EXPECT_EQ(open(Catalog(elsewhere / "saved"), kSequences)->size(), sequences->size());
  write("write('c', 'uint16', 8, [[5], [3]])");  // where each document is one sequence
  EXPECT_NE(open(directory_ / "c.idx", "megatron")->fingerprint(),
            open(directory_ / "c.idx", kSequences)->fingerprint());
}

TEST_F(Megatron, ModesOfMultimodalDataArePassedOver) {
  const auto documents = write("tell(*write('a', 'uint16', 8, [[5], [2]], modes=bytes([0, 1])))");
  expect_samples(*open(directory_.path(), "megatron"), documents);
}

TEST_F(Megatron, DocumentsThatWereSplitAnewAreIndexedAnew) {
  write("write('a', 'uint16', 8, [[5], [3]])");
  const TemporaryDirectory elsewhere;
  {
    const Catalog catalog(directory_.path());
    (void)open(catalog, "megatron");
    catalog.save(elsewhere / "saved");
  }
  // The tokens' file is as it was, as far as anybody can tell.
  const auto documents = write(R"(
before = os.stat('a.bin')
tell(*write('a', 'uint16', 8, [[2], [6]]))
os.utime('a.bin', ns=(before.st_atime_ns, before.st_mtime_ns))
)");
  expect_samples(*open(Catalog(elsewhere / "saved"), "megatron"), documents);
}

// Where it lies in the file: 34 bytes of head, and 12 of each sequence, go before it.
TEST_F(Megatron, ADocumentIndexThatDoesNotRiseFromNoneToAllIsDamage) {
  const auto script = [](const char* index) {
    return fmt::format("write('a', 'uint16', 8, [[5], [6], [7]], index={})", index);
  };
  std::vector<Refused> cases;
  for (const auto& [index, place, what] : std::vector<std::array<const char*, 3>>{
           {"[]", "byte 70", "no entry"},
           {"[1, 2, 3]", "byte 70", "begins with 1"},
           {"[-1, 2, 3]", "byte 70", "begins with -1"},
           {"[0, 2, 1, 3]", "byte 86", "falls from 2 to 1"},
           {"[0, 4, 3]", "byte 86", "falls from 4 to 3"},
           {"[0, 2]", "byte 78", "ends with 2, and there are 3 sequences"},
           {"[0, 1, 1 << 62]", "byte 86", "ends with 4611686018427387904"},
           {"[0]", "byte 70", "ends with 0"}}) {
    cases.push_back(Refused(script(index), corrupt, {"a.idx", place, what, "sequence_is_sample"}));
  }
  expect_refused(cases, [](const fs::path& path) {
    EXPECT_EQ(opening(path, kSequences), std::nullopt);
    open(path, "megatron");
  });
  write(script("[0, 0, 3, 3]"));
  EXPECT_EQ(opening(at("a.idx")), std::nullopt);
}

TEST_F(Megatron, SequencesOfADocumentThatLieApartCannotBeJoined) {
  write("write('a', 'uint16', 8, [[5], [2, 3], [1]], places=[10, 0, 14, 20])");
  EXPECT_THAT(opening(directory_.path()),
              is_error(unsupported, {at("a.idx"), "byte 66", "sequence 2", "(1)"}));
  EXPECT_EQ(opening(directory_.path(), kSequences), std::nullopt);
  write("write('a', 'uint16', 8, [[5], [2, 3], [1]], places=[10, 0, 4, 20])");
  EXPECT_EQ(opening(directory_.path()), std::nullopt);
}

TEST_F(Megatron, AnIndexThatIsDamagedIsNamed) {
  const std::string good = "write('a', 'uint16', 8, [[5]])\n";
  expect_refused(
      {Refused(good + "os.truncate('a.bin', 8)", corrupt, {"a.idx", "byte 38", "5 tokens", "8 bytes"}),
       Refused(good + "os.truncate('a.idx', 44)", corrupt, {"a.idx", "byte 18", "1 sequences"}),
       Refused(good + "os.truncate('a.idx', 54)", corrupt, {"a.idx", "byte 26", "2 entries", "8 bytes"}),
       Refused("write('a', 'uint16', 8, [[5, 5]], modes=b'x')", corrupt,
               {"a.idx", "byte 74", "1 bytes", "2 sequences"}),
       Refused("write('a', 'uint16', 99, [[5]])", corrupt, {"byte 17", "type 99"}),
       Refused("write('a', 'uint16', 8, [[5]], 2)", unsupported, {"version 2"}),
       Refused(good + "open('a.idx', 'wb').write(b'x' * 50)", corrupt, {"no index"}),
       Refused(good + "os.remove('a.bin')", io, {"a.bin"})},
      [](const fs::path& path) { open(path, "megatron"); });
}

}  // namespace rota::test::megatron_test
