#pragma once

// A campaign: one save after the other, each with another fault in another call of another rank, and what
// must be true of each.

#include <filesystem>
#include <string>
#include <vector>

#include "faults.hpp"
#include "launch.hpp"

namespace rota::test {

/// A save by `ranks` ranks, in which call `at` of `rank`, a `call`, meets a fault.
struct Case {
  std::filesystem::path directory;
  int rank = 0;
  std::int64_t at = 0;
  Kind kind = Kind::count;
  std::string call;

  CaseReport saving = {};  ///< of the save with the fault, and of the next
  Said after = {};         ///< what a fresh process found after the save with the fault
  Said in_the_end = {};    ///< and after the next
};

std::string describe(const Case& a_case);

/// What is wrong with how the case went; empty where all is well.
std::string violation_of(const Case& a_case);

[[nodiscard]] bool is_saved(const Case& a_case);
[[nodiscard]] bool is_timeout(const Case& a_case);

/// All cases of one writer at one number of ranks, in a directory of their own.
class Campaign {
 public:
  Campaign(std::string writer, int ranks);

  /// Every call of every rank that a save makes with every kind of fault that makes sense for it.
  [[nodiscard]] std::vector<Case> all_cases() const;
  /// A part of them: each kind that does not end the job at each name of a call, and at each fsync;
  /// and every so many of the rest.
  [[nodiscard]] std::vector<Case> some_cases() const;

  /// Saves with these faults, and restores what is left at another number of ranks.
  void run(std::vector<Case>& cases) const;

 private:
  void save_together(const std::vector<Case*>& cases) const;
  void save_alone(const std::vector<Case*>& cases) const;
  void restore(std::vector<Case>& cases) const;

  std::string writer_;
  int ranks_;
  rota::test::TemporaryDirectory directory_;
  Launcher launcher_;
};

}  // namespace rota::test
