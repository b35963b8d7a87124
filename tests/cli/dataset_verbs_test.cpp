// `rota ls`, `rota index` and `rota head`, as a user calls them.

#include "cli/programs.hpp"
#include "irregular_file.hpp"

namespace rota::test::dataset_verbs_test {

class DatasetVerb : public ProgramTest {
 protected:
  /// The names in the one tar file there, whose members have a block each.
  std::vector<std::string> names_in(const std::string& shards) const {
    const std::string bytes = read_file(fs::directory_iterator(path(shards))->path());
    std::vector<std::string> names;
    for (std::size_t at = 0; bytes[at] != '\0'; at += 1024) names.emplace_back(bytes.c_str() + at);
    return names;
  }
  /// Files of lines: as many in file i as its number says.
  void make_lines(int files) const {
    for (int i = 0; i < files; ++i) {
      std::string text;
      for (int line = 0; line < i; ++line) text += fmt::format("line {}\n", line);
      write(fmt::format("data/{}.jsonl", i), text);
    }
  }
};

// ---- ls ----

TEST_F(DatasetVerb, LsCountsFilesAndBytesAndListsTheFirst) {
  for (int i = 0; i < 12; ++i) write("data/" + std::to_string(100 + i), std::string(1000, 'x'));
  expect_says("ls data", 0,
              AllOf(HasSubstr("data: 12 files, 11.7 KiB (12,000 bytes)\n"),
                    HasSubstr("changes      detected by name and size"), HasSubstr("fingerprint"),
                    HasSubstr("1,000  data/109\n  and 2 more\n"), Not(HasSubstr("data/110"))));
  EXPECT_THAT(rota("ls 'data/1*' --limit 11").output, HasSubstr("data/110\n  and 1 more\n"));
  EXPECT_THAT(rota("ls data --limit 0").output, AllOf(HasSubstr("data/111\n"), Not(HasSubstr("more"))));
}

TEST_F(DatasetVerb, LsByNamesAsksNoFileForItsSize) {
  write("data/a", "hello");
  expect_says("ls data --names", 0,
              AllOf(HasSubstr("data: 1 file\n"), HasSubstr("changes      detected by name\n"),
                    HasSubstr("\n  data/a\n"), Not(HasSubstr("byte"))));
}

TEST_F(DatasetVerb, LsPutsEachNameOnOneLineWhateverIsInIt) {
  write("data/a\nb", "");
  write("data/c\xff\x1b[31m", "");
  write("data/größe", "");
  const std::string output = rota("ls data").output;
  EXPECT_THAT(output, AllOf(HasSubstr("0  data/a\\nb\n"), HasSubstr("0  data/c\\xff\\x1b[31m\n"),
                            HasSubstr("0  data/größe\n")));
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 8);
}

TEST_F(DatasetVerb, LsOfAManifestKeepsItsOrder) {
  make_lines(3);
  write("list.txt", "data/2.jsonl\ndata/0.jsonl\n");
  EXPECT_THAT(rota("ls list.txt --manifest").output,
              AllOf(HasSubstr("2 files"), ContainsRegex("data/2.jsonl\n.*data/0.jsonl\n")));
  EXPECT_THAT(rota("ls list.txt").output, HasSubstr("list.txt: 1 file"));
}

// As the error says.
TEST_F(DatasetVerb, IndexTakesThePlaceOfADamagedCatalog) {
  make_lines(3);
  write("x.rota", "");
  expect_says("ls x.rota", 1, HasSubstr("rota index --force"));
  expect_says("index data -o x.rota", 1, HasSubstr("use --force"));
  expect_says("index data -o x.rota --force", 0, HasSubstr("3 files"));
  EXPECT_THAT(rota("ls x.rota").output, HasSubstr("catalog of "));
  fs::resize_file(path("x.rota"), fs::file_size(path("x.rota")) - 8);
  expect_says("index data -o x.rota", 1, AllOf(HasSubstr("damaged or cut short"), HasSubstr("--force")));
  EXPECT_EQ(rota("index data -o x.rota --force").code, 0);
}

