#include "formats/python.hpp"

namespace rota::test::lines_test {

class Lines : public PythonTest {
 protected:
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const auto& sample : contents(*open(directory_.path(), "lines"))) lines.push_back(sample[0]);
    return lines;
  }
};

TEST_F(Lines, EndInANewlineOrWithTheFile) {
  directory_.write("a.txt", "one\n\nthree");
  directory_.write("b.txt", "");
  directory_.write("c.txt", "\r\nfive\r\nsi\rx\n\r");
  EXPECT_THAT(lines(), ElementsAre("one", "", "three", "", "five", "si\rx", "\r"));
}

// As Python splits them, over the edges of blocks.
TEST_F(Lines, AreThoseThatPythonReads) {
  const auto expected = write(R"(
random.seed(1)
for f in range(3):
    ends = [b'\n', b'\r\n']
    data = b''.join(random.randbytes(random.choice([0, 1, 30, 3000])).translate(None, b'\r\n') + random.choice(ends)
                    for _ in range(2000))
    if f == 1:
        data = b'x' * (1 << 20) + b'\n' + b'y' * ((1 << 20) - 2) + b'\r\n' + data
    open(f'{f}.txt', 'wb').write(data)
    tell(*open(f'{f}.txt', 'rb').read().replace(b'\r\n', b'\n').split(b'\n')[:-1])
)");
  EXPECT_EQ(lines(), expected);
}

TEST_F(Lines, AreWhatJsonLinesFilesHold) {
  directory_.write("a.jsonl", "{\"text\": \"a\"}\n{}\n");
  EXPECT_EQ(open(directory_.path())->size(), 2);
  EXPECT_EQ(open(directory_.path())->fields()[0].name, "text");
}

TEST_F(Lines, OfJsonAreNeverBlank) {
  directory_.write("a.JSONL", "\n{}\n\r\n\n[]\n\n");
  directory_.write("b.ndjson", "\n");
  EXPECT_THAT(lines(), ElementsAre("{}", "[]"));
}

TEST_F(Lines, BeginBehindAByteOrderMark) {
  directory_.write("a.txt", "\xEF\xBB\xBFone\n\xEF\xBB\xBFtwo\n");
  directory_.write("b.txt", "\xEF\xBB\xBF");
  EXPECT_THAT(lines(), ElementsAre("one", "\xEF\xBB\xBFtwo"));
  directory_.write("b.txt", "\xFF\xFEo");
  EXPECT_ERROR(lines(), unsupported, {at("b.txt"), "UTF-16", "iconv"});
}

TEST_F(Lines, MayBeNoneInAPackedFile) {
  write(R"(
import gzip
for name, data in [('a', b''), ('b', b'1'), ('c', b'')]:
    open(f'{name}.jsonl.gz', 'wb').write(gzip.compress(data))
)");
  EXPECT_THAT(lines(), ElementsAre("1"));
  EXPECT_THAT(open(directory_.path(), "lines")->where({0}), StartsWith(directory_.path().string()));
}

// As they are left where a copy was broken off, or the first byte is damaged: not the lines of plain text.
TEST_F(Lines, OfFilesThatAreNamedAsCompressedAndAreNotAreRefused) {
  directory_.write("a.jsonl", "1\n");
  for (const char* name : {"b.jsonl.gz", "b.jsonl.zst"}) {
    for (const char* text : {"", "\x28\xB5", "\x1E\x8B\b and much more", "{\"text\": 1}\n"}) {
      directory_.write(name, text);
      EXPECT_ERROR(open(directory_.path()), corrupt,
                   {name, "byte 0", "named as compressed", "cut short", "rename"});
      fs::remove(directory_ / name);
    }
  }
}

// An empty frame with a window of 2^28 bytes (RFC 8878, 3.1.1.1.2).
TEST_F(Lines, OfZstdWithLargerWindowsThanAnybodyNeedsAreNotDamaged) {
  directory_.write("a.jsonl.zst", std::string("\x28\xB5\x2F\xFD\x00\x90\x01\x00\x00", 9));
  EXPECT_ERROR(open(directory_.path()), unsupported, {"a.jsonl.zst", "128 MiB", "--long=27"});
}

}  // namespace rota::test::lines_test
