// Every value of every line of a trace, changed; lines, steps and files lost, doubled and swapped: the audit
// finds each, and says where.

#include <nlohmann/json.hpp>

#include "cli/audit.hpp"
#include "cli/fake_stream.hpp"
#include "trace/traced_run.hpp"

namespace rota::test::audit_mutation_test {

using cli::audit;
using cli::AuditOptions;
using nlohmann::json;

json changed(const json& value) {
  if (value.is_number()) return value.get<std::int64_t>() + 1;
  const auto text = value.get<std::string>();
  static const std::map<std::string, std::string> kOthers{
      {"partial", "drop"},          {"carry", "pad"},          {"drop", "carry"},          {"pad", "partial"},
      {"by_sample", "interleaved"}, {"by_shard", "by_sample"}, {"interleaved", "by_shard"}};
  if (kOthers.contains(text)) return kOthers.at(text);
  return (text.front() == '1' ? "2" : "1") + text.substr(1);
}

// In the stream below, this step was the last, and rolled back: a rank may have been killed before it.
bool is_rolled_back(const json& record) {
  return record.contains("positions") && record["phase"] == 0 && record["step"] == 4;
}

// What an audit cannot find, or is not to: a lost end record is what a killed phase looks like. In the stream
// below, each sample is delivered but once, and one rank is alone in a phase.
bool is_free(const json& record, const std::string& pointer) {
  static const std::set<std::string> kToldOnly{"/workers", "/at", "/wait", "/read", "/transform"};
  if (kToldOnly.contains(pointer) || (record["event"] == "end" && pointer == "/event")) return true;
  if (record.contains("shards")) return pointer == "/batch" || pointer == "/split";
  if (is_rolled_back(record)) return pointer == "/step" || pointer == "/event";
  return record.contains("positions") && pointer.starts_with("/digests/") && record["step"] != 4;
}

/// Audits a trace once with each of what `change` makes of a line, which may be none; those that pass.
using Changes = std::vector<std::pair<std::string, std::optional<std::string>>>;
std::vector<std::string> unnoticed(const fs::path& dir, const AuditOptions& options,
                                   const std::function<Changes(const json& record)>& change) {
  std::vector<std::string> unnoticed;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(dir)) files.push_back(entry.path());
  for (const auto& file : files) {
    const auto lines = lines_of(file);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      for (const auto& [name, line] : change(json::parse(lines[i]))) {
        auto broken = lines;
        if (line) {
          broken[i] = *line;
        } else {
          broken.erase(broken.begin() + static_cast<std::ptrdiff_t>(i));
        }
        write_lines(file, broken);
        if (!audit(dir, options).passed()) continue;
        unnoticed.push_back(fmt::format("{}:{}: {}", file.filename().string(), i + 1, name));
      }
    }
    write_lines(file, lines);
  }
  return unnoticed;
}

/// The record, with each of its values changed.
Changes each_value(const json& record) {
  Changes changes;
  const json values = record.flatten();
  for (const auto& [pointer, value] : values.items()) {
    if (!value.is_primitive() || value.is_null() || is_free(record, pointer)) continue;
    json other = record;
    other[json::json_pointer(pointer)] = changed(value);
    changes.emplace_back(pointer, other.dump());
  }
  return changes;
}

Changes lost(const json& record) {
  if (record["event"] == "end" || is_rolled_back(record)) return {};
  return {{"lost", std::nullopt}};
}

struct Traced {
  const char* name;
  std::function<void(const fs::path&)> write;
  AuditOptions options;
};
void PrintTo(const Traced& traced, std::ostream* out) { *out << traced.name; }

class EveryChange : public TestWithParam<Traced> {};

TEST_P(EveryChange, OfATraceIsFound) {
  const TemporaryDirectory dir;
  GetParam().write(dir.path());
  const auto report = audit(dir.path(), GetParam().options);
  ASSERT_TRUE(report.passed()) << cli::audit_text(report, "run", true);
  EXPECT_THAT(unnoticed(dir.path(), GetParam().options, each_value), IsEmpty());
  EXPECT_THAT(unnoticed(dir.path(), GetParam().options, lost), IsEmpty());
}

