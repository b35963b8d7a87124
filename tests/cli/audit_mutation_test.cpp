// Every value of every line of a trace, changed: the audit finds each.

#include <nlohmann/json.hpp>

#include "cli/audit.hpp"
#include "cli/fake_stream.hpp"
#include "test.hpp"
#include "trace/traced_run.hpp"

namespace rota::test::audit_mutation_test {

using nlohmann::json;
using rota::cli::audit;
using rota::cli::AuditOptions;
using rota::test::TemporaryDirectory;

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void write_lines(const std::filesystem::path& file, const std::vector<std::string>& lines) {
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

/// Changes each value in turn, and audits each such trace; the changes that are not found.
std::vector<std::string> unnoticed(const std::filesystem::path& dir, const AuditOptions& options) {
  std::vector<std::string> unnoticed;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) files.push_back(entry.path());
  for (const auto& file : files) {
    const auto lines = lines_of(file);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const json record = json::parse(lines[i]);
      const json values = record.flatten();
      for (const auto& [pointer, value] : values.items()) {
        if (!value.is_primitive() || value.is_null() || is_free(record, pointer)) continue;
        json other = record;
        other[json::json_pointer(pointer)] = changed(value);
        auto broken = lines;
        broken[i] = other.dump();
        write_lines(file, broken);
        if (audit(dir, options).passed()) {
          unnoticed.push_back(file.filename().string() + ":" + std::to_string(i + 1) + ": " + pointer);
        }
      }
    }
    write_lines(file, lines);
  }
  return unnoticed;
}

/// The same for lines that are lost.
std::vector<std::string> lost_unnoticed(const std::filesystem::path& dir, const AuditOptions& options) {
  std::vector<std::string> unnoticed;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    const auto lines = lines_of(entry.path());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const json record = json::parse(lines[i]);
      if (record["event"] == "end" || is_rolled_back(record)) continue;
      auto broken = lines;
      broken.erase(broken.begin() + static_cast<std::ptrdiff_t>(i));
      write_lines(entry.path(), broken);
      if (audit(dir, options).passed()) {
        unnoticed.push_back(entry.path().filename().string() + ":" + std::to_string(i + 1));
      }
    }
    write_lines(entry.path(), lines);
  }
  return unnoticed;
}

struct Traced {
  const char* name;
  std::function<void(const std::filesystem::path&)> write;
  AuditOptions options;
};
void PrintTo(const Traced& traced, std::ostream* out) { *out << traced.name; }

class EveryChange : public ::testing::TestWithParam<Traced> {};

TEST_P(EveryChange, OfATraceIsFound) {
  const TemporaryDirectory dir;
  GetParam().write(dir.path());
  const auto report = audit(dir.path(), GetParam().options);
  ASSERT_TRUE(report.passed()) << rota::cli::audit_text(report, "run", true);
  EXPECT_THAT(unnoticed(dir.path(), GetParam().options), ::testing::IsEmpty());
  EXPECT_THAT(lost_unnoticed(dir.path(), GetParam().options), ::testing::IsEmpty());
}

// Three epochs, of which a sample's bytes are seen three times; nothing is changed alike on all ranks.
void write_samples(const std::filesystem::path& dir, rota::Tail tail, rota::Split split) {
  const auto make = rota::test::one_dataset(
      21, {.global_batch_size = 8, .shards = 4, .tail = tail, .rank_split = split, .epochs = 3});
  const auto stopped = rota::test::run_phase(dir, make, 0, 3, {}, 4);
  rota::test::run_phase(dir, make, 1, 2, stopped);
}

void write_mixture(const std::filesystem::path& dir) {
  const auto make = rota::test::two_datasets({.global_batch_size = 9, .shards = 4, .epochs = 2},
                                             rota::MixtureEnd::all_exhausted);
  const auto stopped = rota::test::run_phase(dir, make, 0, 3, {}, 5);
  rota::test::run_phase(dir, make, 1, 2, stopped);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, EveryChange,
    ::testing::Values(
        Traced{"Partial",
               [](const auto& dir) { write_samples(dir, rota::Tail::partial, rota::Split::by_sample); },
               {.samples = {21}, .epochs = 3}},
        Traced{"CarryByShard",
               [](const auto& dir) { write_samples(dir, rota::Tail::carry, rota::Split::by_shard); },
               {.samples = {21}, .epochs = 3}},
        Traced{"PadInterleaved",
               [](const auto& dir) { write_samples(dir, rota::Tail::pad, rota::Split::interleaved); },
               {.samples = {21}, .epochs = 3}},
        Traced{"Mixture", write_mixture, {.samples = {40, 24}}},
        Traced{"Stream", [](const auto& dir) { FakeStream().write(dir); }, {.samples = {10}, .epochs = 2}}),
    [](const auto& test) { return test.param.name; });

}  // namespace rota::test::audit_mutation_test
