#pragma once

// One rank that stops, is slow, or throws at one point of a save or a restore: what the program and its tests
// agree on. A case is a line
//
//   DIRECTORY save|async|restore direct|collective RANK POINT HITCH
//
// The program saves kOldStep, lets the hitch befall the operation (a save is one of kNewStep), then looks at
// the newest checkpoint, and saves kNextStep. Each rank reports lines `CASE WHAT MILLISECONDS TEXT`, WHAT
// being `pid` (its process, at the start), `hit` (the point, as it comes there), `did` (how the operation
// ended), `names` (what the directory holds then), `newest` and `next` (how the others ended), and TEXT
// `ok STEP` or `<code>: <message>`.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <ostream>
#include <string>
#include <string_view>

namespace rota::test {

inline constexpr std::int64_t kOldStep = 1;
inline constexpr std::int64_t kNewStep = 2;
inline constexpr std::int64_t kNextStep = 3;
inline constexpr std::int64_t kStallBytes = 60'000;

/// What befalls the rank: it stops for good; it stops, and goes on `kReturn` later, when it has just been
/// given up; it stops for `kPause`, or the call takes as long; it fails.
inline constexpr std::string_view kStops = "stops";
inline constexpr std::string_view kReturns = "returns";
inline constexpr std::string_view kPauses = "pauses";
inline constexpr std::string_view kLags = "lags";
inline constexpr std::string_view kThrows = "throws";
inline constexpr std::chrono::milliseconds kPause{300};

/// The deadline where a rank stops, and where none does.
inline constexpr std::chrono::milliseconds kMissedDeadline{1500};
inline constexpr std::chrono::milliseconds kReturn{2200};
inline constexpr std::chrono::milliseconds kLongDeadline{20'000};

struct Stall {
  std::filesystem::path directory;
  std::string operation;
  std::string writer;
  int rank = 0;
  std::string point;
  std::string hitch;

  friend std::ostream& operator<<(std::ostream& out, const Stall& stall) {
    return out << stall.directory.string() << ' ' << stall.operation << ' ' << stall.writer << ' '
               << stall.rank << ' ' << stall.point << ' ' << stall.hitch;
  }
  friend std::istream& operator>>(std::istream& in, Stall& stall) {
    std::string path;
    in >> path >> stall.operation >> stall.writer >> stall.rank >> stall.point >> stall.hitch;
    stall.directory = path;
    return in;
  }
};

}  // namespace rota::test
