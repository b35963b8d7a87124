#include "stall_cases.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

namespace rota::test {
namespace {

// A point, and whether a call there can fail.
struct Point {
  std::string_view name;
  bool can_throw = true;
};

std::vector<Point> points_of(std::string_view operation, std::string_view writer, bool is_root) {
  std::vector<Point> points{{"before", false}, {"state"}};
  const auto add = [&](std::initializer_list<Point> more) { points.insert(points.end(), more); };
  if (operation == "restore") {
    if (is_root) add({{"list"}});
    add({{"open"}, {"pread:0"}, {"pread:2"}});
    return points;
  }
  if (operation == "async") add({{"between", false}});
  if (is_root) {
    add({{"list:0"}, {"list:1"}, {"create"}, {"fallocate"}, {"pwrite:0"}});
    add({{"page"}, {"fsync:0"}, {"close"}, {"rename"}, {"fsync:1"}, {"unlink", false}});
  }
  if (writer == "collective") {
    add({{"mpi_open", false}, {"mpi_write"}, {"mpi_close"}});
  } else if (is_root) {
    add({{"pwrite:1"}});
  } else {
    add({{"open"}, {"pwrite:0"}, {"close"}});
  }
  return points;
}

// A process that has been killed closes its files, and so gives up its locks, before it is a zombie.
bool is_running(std::int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string number;
  std::string name;
  std::string state;
  file >> number >> name >> state;
  return name.starts_with("(endurance_dri") && state != "Z" && state != "X";
}

}  // namespace

std::vector<Stall> all_stalls(int ranks, std::string_view hitch) {
  std::vector<Stall> stalls;
  for (const auto& [operation, writer] : {std::pair{"save", "direct"},
                                          {"save", "collective"},
                                          {"async", "direct"},
                                          {"async", "collective"},
                                          {"restore", "direct"}}) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Point& point : points_of(operation, writer, rank == 0)) {
        if (hitch == kThrows && !point.can_throw) continue;
        stalls.push_back({.directory = {},
                          .operation = operation,
                          .writer = writer,
                          .rank = rank,
                          .point = std::string(point.name),
                          .hitch = std::string(hitch)});
      }
    }
  }
  return stalls;
}

std::vector<Stall> some_stalls(int ranks, std::string_view hitch, std::size_t count) {
  std::vector<Stall> stalls = all_stalls(ranks, hitch);
  if (wants_all() || stalls.size() <= count) return stalls;
  std::vector<Stall> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(stalls[(2 * i + 1) * stalls.size() / (2 * count)]);
  return some;
}

std::string describe(const Stalled& stalled) {
  std::ostringstream text;
  text << stalled.stall << " of " << stalled.said.size() << " ranks:\n";
  for (std::size_t rank = 0; rank < stalled.said.size(); ++rank) {
    for (const auto& [what, line] : stalled.said[rank]) {
      text << "  rank " << rank << " " << what << " " << line.milliseconds << " ms " << line.text << "\n";
    }
  }
  return text.str();
}

std::vector<Stalled> run_together(int ranks, std::vector<Stall> stalls, const std::filesystem::path& path,
                                  Launched& launched) {
  std::filesystem::create_directories(path);
  std::vector<Stalled> cases;
  std::ofstream file(path / "cases");
  for (std::size_t i = 0; i < stalls.size(); ++i) {
    stalls[i].directory = path / std::to_string(i);
    file << stalls[i] << '\n';
    cases.push_back({.stall = stalls[i], .said = std::vector<Said>(static_cast<std::size_t>(ranks))});
  }
  file.close();
  launched = launch(ranks, "phases", path / "report", (path / "cases").string(),
                    60 + 4 * static_cast<int>(stalls.size()));
  for (std::size_t rank = 0; rank < launched.reports.size(); ++rank) {
    for (const std::string& text : launched.reports[rank]) {
      std::istringstream words(text);
      std::size_t number = 0;
      std::string what;
      Line line;
      words >> number >> what >> line.milliseconds >> std::ws;
      std::getline(words, line.text);
      cases.at(number).said[rank][what] = line;
    }
  }
  return cases;
}

std::vector<std::int64_t> still_running(const Stalled& stalled) {
  std::vector<std::int64_t> pids;
  for (const Said& said : stalled.said) {
    if (const auto found = said.find("pid"); found != said.end())
      pids.push_back(std::stol(found->second.text));
  }
  for (int i = 0; i < 50; ++i) {
    std::erase_if(pids, [](std::int64_t pid) { return !is_running(pid); });
    if (pids.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return pids;
}

}  // namespace rota::test