TEST_F(DatasetVerb, LsSaysWhatHdf5FilesHoldAndWhatIsLeftOut) {
  const Ended python =
      run("/usr/bin/python3 -c \"import h5py\nwith h5py.File('a.h5', 'w') as f: f['x'], f['text'] = [1., "
          "2.], ['a', 'b']\n"
          "with h5py.File('b.h5', 'w') as f: f.create_dataset('x', (2,), chunks=(1,))\"");
  ASSERT_EQ(python.code, 0) << python.output;
  EXPECT_THAT(rota("ls a.h5").output,
              AllOf(HasSubstr("as hdf5      2 samples"), HasSubstr("fields       \"x\" float64[]"),
                    HasSubstr("note         open a.h5: left out \"/text\" (text)")));
  EXPECT_THAT(rota("ls b.h5").output, HasSubstr("2 of 2 chunks were never written"));
  write("c.h5", "nothing of the kind");
  expect_says("ls c.h5", 0,
              AllOf(HasSubstr("c.h5: 1 file"), HasSubstr("note "), HasSubstr("not an HDF5 file")));
}

TEST_F(DatasetVerb, LsWithAFormatOpensTheDataset) {
  make_lines(4);
  EXPECT_THAT(rota("ls data --format auto").output, HasSubstr("as lines     6 samples, fingerprint "));
  EXPECT_THAT(rota("ls data --format files").output, HasSubstr("as files     4 samples, fingerprint "));
  EXPECT_THAT(rota("ls data").output, Not(HasSubstr("samples")));
}

TEST_F(DatasetVerb, LsOfASavedCatalogTellsWhatHasChangedSince) {
  make_lines(4);
  ASSERT_EQ(rota("index data -o saved").code, 0);
  EXPECT_THAT(rota("ls saved").output, AllOf(HasSubstr("catalog of   " + path("data") + "\n"),
                                             HasSubstr("since then   nothing\n"), HasSubstr("4 files")));
  write("data/3.jsonl", "other\n");
  write("data/9\n.jsonl", "new\n");
  fs::remove(path("data/1.jsonl"));
  EXPECT_THAT(rota("ls saved").output,
              HasSubstr("since then   1 changed, 1 vanished, 1 appeared, among them 3.jsonl\n"));
}

TEST_F(DatasetVerb, NeedsAllItsWordsAndAFormatThatThereIs) {
  for (const std::string usage : {"ls", "head", "index data", "head data --format zarr"}) {
    EXPECT_EQ(rota(usage).code, 2) << usage;
  }
}

// ---- index ----

TEST_F(DatasetVerb, IndexLooksIntoAllFilesAndSavesTheCatalog) {
  make_lines(4);
  expect_says("index data -o saved --threads 2", 0,
              AllOf(HasSubstr("saved: the catalog of " + path("data")), HasSubstr("format       lines\n"),
                    HasSubstr("files        4\n"), HasSubstr("samples      6\n"),
                    HasSubstr("looked into  4 of 4 files\n"), HasSubstr("bytes on disk"),
                    Not(HasSubstr("since then"))));
  EXPECT_THAT(rota("head saved -n 0").output, HasSubstr("saved: 6 samples"));
}

TEST_F(DatasetVerb, IndexAgainLooksOnlyIntoWhatHasChanged) {
  make_lines(4);
  ASSERT_EQ(rota("index data -o saved").code, 0);
  EXPECT_THAT(rota("index ./data/ -o saved").output,
              AllOf(HasSubstr("since then   nothing\n"), HasSubstr("looked into  0 of 4 files\n")));
  write("data/3.jsonl", "other\n");
  write("data/9.jsonl", "new\n");
  fs::remove(path("data/1.jsonl"));
  EXPECT_THAT(rota("index data -o saved").output,
              AllOf(HasSubstr("since then   1 changed, 1 vanished, 1 appeared, among them "),
                    HasSubstr("samples      4\n"), HasSubstr("looked into  2 of 4 files\n")));
  EXPECT_THAT(rota("index saved -o saved").output,
              AllOf(HasSubstr("since then   nothing\n"), HasSubstr("looked into  0 of 4 files\n")));
}

