#include "campaign.hpp"

#include <array>
#include <atomic>
#include <future>
#include <ranges>
#include <set>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>

#include "steps.hpp"

namespace rota::test {
namespace {

namespace fs = std::filesystem;
using Kinds = std::vector<Kind>;

// Those that can happen to such a call, or that its caller could take for success.
Kinds kinds_for(std::string_view call) {
  using enum Kind;
  if (call == "readdir") return {eio};  // all else as at the next call
  Kinds kinds{eio, kill, late, broken};
  const auto add = [&](const Kinds& more) { kinds.insert(kinds.end(), more.begin(), more.end()); };
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

// Whether the job does not live on after such a fault.
bool ends_job(Kind kind) { return kind == Kind::kill || kind == Kind::late; }

std::string said(const Said& what, const std::string& key) {
  const auto found = what.find(key);
  return found == what.end() ? "(nothing)" : found->second;
}

// What all ranks said alike; empty where they did not. Of missed deadlines each has its own story.
std::string common(const CaseReport& report, const std::string& key) {
  const auto shortened = [&](const Said& what) {
    const std::string text = said(what, key);
    return text.starts_with("error timeout") ? std::string("error timeout") : text;
  };
  for (const Said& other : report) {
    if (shortened(other) != shortened(report.front())) return {};
  }
  return shortened(report.front());
}

std::string all_of(const CaseReport& report, const std::string& key) {
  std::string text;
  for (const Said& what : report) text += "\n    " + said(what, key);
  return text;
}

std::string step(std::int64_t number) { return "step " + std::to_string(number); }

std::string violation_of_restore(const Said& found, std::span<const std::string> allowed) {
  const std::string restored = said(found, "restored");
  if (found.contains("failed")) return "restoring failed: " + found.at("failed");
  if (std::ranges::find(allowed, restored) == allowed.end()) return "restored " + restored;
  if (said(found, "then") != "saved") return "after one more save: " + said(found, "then");
  return {};
}

std::string violation_of_kill(const Case& killed) {
  const std::array either{step(kOldStep), step(kNewStep)};
  const std::string first = all_of(killed.saving, "first");
  if (first.find("error") != std::string::npos) return "a rank went on to an error:" + first;
  return violation_of_restore(killed.after, is_saved(killed) ? std::span(either).last(1) : either);
}

std::string violation_of_fault(const Case& failed) {
  const std::string first = common(failed.saving, "first");
  if (first.empty() || first == "(nothing)") return "ranks differ:" + all_of(failed.saving, "first");
  std::vector<std::string> allowed{step(kOldStep)};
  if (first == "saved" && failed.kind != Kind::dropped) allowed.clear();
  // What is published, and cannot be taken back where nothing works any more, is whole.
  const bool may_be_there = first == "saved" || first == "error timeout" || failed.kind == Kind::broken;
  if (may_be_there) allowed.push_back(step(kNewStep));
  if (auto bad = violation_of_restore(failed.after, allowed); !bad.empty()) return first + ", then " + bad;
  if (first == "error timeout") return {};
  const std::string again = common(failed.saving, "again");
  if (again != "saved") return "the next save:" + all_of(failed.saving, "again");
  const std::array next{step(kNextStep)};
  return violation_of_restore(failed.in_the_end, next);
}

}  // namespace

std::string describe(const Case& a_case) {
  std::ostringstream text;
  text << to_string(a_case.kind) << " at call " << a_case.at << " (" << a_case.call << ") of rank "
       << a_case.rank;
  return text.str();
}

bool is_saved(const Case& a_case) { return common(a_case.saving, "first") == "saved"; }
bool is_timeout(const Case& a_case) { return common(a_case.saving, "first") == "error timeout"; }

std::string violation_of(const Case& a_case) {
  const std::string code = said(a_case.saving.front(), "ended");
  if (code == "124" || code == "137") {
    if (code == "124" || a_case.kind != Kind::kill) return "had to be stopped";
  }
  if (a_case.kind == Kind::kill) return violation_of_kill(a_case);
  const Said& there = a_case.saving.at(static_cast<std::size_t>(a_case.rank));
  if (!is_timeout(a_case) && said(there, "hit") != a_case.call) {
    return "hit " + said(there, "hit") + ";" + all_of(a_case.saving, "first");
  }
  return violation_of_fault(a_case);
}

Campaign::Campaign(std::string writer, int ranks)
    : writer_(std::move(writer)),
      ranks_(ranks),
      directory_(make_fast_directory()),
      launcher_(directory_ / "cases") {
  fs::create_directories(directory_ / "cases");
}

std::vector<Case> Campaign::all_cases() const {
  const std::string line = (directory_ / "cases" / "count").string() + " 0 0 count";
  const CaseReport counted = launcher_.run_all(ranks_, "save " + writer_, {line}).front();
  std::vector<Case> cases;
  for (int rank = 0; rank < ranks_; ++rank) {
    std::istringstream calls(said(counted.at(static_cast<std::size_t>(rank)), "calls"));
    std::int64_t at = 0;
    for (std::string call; calls >> call; ++at) {
      for (const Kind kind : kinds_for(call)) {
        if (kind == Kind::late && ranks_ == 1) continue;  // for nobody waits for it
        const fs::path directory = directory_ / "cases" / std::to_string(cases.size());
        cases.push_back({.directory = directory, .rank = rank, .at = at, .kind = kind, .call = call});
      }
    }
  }
  return cases;
}

std::vector<Case> Campaign::some_cases() const {
  std::set<std::pair<std::string, Kind>> seen;
  std::array<int, 2> counts{};
  constexpr std::array kEvery{7, 19};  // of those that can share a job, of the others
  std::vector<Case> some;
  for (Case& one : all_cases()) {
    const std::size_t alone = ends_job(one.kind) ? 1 : 0;
    const std::string which = one.call == "fsync" ? one.call + std::to_string(one.at) : one.call;
    const bool is_new = seen.emplace(which, one.kind).second && alone == 0;
    if (counts.at(alone)++ % kEvery.at(alone) == ranks_ || is_new) some.push_back(std::move(one));
  }
  return some;
}

void Campaign::run(std::vector<Case>& cases) const {
  std::vector<Case*> alone;
  std::vector<Case*> together;
  for (Case& one : cases) (ends_job(one.kind) ? alone : together).push_back(&one);
  save_together(together);
  save_alone(alone);
  restore(cases);
}

namespace {
std::string to_line(const Case& a_case) {
  return a_case.directory.string() + " " + std::to_string(a_case.rank) + " " + std::to_string(a_case.at) +
         " " + std::string(to_string(a_case.kind));
}
}  // namespace

void Campaign::save_together(const std::vector<Case*>& cases) const {
  std::vector<std::string> lines;
  for (const Case* one : cases) lines.push_back(to_line(*one));
  std::vector<CaseReport> reports = launcher_.run_all(ranks_, "save " + writer_, lines);
  for (std::size_t i = 0; i < cases.size(); ++i) cases[i]->saving = std::move(reports[i]);
}

// Each needs a job of its own, which mostly waits: some at a time.
void Campaign::save_alone(const std::vector<Case*>& cases) const {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < cases.size(); i = next++) {
      cases[i]->saving = launcher_.run_all(ranks_, "save " + writer_, {to_line(*cases[i])}).front();
    }
  };
  std::vector<std::future<void>> workers(3);
  for (auto& worker : workers) worker = std::async(std::launch::async, work);
  for (auto& worker : workers) worker.get();
}

void Campaign::restore(std::vector<Case>& cases) const {
  std::vector<std::string> lines;
  std::vector<Said*> found;
  const auto add = [&](const std::string& directory, Said& into) {
    lines.push_back(directory);
    found.push_back(&into);
  };
  for (Case& one : cases) {
    // What died or was stopped left no copy of the directory as it was then.
    const bool has_copy = fs::exists(one.directory.string() + ".after");
    add(one.directory.string() + (has_copy ? ".after" : ""), one.after);
    if (has_copy) add(one.directory.string(), one.in_the_end);
  }
  const int ranks = ranks_ == 1 ? 2 : ranks_ - 1;
  const std::vector<CaseReport> reports = launcher_.run_all(ranks, "restore", lines);
  for (std::size_t i = 0; i < found.size(); ++i) {
    *found[i] = reports[i].front();
    // Where any rank saw something else, that is what counts.
    for (const Said& other : reports[i]) {
      if (said(other, "restored") != said(reports[i].front(), "restored")) *found[i] = other;
    }
  }
}

}  // namespace rota::test
