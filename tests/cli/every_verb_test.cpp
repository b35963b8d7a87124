// Each verb of the tool, met with each of a kind of trouble: output that is lost, numbers that are none,
// paths that lead to something else.

#include "cli/fake_run.hpp"
#include "run_command.hpp"
#include "test.hpp"
#include "unprivileged.hpp"

namespace rota::test::every_verb_test {

using rota::test::Ended;
using rota::test::run_command;

class EveryVerb : public ::testing::Test {
 protected:
  EveryVerb() {
    for (int i = 0; i < 5; ++i) dir_.write(fmt::format("data/{}.jsonl", i), fmt::format("line {}\n", i));
    dir_.write("list.txt", "data/2.jsonl\n");
    FakeRun run(100, "partial", 1);
    run.phase(2, 16).write(dir_ / "traces");
    rota::CheckpointDirectory checkpoints({}, dir_ / "checkpoints");
    rota::Snapshot snapshot;
    snapshot.blob("state", "step 1");
    checkpoints.save(1, snapshot);
  }
  [[nodiscard]] std::string in_directory(const std::string& command) const {
    return "cd " + dir_.path().string() + " && { " + command + "; }";
  }
  static std::string rota(const std::string& arguments) { return "timeout 20 " ROTA_PROGRAMS "/rota" " " + arguments; }
  [[nodiscard]] Ended run(const std::string& command) const { return run_command(in_directory(command)); }

  /// A right command line of each verb, and of its help.
  static std::vector<std::string> right() {
    std::vector<std::string> all{"ls data --limit 0",
                                 "ls list.txt --manifest",
                                 "ls data --format auto",
                                 "head data -n 2",
                                 "index data -o saved",
                                 "speed data --seconds 1 --workers 1",
                                 "pack data -o packed --format lines",
                                 "audit traces --samples 100",
                                 "inspect checkpoints/checkpoint-000000000000.h5",
                                 "verify checkpoints",
                                 "verify checkpoints/checkpoint-000000000000.h5",
                                 "--help",
                                 "--version"};
    for (const char* verb : {"ls", "head", "index", "speed", "pack", "audit", "inspect", "verify"}) {
      all.push_back(std::string(verb) + " --help");
    }
    return all;
  }

  rota::test::TemporaryDirectory dir_;
};

// ---- output that is lost ----

TEST_F(EveryVerb, PrintsAndSucceeds) {
  for (const std::string& line : right()) {
    const Ended ended = run(rota(line));
    EXPECT_EQ(ended.code, 0) << line << ": " << ended.output;
    EXPECT_THAT(ended.output, Not(::testing::IsEmpty())) << line;
  }
}

TEST_F(EveryVerb, FailsWhereItsOutputIsLost) {
  for (const std::string& line : right()) {
    for (const auto& [sink, why] :
         {std::pair("> /dev/full", "No space left on device"), std::pair(">&-", "Bad file descriptor"),
          std::pair(">&- 2>errors <&-; code=$?; cat errors; exit $code", "Bad file")}) {
      const Ended ended = run(rota(line) + " " + sink);
      EXPECT_EQ(ended.code, 1) << line << sink;
      EXPECT_THAT(ended.output, HasSubstr(std::string("error: write to standard output: ") + why))
          << line << sink;
    }
  }
}

TEST_F(EveryVerb, FailsWithoutAWordWhereBothStreamsAreClosed) {
  for (const std::string& line : right()) EXPECT_EQ(run(rota(line) + " >&- 2>&-").code, 1) << line;
}

TEST_F(EveryVerb, WritesIntoNoFileWhatWasToBePrinted) {
  const auto content = [&](const std::string& name) { return run("cat " + name).output; };
  ASSERT_EQ(run(rota("index data -o saved")).code, 0);
  const std::string before = content("saved");
  EXPECT_EQ(run(rota("index data -o saved >&- 2>&- <&-")).code, 1);
  EXPECT_EQ(run(rota("index data -o saved")).code, 0) << "it is still a catalog";
  EXPECT_EQ(content("saved").size(), before.size());
}

/// Descriptor 9 is a pipe that nobody reads while this lives.
class PipeOfNobody {
 public:
  PipeOfNobody() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0 || ::dup2(ends[1], 9) != 9) throw std::runtime_error("no pipe");
    ::close(ends[0]);
    ::close(ends[1]);
  }
  PipeOfNobody(const PipeOfNobody&) = delete;
  PipeOfNobody& operator=(const PipeOfNobody&) = delete;
  ~PipeOfNobody() { ::close(9); }
};