TEST_F(DatasetVerb, IndexTakesTheSameFilesToBeOtherDatasetsByAnotherWay) {
  make_lines(3);
  write("list.txt", "data/2.jsonl\n");
  ASSERT_EQ(rota("index list.txt --manifest -o saved").code, 0);
  EXPECT_THAT(rota("index list.txt --manifest -o saved").output, HasSubstr("looked into  0 of 1 file\n"));
  EXPECT_EQ(rota("index list.txt -o saved").code, 1);
}

TEST_F(DatasetVerb, IndexTakesThePlaceOfAnotherFileOnlyByForce) {
  make_lines(3);
  write("other/x.jsonl", "x\n");
  ASSERT_EQ(rota("index other -o saved").code, 0);
  expect_says("index data -o saved", 1,
              AllOf(HasSubstr("catalog of " + path("other")), HasSubstr(path("data")), HasSubstr("--force")));
  fs::remove_all(path("other"));  // which does not matter
  EXPECT_EQ(rota("index data -o saved --force").code, 0);
  write("notes", "mine");
  expect_says("index data -o notes", 1, HasSubstr("no saved catalog"));
  EXPECT_EQ(rota("index data -o notes --force").code, 0);
}

TEST_F(DatasetVerb, IndexNeverBecomesAFileOfTheDataset) {
  make_lines(3);
  for (const std::string arguments :
       {"data -o data/saved", "'data/*' -o data/saved", "data -o data", "data/1.jsonl -o data/1.jsonl",
        "data/1.jsonl -o data/../data/1.jsonl"}) {
    expect_says("index --force " + arguments, 1, HasSubstr("it would be one of the dataset's files"));
  }
  EXPECT_EQ(rota("index 'data/*.jsonl' -o data/saved").code, 0);
}

TEST_F(DatasetVerb, IndexNeverReplacesWhatIsNoRegularFile) {
  make_lines(3);
  write("kept", "mine");
  for (const IrregularKind& kind : irregular_kinds()) {
    kind.make(dir_ / kind.name);
    const auto before = fs::symlink_status(dir_ / kind.name).type();
    expect_says("index data --force -o '" + kind.name + "'", 1, HasSubstr("name another"));
    EXPECT_EQ(fs::symlink_status(dir_ / kind.name).type(), before) << kind.name;
  }
  fs::create_symlink("kept", dir_ / "link");
  EXPECT_THAT(rota("index data --force -o link").output, HasSubstr("a symbolic link is there"));
  EXPECT_TRUE(fs::is_symlink(dir_ / "link"));
}

TEST_F(DatasetVerb, IndexCountsAFileOnceHoweverManyArraysAreInIt) {
  write("make.py", R"(import numpy
for i in range(3): numpy.savez(f'{i}.npz', a=numpy.zeros(4), b=numpy.ones(4)))");
  ASSERT_EQ(run(ROTA_TEST_PYTHON " make.py").code, 0);
  EXPECT_THAT(rota("index '*.npz' --format npz -o saved").output, HasSubstr("looked into  3 of 3 files"));
}

TEST_F(DatasetVerb, IndexThatFailsLeavesTheCatalogAsItWas) {
  make_lines(3);
  ASSERT_EQ(rota("index data -o saved").code, 0);
  const auto before = fs::last_write_time(path("saved"));
  expect_says("index data -o saved --format tar", 1, AllOf(HasSubstr("error: "), HasSubstr(".jsonl")));
  EXPECT_EQ(fs::last_write_time(path("saved")), before);
}