// Three epochs, of which a sample's bytes are seen three times; nothing is changed alike on all ranks.
void write_samples(const fs::path& dir, Tail tail, Split split) {
  const auto make =
      one_dataset(21, {.global_batch_size = 8, .shards = 4, .tail = tail, .rank_split = split, .epochs = 3});
  const auto stopped = run_phase(dir, make, 0, 3, {}, 4);
  run_phase(dir, make, 1, 2, stopped);
}

void write_mixture(const fs::path& dir) {
  const auto make =
      two_datasets({.global_batch_size = 9, .shards = 4, .epochs = 2}, MixtureEnd::all_exhausted);
  const auto stopped = run_phase(dir, make, 0, 3, {}, 5);
  run_phase(dir, make, 1, 2, stopped);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, EveryChange,
    Values(Traced{"Partial",
                  [](const auto& dir) { write_samples(dir, Tail::partial, Split::by_sample); },
                  {.samples = {21}, .epochs = 3}},
           Traced{"CarryByShard",
                  [](const auto& dir) { write_samples(dir, Tail::carry, Split::by_shard); },
                  {.samples = {21}, .epochs = 3}},
           Traced{"PadInterleaved",
                  [](const auto& dir) { write_samples(dir, Tail::pad, Split::interleaved); },
                  {.samples = {21}, .epochs = 3}},
           Traced{"Mixture", write_mixture, {.samples = {40, 24}}},
           Traced{
               "Stream", [](const auto& dir) { FakeStream().write(dir); }, {.samples = {10}, .epochs = 2}}),
    [](const auto& test) { return test.param.name; });

// ---- whole lines and files ----

/// The lines of each file of a trace.
using Lines = std::map<fs::path, std::vector<std::string>>;

Lines read_trace(const fs::path& dir) {
  Lines trace;
  for (const auto& entry : fs::directory_iterator(dir))
    trace[entry.path().filename()] = lines_of(entry.path());
  return trace;
}

/// The problem that an audit names first; "passed" where there is none.
std::string first_problem(const Lines& trace, const AuditOptions& options) {
  const TemporaryDirectory dir;
  for (const auto& [name, lines] : trace) write_lines(dir / name.string(), lines);
  const auto report = audit(dir.path(), options);
  return report.passed() ? "passed" : to_string(report.problems[0]);
}

/// Four phases without end records, as if each had been killed: steps 0 to 2; 3 and 4, which are rolled back;
/// 3 to 7; and 8, of one rank. In the second phase, a rank may have been killed before the last step.
class AuditBlames : public Test {
 protected:
  void SetUp() override {
    const TemporaryDirectory dir;
    run_in_three_worlds(dir.path(), one_dataset(21, {.global_batch_size = 8, .shards = 4, .epochs = 3}));
    trace_ = read_trace(dir.path());
    for (auto& [name, lines] : trace_)
      std::erase_if(lines, [](const std::string& line) { return line.find("\"end\"") != std::string::npos; });
    ASSERT_EQ(first_problem(trace_, kOptions), "passed");
  }

  /// Does something to each line of a batch that `applies`, and expects the place of that batch to be named
  /// first: its phase, its rank unless no `rank` is to be named, and its step unless a later one shows it.
  using Change = std::function<void(Lines& trace, const fs::path& file, std::size_t line)>;
  void expect_blamed(const Change& change, const std::function<bool(const json&)>& applies,
                     const std::function<std::string(const json&)>& place) const {
    for (const auto& [name, lines] : trace_) {
      for (std::size_t i = 1; i < lines.size(); ++i) {
        const json record = json::parse(lines[i]);
        if (!applies(record)) continue;
        Lines changed = trace_;
        change(changed, name, i);
        EXPECT_THAT(first_problem(changed, kOptions), HasSubstr(place(record))) << name << ":" << i + 1;
      }
    }
  }

  static void erase(std::vector<std::string>& lines, std::size_t i) {
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i));
  }
  static int phase_of(const json& record) { return record["phase"].get<int>(); }
  static std::string text(const json& record, const char* name) { return record[name].dump(); }
  static std::string rank_of(const json& record) {
    return ": phase " + text(record, "phase") + ", rank " + text(record, "rank") + ", ";
  }
  static std::string step_of(const json& record) {
    return rank_of(record) + "epoch " + text(record, "epoch");
  }

  static inline const AuditOptions kOptions{.samples = {21}, .epochs = 3};
  Lines trace_;
};

bool is_any(const json& /*record*/) { return true; }

