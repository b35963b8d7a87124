// Each verb of the tool, met with each of a kind of trouble: output that is lost, numbers that are none,
// paths that lead to something else.

#include "cli/fake_run.hpp"
#include "cli/programs.hpp"
#include "core/text.hpp"
#include "unprivileged.hpp"

namespace rota::test::every_verb_test {

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

class EveryVerb : public ProgramTest {
 protected:
  EveryVerb() {
    for (int i = 0; i < 5; ++i) write(fmt::format("data/{}.jsonl", i), fmt::format("line {}\n", i));
    write("list.txt", "data/2.jsonl\n");
    FakeRun(100, "partial", 1).phase(2, 16).write(dir_ / "traces");
    Snapshot snapshot;
    snapshot.blob("state", "step 1");
    CheckpointDirectory({}, dir_ / "checkpoints").save(1, snapshot);
  }

  // `line` is right: it fails only where what it prints is lost, and says why if it can.
  void expect_fails_where_output_is_lost(const std::string& line) const {
    SCOPED_TRACE(line);
    expect_says(line, 0, Not(IsEmpty()));
    for (const auto& [sink, why] :
         {std::pair("> /dev/full", "No space left on device"), std::pair(">&-", "Bad file descriptor"),
          std::pair(">&- 2>errors <&-; code=$?; cat errors; exit $code", "Bad file")}) {
      expect_says(line + " " + sink, 1, HasSubstr(std::string("error: write to standard output: ") + why));
    }
    EXPECT_EQ(rota(line + " >&- 2>&-").code, 1);
    const PipeOfNobody pipe;
    for (const std::string handler : {"", "trap '' PIPE; "}) {
      const Ended ended = run(fmt::format("{}{} {} >&9", handler, ROTA_PROGRAMS "/rota", line));
      EXPECT_EQ(ended.code, 128 + SIGPIPE) << handler;
      EXPECT_THAT(ended.output, Not(HasSubstr("error"))) << handler;
    }
  }

  /// "io: <code>|<output>" of the tool, started by a user who may enter neither root's folders nor that of
  /// this build.
  std::string said_to_nobody(const std::string& arguments) const {
    const std::string copy = (open_to_all_ / "rota").string();
    EXPECT_EQ(run("install -C " ROTA_PROGRAMS "/rota " + copy).code, 0);
    fs::permissions(open_to_all_.path(), fs::perms(0755));
    return error_as_nobody([&] {
      const Ended ended = run(fmt::format("timeout 60 {} {}", copy, arguments));
      throw Error(io, fmt::format("{}|{}", ended.code, ended.output));
    });
  }