// ---- head ----

TEST_F(DatasetVerb, HeadShowsFieldsAndTheFirstSamples) {
  make_lines(4);
  expect_says(
      "head data -n 2", 0,
      AllOf(HasSubstr("data: 6 samples, fingerprint "), ContainsRegex("text +uint8 +\\[\\*\\] +ragged"),
            HasSubstr("sample 0: data/1.jsonl, record 0 at byte 0\n"
                      "  text  [6], 6 bytes: \"line 0\"\n"),
            HasSubstr("sample 1: data/2.jsonl"), Not(HasSubstr("sample 2"))));
  EXPECT_THAT(rota("head data -n 99").output, AllOf(HasSubstr("sample 5"), Not(HasSubstr("sample 6"))));
}

TEST_F(DatasetVerb, HeadShowsNumbersOfFixedFields) {
  write("tokens.bin", std::string(4096, '\1') + std::string(4096, '\2'));
  expect_says(
      "head tokens.bin --format tokens -n 2", 0,
      AllOf(ContainsRegex("tokens +uint16 +\\[2048\\] +fixed"),
            HasSubstr("[2048], 4,096 bytes: 257 257 257 257 257 257 257 257 ...\n"), HasSubstr("514 514")));
}

TEST_F(DatasetVerb, HeadShowsBytesThatAreNoText) {
  write("a.bin", std::string("\x00\x01\xff", 3));
  EXPECT_THAT(rota("head a.bin").output, HasSubstr("data  [3], 3 bytes: 00 01 ff\n"));
}

// ---- speed ----

const std::string kFigures =
    " +[1-9][0-9,]* +[0-9.]+ ([KMG]iB|bytes)/s +[1-9][0-9,]* +[0-9.]+ ([KMG]iB|bytes)/s";

TEST_F(DatasetVerb, SpeedReadsCompressedFilesInTheOrderThatTheyAllow) {
  make_lines(5);
  ASSERT_EQ(run("cd data && gzip *").code, 0);
  expect_says("speed data --seconds 1 --workers 1 --format lines", 0,
              AllOf(ContainsRegex("none +cached +1" + kFigures),
                    ContainsRegex("within +cached +1" + kFigures), Not(HasSubstr("direct"))));
}

class DatasetVerbCampaign : public DatasetVerb {};  // a second for each way

TEST_F(DatasetVerbCampaign, SpeedTellsEachWay) {
  make_lines(20);
  const Ended ended = rota("speed data --seconds 1 --batch 7 --workers 3");
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, AllOf(HasSubstr("data: 190 samples, batches of 7\n"),
                                  ContainsRegex("none +cached +1" + kFigures)));
  for (const std::string access : {"cached", "direct", "mapped"}) {
    for (const std::string workers : {"1", "3"}) {
      EXPECT_THAT(ended.output, ContainsRegex(fmt::format("global +{} +{}{}", access, workers, kFigures)));
    }
  }
}

TEST_F(DatasetVerbCampaign, SpeedSaysOnceWhatIsLeftOut) {
  ASSERT_EQ(run("/usr/bin/python3 -c \"import h5py\nwith h5py.File('a.h5', 'w') as f: f['x'], f['t'] = [1.], "
                "['a']\"")
                .code,
            0);
  const std::string text = rota("speed a.h5 --seconds 1 --workers 1").output;
  EXPECT_EQ(text.find("left out"), text.rfind("left out")) << text;
}

TEST_F(DatasetVerb, SpeedRefusesADatasetWithoutSamples) {
  write("data/a.txt", "");
  expect_says("speed data --format lines", 1, HasSubstr("data: it has no samples"));
}

