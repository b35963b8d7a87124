#include "formats/python.hpp"
#include "system_calls.hpp"

namespace rota::test::tfrecord_test {

class TfRecords : public PythonTest {
 protected:
  TfRecords() : PythonTest("from writers import write_tfrecord as write\n") {}
  // What is there of these records in Python, in a.tfrecord.
  void write_one(const std::string& records) const { write("write('a.tfrecord', [" + records + "])"); }
  auto opening() const {
    return error_of([&] { open(directory_.path(), "tfrecord"); });
  }
  void change(std::size_t at, char mask) const {
    std::string bytes = read_file(directory_ / "a.tfrecord");
    bytes[at] = static_cast<char>(bytes[at] ^ mask);
    write_file(directory_ / "a.tfrecord", bytes);
  }
};

TEST_F(TfRecords, AreReadInTheOrderOfTheirFiles) {
  const auto expected = write(R"(
random.seed(1)
files = [[random.randbytes(random.randrange(3000)) for _ in range(50)] for _ in range(3)]
for f, records in enumerate(files + [[], [b'', random.randbytes(700000), b'x', b'']]):
    write(f'train-{f:05}.tfrecord', records)
    tell(*records)
)");
  const auto source = open(directory_.path());
  EXPECT_THAT(source->fields(), ElementsAre(Field{"data", DType::uint8, {}, true}));
  expect_samples(*source, expected);
  EXPECT_EQ(source->where({150}), at("train-00004.tfrecord") + ", record 0 at byte 12");
}

TEST_F(TfRecords, AreUnpackedAsTensorFlowPacksThem) {
  write(R"(
import gzip, zlib
write('a.tfrecord', [b'first', b'', b'third' * 99])
data = open('a.tfrecord', 'rb').read()
for name, pack in {'gzip.tfrecord.gz': gzip.compress, 'zlib.tfrecord': zlib.compress, 'x-00000-of-00001': gzip.compress}.items():
    open(name, 'wb').write(pack(data))
)");
  const Contents expected{{"first"}, {""}, {[] {
                            std::string third;
                            for (int i = 0; i < 99; ++i) third += "third";
                            return third;
                          }()}};
  for (const auto* name : {"a.tfrecord", "gzip.tfrecord.gz", "zlib.tfrecord", "x-00000-of-00001"}) {
    EXPECT_EQ(contents(*open(directory_ / name)), expected) << name;
    EXPECT_EQ(contents(*open(directory_ / name, "tfrecord")), expected) << name;
  }
  write_file(directory_ / "zlib.tfrecord", read_file(directory_ / "zlib.tfrecord").substr(0, 20));
  EXPECT_ERROR(open(directory_ / "zlib.tfrecord", "tfrecord"), corrupt, {"zlib.tfrecord", "byte 20"});
}

TEST_F(TfRecords, WithAFlippedBitAreDamagedWhereItIs) {
  write_one("b'first', b'second', b'third'");
  const fs::path path = directory_ / "a.tfrecord";
  change(12 + 5 + 4 + 12 + 2, 1);  // in "second"
  const auto source = open(path, "tfrecord");
  EXPECT_EQ(Samples(*source, ids({0, 2})).sample(0, 1), "third");
  EXPECT_THAT(reading(*source, {1}),
              is_error(corrupt, {path.string(), "byte 33", "checksum of a record of 6 bytes"}));
  EXPECT_EQ(Samples(*open(path, TfRecordOptions{.verify = false}), ids({1})).sample(0, 0), "sebond");
}

TEST_F(TfRecords, ThatFollowOneAnotherAreReadInOneCallAndVerifiedEach) {
  write_one("bytes([65 + i]) * i for i in range(40)");
  const auto source = open(directory_.path(), "tfrecord");
  EXPECT_EQ(read_calls_of([&] { Samples(*source, all_ids(*source), false); }), 1);
  const auto reading = [&] { return error_of([&] { Samples(*source, all_ids(*source), false); }); };
  change(12 + 16 * 30 + 29 * 30 / 2 + 3, 1);  // in record 30
  EXPECT_THAT(reading(), is_error(corrupt, {"byte 927", "checksum of a record of 30 bytes"}));
  change(13, 1);  // of record 0, which is empty and has a checksum too
  EXPECT_THAT(reading(), is_error(corrupt, {"a.tfrecord", "byte 12", "checksum"}));
}

TEST_F(TfRecords, WithAFlippedLengthAreNotIndexed) {
  write_one("b'first', b'second'");
  for (const std::size_t byte : {0U, 3U, 7U, 8U, 11U}) {
    change(21 + byte, 64);
    EXPECT_THAT(opening(), is_error(corrupt, {"a.tfrecord", "byte 21", "checksum of a record's length"}));
    change(21 + byte, 64);
  }
  EXPECT_EQ(open(directory_.path(), "tfrecord")->size(), 2);
}

TEST_F(TfRecords, CutShortAreDamagedUnlessARecordEndsThere) {
  write_one("b'first', b'', b'third one'");
  const fs::path path = directory_ / "a.tfrecord";
  for (std::uintmax_t bytes = fs::file_size(path) - 1; bytes > 0; --bytes) {
    fs::resize_file(path, bytes);
    if (bytes == 21 || bytes == 37) {
      EXPECT_EQ(open(path, "tfrecord")->size(), bytes == 21 ? 1 : 2);
    } else {
      EXPECT_THAT(opening(), is_error(corrupt, {path.string(), "byte"}));
    }
  }
}

TEST_F(TfRecords, AreNotLookedForInOtherFiles) {
  directory_.write("a.tfrecord", "this is no record, but long enough for one");
  EXPECT_THAT(opening(), is_error(corrupt, {"a.tfrecord", "byte 0", "no TFRecord file"}));
  EXPECT_ERROR(open(directory_.path()), corrupt, {"named as tfrecord", "a.tfrecord"});
}

TEST_F(TfRecords, MakeShardsOfWholeFiles) {
  write("for f in range(7): write(f'{f}.tfrecord', [b'x'] * f)");
  const auto source = open(directory_.path(), "tfrecord");
  EXPECT_THAT(source->shard_lengths(3), ElementsAre(0 + 1, 2 + 3, 4 + 5 + 6));
  EXPECT_THAT(source->shard_lengths(7), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(source->shard_lengths(8), IsEmpty());
}

TEST_F(TfRecords, ChangeTheFingerprintWithNamesSizesAndNumbers) {
  write("write('a', [b'12', b'3'])\nwrite('b', [b'1', b'23'])\nwrite('c', [b'1', b''])");
  const auto fingerprint = [&](const char* name) {
    return open(directory_ / name, "tfrecord")->fingerprint();
  };
  EXPECT_NE(fingerprint("a"), fingerprint("b"));
  EXPECT_NE(fingerprint("b"), fingerprint("c"));
  EXPECT_EQ(fingerprint("a"), fingerprint("a"));
}

}  // namespace rota::test::tfrecord_test