 private:
  TemporaryDirectory open_to_all_;
};

// ---- output that is lost ----

TEST_F(EveryVerb, FailsWhereItsOutputIsLostAndEndsWithoutAWordWhereNobodyReads) {
  for (const std::string line :
       {"ls data --limit 0", "ls list.txt --manifest", "ls data --format auto", "head data -n 2",
        "index data -o saved", "plan data --json", "shard data -o shards --format lines",
        "audit traces --samples 100", "audit traces --json", "inspect checkpoints/checkpoint-000000000000.h5",
        "verify checkpoints", "verify checkpoints/checkpoint-000000000000.h5", "--help", "--version",
        "speed --help"}) {
    expect_fails_where_output_is_lost(line);
  }
}

class EveryVerbCampaign : public EveryVerb {};

TEST_F(EveryVerbCampaign, FailsWhereItsOutputIsLostAndEndsWithoutAWordWhereNobodyReads) {
  expect_fails_where_output_is_lost("speed data --seconds 1 --workers 1");
}

TEST_F(EveryVerb, PrintsItsHelp) {
  for (const std::string verb :
       {"ls", "head", "index", "plan", "speed", "shard", "audit", "inspect", "verify", "when", "diff"}) {
    const Ended ended = rota(verb + " --help");
    EXPECT_THAT(ended.output, HasSubstr("Usage: rota " + verb));
    for (const std::string_view line : internal::lines_of(ended.output)) EXPECT_THAT(line, SizeIs(Le(80U)));
  }
}

TEST_F(EveryVerb, WritesIntoNoFileWhatWasToBePrinted) {
  ASSERT_EQ(rota("index data -o saved").code, 0);
  const std::size_t before = fs::file_size(path("saved"));
  EXPECT_EQ(rota("index data -o saved >&- 2>&- <&-").code, 1);
  EXPECT_EQ(rota("index data -o saved").code, 0) << "it is still a catalog";
  EXPECT_EQ(fs::file_size(path("saved")), before);
}

TEST_F(EveryVerb, EndsWithoutAWordWhereTheReaderHasEnough) {
  const std::string long_name(200, 'x');
  for (int i = 0; i < 600; ++i) write(fmt::format("many/{}{}", long_name, i), "");
  for (const std::string handler : {"", "trap '' PIPE; "}) {
    const Ended ended =
        run(handler + "{ " + rota_command("ls many --limit 0") + "; echo code $? >&2; } | head -1");
    EXPECT_THAT(ended.output,
                AllOf(HasSubstr("many: 600 files"), HasSubstr("code 141"), Not(HasSubstr("error"))));
  }
}

#ifdef ROTA_MPI
TEST_F(EveryVerb, AndTheDemoProvesNothingToAFullDisk) {
  const std::string demo =
      "timeout 100 " ROTA_PROGRAMS "/rescale_demo --data data --batch 2 --epochs 1 --worlds 1x0";
  EXPECT_EQ(run(demo).code, 0);
  for (const std::string& line : {demo, std::string(ROTA_PROGRAMS "/rescale_demo --help")}) {
    EXPECT_EQ(run(line + " > /dev/full").code, 1) << line;
    EXPECT_EQ(run(line + " >&-").code, 1) << line;
  }
}
#endif

// ---- words and numbers ----

TEST_F(EveryVerb, ThatThereIsNotIsNamed) {
  expect_says("list data --limit 3", 2,
              HasSubstr("list: there is no such verb; there are ls, head, index, speed, shard, audit, "));
  expect_says("--list", 2, HasSubstr("--list: there is no such option"));
}

TEST_F(EveryVerb, NamesTheFirstOfWordsThatAreTooMany) {
  std::string glob;
  for (int i = 0; i < 5000; ++i) glob += fmt::format(" shard-{:04}.tar", i);
  expect_says("ls" + glob, 2,
              StartsWith("not expected: shard-0001.tar, shard-0002.tar, shard-0003.tar and 4,996 more; put a "
                         "glob in quotes\nRun with --help"));
  expect_says(glob, 2, AllOf(StartsWith("shard-0000.tar: there is no such verb"), SizeIs(Lt(200U))));
  expect_says("head data more --odd", 2, StartsWith("not expected: more, --odd\n"));
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
    const auto expect_named = [&](const std::string& number, const std::string& why) {
      expect_says(option.line + " '" + number + "'", 2, AllOf(HasSubstr(option.name + ": "), HasSubstr(why)));
    };
    for (const std::string text : {"", "abc", "1e3", " 5", "5 ", "0x10", "1.5", "--"}) {
      expect_named(text, fmt::format("\"{}\" is no whole number; it may be {} or more", text, option.least));
    }
    expect_named("-1", fmt::format("-1 is below {}", option.least));
    for (const std::string number : {"9223372036854775808", "18446744073709551616"}) {
      expect_named(number, number + " is above ");
    }
    const Ended zero = rota(option.line + " 0");
    EXPECT_EQ(zero.code == 2, option.least > 0) << option.line << zero.output;
  }
}

TEST_F(EveryVerb, TakesTheLargestNumberThatMayBe) {
  for (const std::string line : {"ls data --limit", "head data -n"}) {
    EXPECT_EQ(rota(line + " 9223372036854775807").code, 0) << line;
  }
  expect_says("audit traces --samples 2305843009213693952", 1, HasSubstr("100 samples, not"));
}

TEST_F(EveryVerb, SaysThatATraceOfTooManySamplesDoesNotFitIntoMemory) {
  FakeRun(std::int64_t{1} << 60, "partial", 1).phase(1, 16, 0).write(dir_ / "many");
  expect_says("audit many", 1,
              HasSubstr("1152921504606846976 samples, at 8 bytes each: there is not so much memory"));
}

// ---- paths ----

/// What a path may lead to instead of what was asked for, each called as it is.
void make_others(const fs::path& dir) {
  fs::create_directory(dir / "directory");
  ::mkfifo((dir / "fifo").c_str(), 0666);
  fs::create_symlink("nowhere", dir / "dangling");
  fs::create_directory(dir / "forbidden");
  fs::permissions(dir / "forbidden", fs::perms::none);
}