TEST_F(EveryVerb, EndsWithoutAWordWhereNobodyReads) {
  const PipeOfNobody pipe;
  for (const std::string& line : right()) {
    for (const std::string handler : {"", "trap '' PIPE; "}) {
      const Ended ended = run(fmt::format("{}{} {} >&9", handler, ROTA_PROGRAMS "/rota", line));
      EXPECT_EQ(ended.code, 128 + SIGPIPE) << handler << line;
      EXPECT_THAT(ended.output, Not(HasSubstr("error"))) << handler << line;
    }
  }
}

TEST_F(EveryVerb, EndsWithoutAWordWhereTheReaderHasEnough) {
  const std::string long_name(200, 'x');
  for (int i = 0; i < 600; ++i) dir_.write(fmt::format("many/{}{}", long_name, i), "");
  for (const std::string handler : {"", "trap '' PIPE; "}) {
    const Ended ended = run(handler + "{ " + rota("ls many --limit 0") + "; echo code $? >&2; } | head -1");
    EXPECT_THAT(ended.output,
                AllOf(HasSubstr("many: 600 files"), HasSubstr("code 141"), Not(HasSubstr("error"))));
  }
}

TEST_F(EveryVerb, AndTheDemoProvesNothingToAFullDisk) {
  const std::string demo = "timeout 100 " ROTA_PROGRAMS "/rescale_demo" " --data data --batch 2 --epochs 1 --worlds 1x0";
  EXPECT_EQ(run(demo).code, 0);
  for (const std::string& line : {demo, std::string(ROTA_PROGRAMS "/rescale_demo" " --help")}) {
    EXPECT_EQ(run(line + " > /dev/full").code, 1) << line;
    EXPECT_EQ(run(line + " >&-").code, 1) << line;
  }
}

// ---- words and numbers ----

TEST_F(EveryVerb, ThatThereIsNotIsNamed) {
  const Ended ended = run(rota("list data --limit 3"));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output,
              HasSubstr("list: there is no such verb; there are ls, head, index, speed, pack, audit, "));
  const Ended option = run(rota("--list"));
  EXPECT_EQ(option.code, 2);
  EXPECT_THAT(option.output, HasSubstr("--list: there is no such option"));
}

TEST_F(EveryVerb, NamesTheNumberThatMayNotBe) {
  struct Option {
    std::string line;
    std::string name;
    int least;
  };
  for (const Option& option :
       {Option{"ls data --limit", "--limit", 0}, Option{"head data -n", "-n", 0},
        Option{"index data -o saved --threads", "--threads", 1},
        Option{"audit traces --samples", "--samples", 0}, Option{"audit traces --batch", "--batch", 1},
        Option{"audit traces --epochs", "--epochs", 0}}) {
    const auto said = [&](const std::string& number) {
      const Ended ended = run(rota(option.line + " '" + number + "'"));
      EXPECT_EQ(ended.code, 2) << option.line << number << ended.output;
      EXPECT_THAT(ended.output, HasSubstr(option.name + ": "));
      return ended.output;
    };
    for (const std::string text : {"", "abc", "1e3", " 5", "5 ", "0x10", "1.5", "--"}) {
      EXPECT_THAT(said(text), HasSubstr(fmt::format("\"{}\" is no whole number; it may be {} or more", text,
                                                    option.least)));
    }
    EXPECT_THAT(said("-1"), HasSubstr(fmt::format("-1 is below {}", option.least)));
    for (const std::string number : {"9223372036854775808", "18446744073709551616"}) {
      EXPECT_THAT(said(number), HasSubstr(number + " is above "));
    }
    const Ended zero = run(rota(option.line + " 0"));
    EXPECT_EQ(zero.code == 2, option.least > 0) << option.line << zero.output;
  }
}

TEST_F(EveryVerb, TakesTheLargestNumberThatMayBe) {
  for (const std::string line : {"ls data --limit", "head data -n"}) {
    EXPECT_EQ(run(rota(line + " 9223372036854775807")).code, 0) << line;
  }
  EXPECT_THAT(run(rota("audit traces --samples 2305843009213693952")).output, HasSubstr("100 samples, not"));
}

TEST_F(EveryVerb, SaysThatATraceOfTooManySamplesDoesNotFitIntoMemory) {
  FakeRun run_of_many(std::int64_t{1} << 60, "partial", 1);
  run_of_many.phase(1, 16, 0).write(dir_ / "many");
  const Ended ended = run(rota("audit many"));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output,
              HasSubstr("1152921504606846976 samples, at 8 bytes each: there is not so much memory"));
}

// ---- paths ----

/// What a path may lead to instead of what was asked for, each called as it is.
void make_others(const std::filesystem::path& dir) {
  std::filesystem::create_directory(dir / "directory");
  ::mkfifo((dir / "fifo").c_str(), 0666);
  std::filesystem::create_symlink("nowhere", dir / "dangling");
  std::filesystem::create_directory(dir / "forbidden");
  std::filesystem::permissions(dir / "forbidden", std::filesystem::perms::none);
}

