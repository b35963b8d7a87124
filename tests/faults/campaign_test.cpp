// Whatever call of whatever rank fails, is cut short, is lost, comes late or is the last of its process: all
// ranks hear the same, nothing hangs, and the state that was there before is there still, or the new one is.

#include "faults.hpp"
#include "launch.hpp"

namespace rota::test::campaign_test {

// A save in which call `at` of `rank`, a `call`, meets a fault.
struct Case {
  fs::path directory;
  int rank = 0;
  std::int64_t at = 0;
  Kind kind = Kind::count;
  std::string call;

  CaseReport saving = {};      // of the save with the fault, and of the next
  CaseReport after = {};       // what a fresh job found after the save with the fault
  CaseReport in_the_end = {};  // and after the next

  // Whether the job does not live on after such a fault.
  bool ends_job() const { return kind == Kind::kill || kind == Kind::late; }
};

// ---- what must be true of each ----

// What all ranks said alike; empty where they did not. Of missed deadlines each has its own story.
std::string common(const CaseReport& report, const std::string& what) {
  std::set<std::string> texts;
  for (const Said& one : report) {
    const std::string text = said(one, what);
    texts.insert(text.starts_with("timeout: ") ? "timeout" : text);
  }
  return texts.size() == 1 ? *texts.begin() : "";
}

std::string all_of(const CaseReport& report, const std::string& what) {
  std::string text;
  for (const Said& one : report) text += "\n    " + said(one, what);
  return text;
}

std::string step(std::int64_t number) { return fmt::format("step {}", number); }

std::string violation_of_restore(const CaseReport& found, const std::set<std::string>& allowed) {
  for (const Said& one : found) {
    if (said(one, "failed") != "no") return "restoring failed: " + said(one, "failed");
    if (!allowed.contains(said(one, "restored"))) return "restored " + said(one, "restored");
    if (said(one, "then") != "saved") return "after one more save: " + said(one, "then");
  }
  return common(found, "restored").empty() ? "ranks differ:" + all_of(found, "restored") : "";
}

std::string violation_of_kill(const Case& killed) {
  for (const Said& one : killed.saving) {
    const std::string first = said(one, "first");
    if (first != "saved" && first != "(nothing)") return "a rank went on to an error: " + first;
  }
  if (common(killed.saving, "first") == "saved") return violation_of_restore(killed.after, {step(kNewStep)});
  return violation_of_restore(killed.after, {step(kOldStep), step(kNewStep)});
}

std::string violation_of_fault(const Case& failed) {
  const std::string first = common(failed.saving, "first");
  if (first.empty() || first == "(nothing)") return "ranks differ:" + all_of(failed.saving, "first");
  const Said& there = failed.saving.at(static_cast<std::size_t>(failed.rank));
  if (first != "timeout" && said(there, "hit") != failed.call) {
    return "hit " + said(there, "hit") + ";" + all_of(failed.saving, "first");
  }
  std::set<std::string> allowed;
  if (first != "saved" || failed.kind == Kind::dropped) allowed.insert(step(kOldStep));
  // What is published, and cannot be taken back where nothing works any more, is whole.
  const bool may_be_there = first == "saved" || first == "timeout" || failed.kind == Kind::broken;
  if (may_be_there) allowed.insert(step(kNewStep));
  if (auto bad = violation_of_restore(failed.after, allowed); !bad.empty()) return first + ", then " + bad;
  if (first == "timeout") return {};
  if (common(failed.saving, "again") != "saved") return "the next save:" + all_of(failed.saving, "again");
  return violation_of_restore(failed.in_the_end, {step(kNextStep)});
}

// What is wrong with how the case went; empty where all is well.
std::string violation_of(const Case& a_case) {
  const std::string code = said(a_case.saving.front(), "ended");
  if (code == "124" || (code == "137" && a_case.kind != Kind::kill)) return "had to be stopped";
  return a_case.kind == Kind::kill ? violation_of_kill(a_case) : violation_of_fault(a_case);
}

// ---- the cases ----

// Those that can happen to such a call, or that its caller could take for success.
std::vector<Kind> kinds_for(std::string_view call) {
  using enum Kind;
  if (call == "readdir") return {eio};  // all else as at the next call
  std::vector<Kind> kinds{eio, kill, late, broken};
  const auto add = [&](const std::vector<Kind>& more) {
    kinds.insert(kinds.end(), more.begin(), more.end());
  };
  if (call == "write" || call == "allocate") add({enospc, full, partial, eintr, dropped});
  if (call == "create" || call == "truncate") add({enospc, full, eintr});
  if (call == "truncate" || call == "unlink" || call == "mkdir") add({dropped});
  if (call == "fsync" || call == "rename") add({enospc, dropped});
  if (call == "close") add({enospc});
  if (call == "read") add({partial, dropped});
  if (call == "open" || call == "close" || call == "read" || call == "fsync") add({eintr});
  if (call == "lock") add({eintr, dropped});
  return kinds;
}

// Saves in one way at one number of ranks, and restores at another.
class Faults : public TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override {
#ifdef ROTA_FAULTS_SKIPPED
    GTEST_SKIP() << ROTA_FAULTS_SKIPPED;
#endif
    fs::create_directory(below_);
  }