// One line that names the path and says what to do, in words of ours.
void expect_error(const std::string& line, const std::string& output, const std::string& name) {
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << line << ": " << output;
  EXPECT_THAT(output, AllOf(HasSubstr("error: "), HasSubstr(name))) << line;
  for (const char* raw : {"filesystem error", "std::", "basic_", "vector::"}) {
    EXPECT_THAT(output, Not(HasSubstr(raw))) << line;
  }
}

const std::vector<std::string> kPathVerbs{
    "ls",   "ls --manifest",  "ls --format auto",          "head",  "head --manifest",
    "plan", "index -o saved", "index --manifest -o saved", "audit", "audit traces --same-as"};

TEST_F(EveryVerb, OfCheckpointsAndTracesSaysThatTheyAreToBeOnADisk) {
  for (const std::string verb : {"inspect", "verify", "audit", "audit traces --same-as"}) {
    const std::string line = verb + " s3://bucket/run";
    EXPECT_THAT(rota(line),
                ends(1, AllOf(HasSubstr("s3://bucket/run"), HasSubstr("copy it to a disk first"))))
        << line;
  }
}

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
      const Ended ended = rota(line);
      EXPECT_EQ(ended.code, 1) << line << ": " << ended.output;
      expect_error(line, ended.output, path);
    }
  }
}

TEST_F(EveryVerb, NamesAPathOnOneLineWhateverIsInIt) {
  auto verbs = kPathVerbs;
  verbs.insert(verbs.end(), {"inspect", "verify"});
  for (const std::string& verb : verbs) {
    const std::string line = verb + " 'no\x1b[31m\nsuch\\'";
    expect_error(line, rota(line).output, "no\\x1b[31m\\nsuch\\\\");
  }
  expect_says("'no\x1b[31m\nsuch'", 2, StartsWith("no\\x1b[31m\\nsuch: there is no such verb"));
}

TEST_F(EveryVerb, NamesAPathThatItMayNotRead) {
  make_others(dir_.path());
  fs::permissions(dir_ / "checkpoints" / "checkpoint-000000000000.h5", fs::perms::none);
  fs::permissions(dir_ / "list.txt", fs::perms::none);
  fs::permissions(dir_.path(), fs::perms(0755));
  auto lines = std::vector<std::string>{"inspect checkpoints/checkpoint-000000000000.h5",
                                        "verify checkpoints/checkpoint-000000000000.h5",
                                        "verify forbidden/below", "inspect forbidden/below"};
  for (const std::string& verb : kPathVerbs) {
    const bool is_manifest = verb.find("--manifest") != std::string::npos;
    lines.push_back(verb + (is_manifest ? " list.txt" : " forbidden"));
    lines.push_back(verb + " forbidden/below");
  }
  for (const std::string& line : lines) {
    const std::string said = said_to_nobody(line);
    EXPECT_THAT(said, HasSubstr("io: 1|")) << line;
    EXPECT_THAT(said, AllOf(HasSubstr("Permission denied"), Not(ContainsRegex("write there|writable"))))
        << line;
    expect_error(line, said, line.substr(line.rfind(' ') + 1));
  }
  fs::permissions(dir_ / "forbidden", fs::perms::all);
}

TEST_F(EveryVerb, IndexNamesAPathThatItMayNotWrite) {
  fs::create_directory(dir_ / "theirs");
  write("theirs/saved", "");
  const auto permit = [&](unsigned mode) {
    for (const fs::path& path : {dir_ / "theirs", dir_.path()}) fs::permissions(path, fs::perms(mode));
  };
  permit(0555);
  for (const std::string line : {"index data -o saved", "index data -o theirs/saved --force"}) {
    EXPECT_THAT(said_to_nobody(line),
                AllOf(HasSubstr("the right to write there"), Not(HasSubstr("the right to read"))))
        << line;
  }
  permit(0755);
  for (const std::string path : {"data/0.jsonl/below", "missing/saved", "directory/"}) {
    const Ended ended = rota("index data -o " + path);
    EXPECT_EQ(ended.code, 1) << path;
    expect_error("index", ended.output, path);
  }
}

TEST_F(EveryVerb, SaysThatTheWorkingDirectoryIsGone) {
  for (const std::string line : {"ls data", "index data -o saved", "ls list.txt --manifest"}) {
    EXPECT_THAT(run("mkdir gone && cd gone && rmdir ../gone && " + rota_command(line)),
                ends(1, AllOf(HasSubstr("error: "), Not(HasSubstr("filesystem error")))))
        << line;
  }
}

}  // namespace rota::test::every_verb_test