TEST_F(DatasetVerb, SaysWhereASavedCatalogExpectsDataThatHasMoved) {
  make_lines(3);
  ASSERT_EQ(rota("index data -o saved").code, 0);
  fs::rename(path("data"), path("moved"));
  for (const std::string verb : {"ls", "head", "index -o other"}) {
    expect_says(verb + " saved", 1,
                AllOf(StartsWith("error: open " + path("data") + ": No such file"),
                      HasSubstr("the saved catalog saved holds absolute paths"), HasSubstr("rota index")));
  }
  EXPECT_EQ(rota("index moved -o saved --force").code, 0);
  EXPECT_EQ(rota("head saved").code, 0);
}

// ---- shard ----

TEST_F(DatasetVerb, ShardIsDoneByProcessesThatKnowNothingOfOneAnother) {
  make_lines(20);
  const std::string write = "shard data --format lines -o shards --shard-bytes 20000";
  ::setenv("WORLD_SIZE", "2", 1);
  for (const std::string rank : {"1", "0"}) {
    ::setenv("RANK", rank.c_str(), 1);
    const Ended ended = rota(write);
    EXPECT_EQ(ended.code, 0) << ended.output;
    const bool is_last = rank == "0";
    EXPECT_EQ(ended.output.empty(), !is_last) << ended.output;
    EXPECT_THAT(ended.output, Not(HasSubstr("not complete")));
    expect_says("head shards -n 1", is_last ? 0 : 1,
                HasSubstr(is_last ? "shards: 190 samples" : "unfinished.tar"));
  }
  ::unsetenv("WORLD_SIZE");
  ::unsetenv("RANK");
  expect_says(write, 0, HasSubstr("written  0"));
  expect_says("shard data -o shards --to mds", 1, HasSubstr("of other options"));
}

TEST_F(DatasetVerb, ShardKeepsNamesAndShufflesAndTakesNoPlaceInItsDataset) {
  for (int i = 0; i < 40; ++i) write(fmt::format("data/{}/{:02}.jpg", i < 20 ? "cat" : "dog", i), "x");
  ASSERT_EQ(rota("shard data -o sorted").code, 0);
  EXPECT_THAT(rota("head sorted -n 1").output, HasSubstr("jpg"));
  ASSERT_EQ(rota("shard data -o numbered --numbered").code, 0);
  EXPECT_THAT(rota("head numbered -n 1").output, AllOf(HasSubstr("data"), Not(HasSubstr("jpg"))));
  ASSERT_EQ(rota("shard data -o shuffled --shuffle 1").code, 0);
  EXPECT_THAT(names_in("shuffled"), Not(Eq(names_in("sorted"))));
  EXPECT_THAT(names_in("shuffled"), UnorderedElementsAreArray(names_in("sorted")));
  expect_says("shard data -o more --shuffle -1", 2, HasSubstr("--shuffle"));
  ASSERT_EQ(rota("shard data -o most --shuffle 18446744073709551615").code, 0);
  expect_says("shard data -o data/shards", 1, HasSubstr("it would be one of the dataset's files"));
  EXPECT_FALSE(fs::exists(path("data/shards")));
}

TEST_F(DatasetVerb, ShardNumbersWhatItCannotName) {
  for (const std::string name : {"a.jpg", "a.txt", "README"}) write("data/" + name, name);
  expect_says("shard data -o shards", 0, HasSubstr("samples are named by number: "));
  expect_says("head shards", 0, HasSubstr("shards: 3 samples"));
}

TEST_F(DatasetVerb, HeadNamesTheWorkingDirectory) {
  for (const std::string name : {"rows.jsonl", "rows.csv"}) write(name, "1\n");
  expect_says("head 'rows.*'", 1, HasSubstr("open .: rows.jsonl is named as lines"));
}

TEST_F(DatasetVerb, HeadShowsSamplesFromAnyOn) {
  make_lines(4);
  expect_says("head data --at 4 -n 1", 0, AllOf(HasSubstr("sample 4: "), Not(HasSubstr("sample 5"))));
  expect_says("head data --at 6", 1, HasSubstr("6"));
}

}  // namespace rota::test::dataset_verbs_test