  // Every call of every rank that a save makes with every kind of fault that makes sense for it.
  std::vector<Case> all_cases() const {
    const CaseReport counted =
        launch_below("save", ranks_, {fmt::format("{} {} 0 0 count", how_, (below_ / "count").string())})
            .cases.at(0);
    std::vector<Case> cases;
    for (int rank = 0; rank < ranks_; ++rank) {
      std::istringstream calls(said(counted.at(static_cast<std::size_t>(rank)), "calls"));
      std::int64_t at = 0;
      for (std::string call; calls >> call; ++at) {
        for (const Kind kind : kinds_for(call)) {
          if (kind == Kind::late && ranks_ == 1) continue;  // for nobody waits for it
          const fs::path directory = below_ / std::to_string(cases.size());
          cases.push_back({.directory = directory, .rank = rank, .at = at, .kind = kind, .call = call});
        }
      }
    }
    return cases;
  }

  // Of those that share a job, the first of each kind at each name of a call, and at each fsync, and every
  // `every`-th; of those that end a job, every `every_alone`-th.
  std::vector<Case> some_cases(std::size_t every, std::size_t every_alone) const {
    std::set<std::pair<std::string, Kind>> seen;
    std::array<std::size_t, 2> counts{};
    std::vector<Case> some;
    for (Case& one : all_cases()) {
      const std::string which = one.call == "fsync" ? one.call + std::to_string(one.at) : one.call;
      const bool is_new = seen.emplace(which, one.kind).second && !one.ends_job();
      const std::size_t nth = counts.at(one.ends_job() ? 1 : 0)++;
      const std::size_t step = one.ends_job() ? every_alone : every;
      if (nth % step == step / 2 || is_new) some.push_back(std::move(one));
    }
    return some;
  }

  void expect_old_or_new(std::vector<Case> cases) const {
    ASSERT_GE(cases.size(), 20U);
    std::vector<Case*> together;
    std::vector<Case*> alone;
    for (Case& one : cases) (one.ends_job() ? alone : together).push_back(&one);
    save(together);
    do_at_once(3, alone.size(), [&](std::size_t i) { save({alone[i]}); });
    restore(cases);
    for (const Case& one : cases) {
      EXPECT_EQ(violation_of(one), "")
          << to_string(one.kind) << " at call " << one.at << " (" << one.call << ") of rank " << one.rank;
    }
  }

 private:
  Launched launch_below(const std::string& job, int ranks, const std::vector<std::string>& lines) const {
    return launch(job, ranks, lines, 90, interposed_below(below_));
  }

  // So few in a launch that it never takes long. Where one dies, or hangs, in the middle, the next goes on
  // with those cases that are left. Of its last case rank 0 also says how it ended.
  std::vector<CaseReport> run_all(const std::string& job, int ranks,
                                  const std::vector<std::string>& lines) const {
    constexpr std::size_t kAtOnce = 150;
    std::vector<CaseReport> reports;
    while (reports.size() < lines.size()) {
      const auto begin = lines.begin() + std::ssize(reports);
      const Launched part =
          launch_below(job, ranks, {begin, begin + std::min<std::ptrdiff_t>(kAtOnce, lines.end() - begin)});
      if (part.cases.empty()) throw std::runtime_error("the job did not even start: " + part.ended.output);
      reports.insert(reports.end(), part.cases.begin(), part.cases.end());
      reports.back().front()["ended"] = std::to_string(part.ended.code);
    }
    return reports;
  }

  void save(const std::vector<Case*>& cases) const {
    std::vector<std::string> lines;
    for (const Case* one : cases) {
      lines.push_back(fmt::format("{} {} {} {} {}", how_, one->directory.string(), one->rank, one->at,
                                  to_string(one->kind)));
    }
    const auto reports = run_all("save", ranks_, lines);
    for (std::size_t i = 0; i < cases.size(); ++i) cases[i]->saving = reports[i];
  }

  void restore(std::vector<Case>& cases) const {
    std::vector<std::string> lines;
    std::vector<CaseReport*> found;
    for (Case& one : cases) {
      // What died or was stopped left no copy of the directory as it was then.
      const bool has_copy = fs::exists(one.directory.string() + ".after");
      lines.push_back(one.directory.string() + (has_copy ? ".after" : ""));
      found.push_back(&one.after);
      if (!has_copy) continue;
      lines.push_back(one.directory.string());
      found.push_back(&one.in_the_end);
    }
    const auto reports = run_all("restore", ranks_ == 1 ? 2 : ranks_ - 1, lines);
    for (std::size_t i = 0; i < found.size(); ++i) *found[i] = reports[i];
  }

  std::string how_ = std::get<0>(GetParam());
  int ranks_ = std::get<1>(GetParam());
  TemporaryDirectory directory_ = make_fast_directory();
  fs::path below_ = directory_ / "cases";
};
using FaultsCampaign = Faults;

TEST_P(Faults, LeaveTheOldStateOrTheNewOneOnAllRanks) { expect_old_or_new(some_cases(1000, 21)); }

TEST_P(FaultsCampaign, LeaveTheOldStateOrTheNewOneOnAllRanks) {
  expect_old_or_new(std::get<1>(GetParam()) < 4 ? all_cases() : some_cases(2, 4));
}

const auto name = [](const auto& test) {
  return fmt::format("{}{}", std::get<0>(test.param), std::get<1>(test.param));
};
INSTANTIATE_TEST_SUITE_P(Each, Faults, Combine(Values("direct", "background"), Values(2)), name);
INSTANTIATE_TEST_SUITE_P(Each, FaultsCampaign, Combine(Values("direct", "background"), Values(1, 2, 4)),
                         name);

}  // namespace rota::test::campaign_test