TEST_F(AuditBlames, TheRankThatLostALine) {
  expect_blamed([](Lines& trace, const fs::path& file, std::size_t i) { erase(trace[file], i); },
                [](const json& record) {
                  return phase_of(record) != 3 && (phase_of(record) != 1 || record["step"] != 4);
                },
                rank_of);
}

TEST_F(AuditBlames, TheRankThatHasALineTwice) {
  const auto twice = [](Lines& trace, const fs::path& file, std::size_t i) {
    trace[file].push_back(trace[file][i]);
  };
  expect_blamed(twice, is_any, step_of);
}

// Also where the phase was rolled back.
TEST_F(AuditBlames, ThePhaseThatLostAStepOnAllRanks) {
  const auto lose = [](Lines& trace, const fs::path& file, std::size_t i) {
    const auto phase = file.string().substr(0, std::string("phase-000000").size());
    for (auto& [name, lines] : trace) {
      if (name.string().starts_with(phase)) erase(lines, i);
    }
  };
  expect_blamed(
      lose, [](const json& record) { return record["step"].get<int>() < 2 || record["step"] == 3; },
      [](const json& record) { return "gap: phase " + text(record, "phase") + ", epoch "; });
}

TEST_F(AuditBlames, ThePhaseWhoseRanksAllCallAStepAnother) {
  for (const int by : {-2, -1, 1, 2}) {
    const auto renumber = [&](Lines& trace, const fs::path& file, std::size_t i) {
      const auto phase = file.string().substr(0, std::string("phase-000000").size());
      for (auto& [name, lines] : trace) {
        if (!name.string().starts_with(phase)) continue;
        json record = json::parse(lines[i]);
        record["step"] = std::max(0, record["step"].get<int>() + by);
        lines[i] = record.dump();
      }
    };
    const auto moves = [&](const json& record) { return record["step"].get<int>() + by >= 0; };
    expect_blamed(renumber, moves, [](const json& record) { return ": phase " + text(record, "phase"); });
  }
}

TEST_F(AuditBlames, TheRankWhoseRecordWasForged) {
  const auto forge = [](const char* name, auto other) {
    return [=](Lines& trace, const fs::path& file, std::size_t i) {
      json record = json::parse(trace[file][i]);
      json& value = record[json::json_pointer(name)];
      value = other(value);
      trace[file][i] = record.dump();
    };
  };
  const auto add = [](const json& value) { return value.get<std::int64_t>() + 1; };
  const auto has_others = [](const json& record) { return record["phase"] != 3; };  // to differ from
  for (const char* name : {"/ids/0", "/epoch", "/consumed", "/n"})
    expect_blamed(forge(name, add), has_others, rank_of);
  expect_blamed(forge("/digests/0", changed), has_others, rank_of);
}

TEST_F(AuditBlames, TheRankWhoseFileIsMissing) {
  for (const auto& [name, lines] : trace_) {
    const json start = json::parse(lines[0]);
    if (start["world"] == 1) continue;
    Lines changed = trace_;
    changed.erase(name);
    EXPECT_THAT(first_problem(changed, kOptions), StartsWith("files" + rank_of(start))) << name;
  }
}

// Of the last step, nothing is known but what the next phase says.
TEST_F(AuditBlames, TheRankWhoseFileWasCut) {
  for (const auto& [name, lines] : trace_) {
    const json start = json::parse(lines[0]);
    if (phase_of(start) % 2 == 1) continue;  // of one rank, or rolled back
    Lines changed = trace_;
    changed[name].pop_back();
    changed[name].back() += "\n{\"event\":";
    EXPECT_THAT(first_problem(changed, kOptions), HasSubstr(rank_of(start))) << name;
  }
}

TEST_F(AuditBlames, RanksThatReadEachOthersSamplesInAStepThatWasRolledBack) {
  Lines changed = trace_;
  auto& one = changed["phase-000001-rank-00000.jsonl"][1];
  auto& other = changed["phase-000001-rank-00001.jsonl"][1];
  std::swap(one, other);
  for (auto* line : {&one, &other}) {
    json record = json::parse(*line);
    record["rank"] = line == &one ? 0 : 1;
    *line = record.dump();
  }
  EXPECT_THAT(first_problem(changed, kOptions), StartsWith("content: phase 1, rank "));
}

}  // namespace rota::test::audit_mutation_test
