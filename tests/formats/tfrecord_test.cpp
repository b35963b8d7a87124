#include "formats/python.hpp"
#include "source/reading.hpp"
#include "system_calls.hpp"
#include "test.hpp"

namespace rota::test::tfrecord_test {

// CRC32C bit by bit, by its definition.
constexpr std::string_view kWriter = R"(
table = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    table.append(byte)
def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
def write(name, records):
    with open(name, 'wb') as out:
        for record in records:
            length = struct.pack('<Q', len(record))
            out.write(length + struct.pack('<I', masked(length)) + record + struct.pack('<I', masked(record)))
            tell(record)
)";

class TfRecords : public testing::Test {
 protected:
  auto write(const std::string& script) { return python(directory_, std::string(kWriter) + script); }

  void change(std::string_view name, std::streamoff at, char mask) const {
    std::fstream file(directory_ / name, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(at);
    const auto byte = static_cast<char>(file.get());
    file.seekp(at).put(static_cast<char>(byte ^ mask));
  }

  static void expect_samples(const Source& source, const std::vector<std::string>& expected) {
    ASSERT_EQ(source.size(), std::ssize(expected));
    std::mt19937_64 random(1);
    const Ids wanted = random_ids(source, 2 * expected.size(), random);
    const Samples samples(source, wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(samples.sample(0, i), expected[static_cast<std::size_t>(wanted[i].value)]);
    }
  }

  TemporaryDirectory directory_;
};

TEST_F(TfRecords, AreReadInTheOrderOfTheirFiles) {
  const auto expected = write(R"(
random.seed(1)
for f in range(3):
    write(f'train-{f:05}.tfrecord', [random.randbytes(random.randrange(3000)) for _ in range(50)])
write('train-00003.tfrecord', [])
write('train-00004.tfrecord', [b'', random.randbytes(700000), b'x', b''])
)");
  const auto source = open(directory_.path());
  EXPECT_THAT(source->fields(), testing::ElementsAre(Field{"data", DType::uint8, {}, true}));
  expect_samples(*source, expected);
  EXPECT_EQ(source->where({150}), (directory_ / "train-00004.tfrecord").string() + ", record 0 at byte 12");
}

TEST_F(TfRecords, WithAFlippedBitAreDamagedWhereItIs) {
  write("write('a.tfrecord', [b'first', b'second', b'third'])");
  const fs::path path = directory_ / "a.tfrecord";
  change("a.tfrecord", 12 + 5 + 4 + 12 + 2, 1);  // in "second"
  const auto source = open_tfrecord(path);
  EXPECT_EQ(Samples(*source, ids({0, 2})).sample(0, 1), "third");
  EXPECT_THAT(error_of([&] { Samples(*source, ids({1})); }),
              is_error(ErrorCode::corrupt, {path.string(), "byte 33", "checksum of a record of 6 bytes"}));
  EXPECT_EQ(Samples(*open_tfrecord(path, {.verify = false}), ids({1})).sample(0, 0), "sebond");
}

TEST_F(TfRecords, ThatFollowOneAnotherAreReadInOneCallAndVerifiedEach) {
  write("write('a.tfrecord', [bytes([65 + i]) * i for i in range(40)])");
  const auto source = open_tfrecord(directory_.path());
  EXPECT_EQ(read_calls_of([&] { Samples(*source, all_ids(*source), false); }), 1);
  change("a.tfrecord", 12 + 16 * 30 + 29 * 30 / 2 + 3, 1);  // in record 30
  EXPECT_THAT(error_of([&] { Samples(*source, all_ids(*source), false); }),
              is_error(ErrorCode::corrupt, {"byte 927", "checksum of a record of 30 bytes"}));
}

TEST_F(TfRecords, ThatAreEmptyHaveAChecksumToo) {
  write("write('a.tfrecord', [b''])");
  change("a.tfrecord", 13, 1);
  EXPECT_THAT(error_of([&] { Samples(*open_tfrecord(directory_.path()), ids({0})); }),
              is_error(ErrorCode::corrupt, {"a.tfrecord", "byte 12", "checksum"}));
}

TEST_F(TfRecords, WithAFlippedLengthAreNotIndexed) {
  write("write('a.tfrecord', [b'first', b'second'])");
  for (const std::streamoff byte : {0, 3, 7, 8, 11}) {
    change("a.tfrecord", 21 + byte, 64);
    EXPECT_THAT(error_of([&] { open_tfrecord(directory_.path()); }),
                is_error(ErrorCode::corrupt, {"a.tfrecord", "byte 21", "checksum of a record's length"}));
    change("a.tfrecord", 21 + byte, 64);
  }
  EXPECT_EQ(open_tfrecord(directory_.path())->size(), 2);
}

TEST_F(TfRecords, CutShortAreDamagedUnlessARecordEndsThere) {
  write("write('a.tfrecord', [b'first', b'', b'third one'])");
  const fs::path path = directory_ / "a.tfrecord";
  const auto whole = static_cast<std::int64_t>(fs::file_size(path));
  for (std::int64_t bytes = whole - 1; bytes > 0; --bytes) {
    fs::resize_file(path, static_cast<std::uintmax_t>(bytes));
    if (bytes == 21 || bytes == 37) {
      EXPECT_EQ(open_tfrecord(path)->size(), bytes == 21 ? 1 : 2);
    } else {
      EXPECT_THAT(error_of([&] { open_tfrecord(path); }),
                  is_error(ErrorCode::corrupt, {path.string(), "byte"}));
    }
  }
}

TEST_F(TfRecords, ThatClaimMoreThanTheFileHoldsTakeNoMemory) {
  write(
      "write('a.tfrecord', [])\nopen('a.tfrecord', 'wb').write(struct.pack('<Q', 1 << 62) + "
      "struct.pack('<I', "
      "masked(struct.pack('<Q', 1 << 62))))");
  EXPECT_THAT(error_of([&] { open_tfrecord(directory_.path()); }),
              is_error(ErrorCode::corrupt, {"4611686018427387904 bytes begins", "ends 0 bytes later"}));
}

TEST_F(TfRecords, OfAFileThatWasReplacedAreNotRead) {
  write("write('a.tfrecord', [b'first'])");
  for (int i = 0; i < 300; ++i) fs::copy(directory_ / "a.tfrecord", directory_ / ("b" + std::to_string(i)));
  const auto source = open_tfrecord(directory_.path());
  directory_.write("a.tfrecord", "another file");
  EXPECT_THAT(error_of([&] { Samples(*source, ids({0})); }),
              is_error(ErrorCode::corrupt, {"a.tfrecord", "12 bytes now", "had 21"}));
}

TEST_F(TfRecords, AreNotLookedForInOtherFiles) {
  directory_.write("a.tfrecord", "this is no record, but long enough for one");
  EXPECT_THAT(error_of([&] { open_tfrecord(directory_.path()); }),
              is_error(ErrorCode::corrupt, {"a.tfrecord", "byte 0", "no TFRecord file"}));
  EXPECT_THAT(error_of([&] { open(directory_.path()); }),
              is_error(ErrorCode::corrupt, {"named as tfrecord", "a.tfrecord"}));
}

TEST_F(TfRecords, MakeShardsOfWholeFiles) {
  write("for f in range(7): write(f'{f}.tfrecord', [b'x'] * f)");
  const auto source = open_tfrecord(directory_.path());
  EXPECT_THAT(source->shard_lengths(3), testing::ElementsAre(0 + 1, 2 + 3, 4 + 5 + 6));
  EXPECT_THAT(source->shard_lengths(7), testing::ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(source->shard_lengths(8), testing::IsEmpty());
}

TEST_F(TfRecords, ChangeTheFingerprintWithNamesSizesAndNumbers) {
  write("write('a', [b'12', b'3'])\nwrite('b', [b'1', b'23'])\nwrite('c', [b'1', b''])");
  const auto fingerprint = [&](const char* name) { return open_tfrecord(directory_ / name)->fingerprint(); };
  EXPECT_NE(fingerprint("a"), fingerprint("b"));
  EXPECT_NE(fingerprint("b"), fingerprint("c"));
  EXPECT_EQ(fingerprint("a"), fingerprint("a"));
}

TEST_F(TfRecords, NeedAThread) {
  EXPECT_THAT(error_of([&] { Catalog(directory_.path(), {.indexing_threads = 0}); }),
              is_error(ErrorCode::invalid_argument, {"indexing_threads is 0"}));
}

}  // namespace rota::test::tfrecord_test
