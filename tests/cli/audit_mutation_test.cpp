// Every value of every line of a trace, changed: the audit finds each.

#include <nlohmann/json.hpp>

#include "cli/audit.hpp"
#include "cli/fake_stream.hpp"
#include "test.hpp"
#include "trace/traced_run.hpp"

namespace rota::test::audit_mutation_test {

using cli::audit;
using cli::AuditOptions;
using nlohmann::json;

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void write_lines(const fs::path& file, const std::vector<std::string>& lines) {
  fs::remove(file);  // quicker than to cut it
  std::ofstream stream(file);
  for (const std::string& line : lines) stream << line << '\n';
}

json changed(const json& value) {
  if (value.is_number()) return value.get<std::int64_t>() + 1;
  const auto text = value.get<std::string>();
  static const std::map<std::string, std::string> kOthers{
      {"partial", "drop"},          {"carry", "pad"},          {"drop", "carry"},          {"pad", "partial"},
      {"by_sample", "interleaved"}, {"by_shard", "by_sample"}, {"interleaved", "by_shard"}};
  if (kOthers.contains(text)) return kOthers.at(text);
  return (text.front() == '1' ? "2" : "1") + text.substr(1);
}

// In the stream below, these were rolled back: they may as well be lost, as in a killed phase.
bool is_rolled_back(const json& record) {
  return record.contains("positions") && record["phase"] == 0 && record["step"] >= 4;
}

// What an audit cannot find, or is not to: a lost end record is what a killed phase looks like. In the stream
// below, each sample is delivered but once, and one rank is alone in a phase.
bool is_free(const json& record, const std::string& pointer) {
  if (pointer == "/workers" || (record["event"] == "end" && pointer == "/event")) return true;
  if (record.contains("shards")) return pointer == "/batch" || pointer == "/split";
  return is_rolled_back(record) || (record.contains("positions") && pointer.starts_with("/digests/"));
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

}  // namespace rota::test::audit_mutation_test