// One line that names the path and says what to do, in words of ours.
void expect_error(const std::string& line, const std::string& output, const std::string& name) {
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << line << ": " << output;
  EXPECT_THAT(output, AllOf(HasSubstr("error: "), HasSubstr(name))) << line;
  for (const char* raw : {"filesystem error", "std::", "basic_", "vector::"}) {
    EXPECT_THAT(output, Not(HasSubstr(raw))) << line;
  }
}

const std::vector<std::string> kPathVerbs{"ls",
                                          "ls --manifest",
                                          "ls --format auto",
                                          "head",
                                          "head --manifest",
                                          "index -o saved",
                                          "index --manifest -o saved",
                                          "audit",
                                          "audit traces --same-as"};

TEST_F(EveryVerb, NamesAPathThatLeadsToSomethingElse) {
  make_others(dir_.path());
  auto verbs = kPathVerbs;
  verbs.insert(verbs.end(), {"inspect", "verify"});
  for (const std::string& verb : verbs) {
    for (const std::string path :
         {"missing", "missing/below", "directory", "fifo", "dangling", "list.txt/below"}) {
      const bool is_of_checkpoint = verb == "inspect" || verb == "verify";
      if (is_of_checkpoint && (path == "fifo" || path == "directory")) continue;
      if (verb == "verify" && path == "dangling") continue;  // damage, which it reports
      const std::string line = fmt::format("{} {}", verb, path);
      const Ended ended = run(rota(line));
      EXPECT_EQ(ended.code, 1) << line << ": " << ended.output;
      expect_error(line, ended.output, path);
    }
  }
}

TEST_F(EveryVerb, NamesAPathThatItMayNotRead) {
  make_others(dir_.path());
  std::filesystem::permissions(dir_ / "checkpoints" / "checkpoint-000000000000.h5",
                               std::filesystem::perms::none);
  std::filesystem::permissions(dir_ / "list.txt", std::filesystem::perms::none);
  std::filesystem::permissions(dir_.path(), std::filesystem::perms(0755));
  auto lines = std::vector<std::string>{"inspect checkpoints/checkpoint-000000000000.h5",
                                        "verify checkpoints/checkpoint-000000000000.h5",
                                        "verify forbidden/below", "inspect forbidden/below"};
  for (const std::string& verb : kPathVerbs) {
    const bool is_manifest = verb.find("--manifest") != std::string::npos;
    lines.push_back(verb + (is_manifest ? " list.txt" : " forbidden"));
    lines.push_back(verb + " forbidden/below");
  }
  for (const std::string& line : lines) {
    const std::string said = rota::test::error_as_nobody([&] {
      const Ended ended = run(rota(line));
      throw rota::Error(rota::ErrorCode::io, fmt::format("{}|{}", ended.code, ended.output));
    });
    EXPECT_THAT(said, HasSubstr("io: 1|")) << line;
    EXPECT_THAT(said, AllOf(HasSubstr("Permission denied"), Not(HasSubstr("write there")))) << line;
    expect_error(line, said, line.substr(line.rfind(' ') + 1));
  }
  std::filesystem::permissions(dir_ / "forbidden", std::filesystem::perms::all);
}

TEST_F(EveryVerb, IndexNamesAPathThatItMayNotWrite) {
  std::filesystem::create_directory(dir_ / "theirs");
  dir_.write("theirs/saved", "");
  std::filesystem::permissions(dir_.path(), std::filesystem::perms(0755));
  for (const std::string line : {"index data -o saved", "index data -o theirs/saved --force"}) {
    const std::string said =
        rota::test::error_as_nobody([&] { throw rota::Error(rota::ErrorCode::io, run(rota(line)).output); });
    EXPECT_THAT(said, AllOf(HasSubstr("must be writable"), Not(HasSubstr("the right to read")))) << line;
  }
  for (const std::string path : {"data/0.jsonl/below", "missing/saved", "directory/"}) {
    const Ended ended = run(rota("index data -o " + path));
    EXPECT_EQ(ended.code, 1) << path;
    expect_error("index", ended.output, path);
  }
}

TEST_F(EveryVerb, SaysThatTheWorkingDirectoryIsGone) {
  for (const std::string line : {"ls data", "index data -o saved", "ls list.txt --manifest"}) {
    const Ended ended = run("mkdir gone && cd gone && rmdir ../gone && " + rota(line));
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.output, AllOf(HasSubstr("error: "), Not(HasSubstr("filesystem error")))) << line;
  }
}

}  // namespace rota::test::every_verb_test
