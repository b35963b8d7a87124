#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "rota/open.hpp"
#include "source/python.hpp"
#include "source/reading.hpp"

namespace rota::test {
namespace {

class Lines : public testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> lines() const {
    const auto source = open_lines(directory_.path());
    const Samples samples(*source, all_ids(*source));
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < static_cast<std::size_t>(source->size()); ++i) {
      lines.push_back(samples.sample(0, i));
    }
    return lines;
  }

  TemporaryDirectory directory_;
};

TEST_F(Lines, EndInANewlineOrWithTheFile) {
  directory_.write("a.txt", "one\n\nthree");
  directory_.write("b.txt", "");
  directory_.write("c.txt", "\r\nfive\r\nsi\rx\n\r");
  EXPECT_THAT(lines(), testing::ElementsAre("one", "", "three", "", "five", "si\rx", "\r"));
}

// As Python splits them, over the edges of blocks.
TEST_F(Lines, AreThoseThatPythonReads) {
  const auto expected = python(directory_, R"(
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
  directory_.write("b.txt", "");
  EXPECT_EQ(open(directory_.path())->fields()[0].name, "data");  // each file is a sample
}

TEST_F(Lines, OfFilesCompressedInOtherWaysAreRefused) {
  python(directory_, "import bz2\nbz2.open('a.txt', 'w').write(b'text')");
  EXPECT_THAT(error_of([&] { open_lines(directory_.path()); }),
              is_error(ErrorCode::unsupported, {"a.txt", "bzip2"}));
}

}  // namespace
}  // namespace rota::test
