// Saves to a file system that is full in between.

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "endurance.hpp"
#include "mpi/collectives.hpp"
#include "programs.hpp"
#include "rota/error.hpp"
#include "saved_state.hpp"

namespace rota::test {
namespace {

namespace fs = std::filesystem;

// Says `WHAT: ok STEP` or `WHAT: <code>: <message>`.
class Disk {
 public:
  Disk(const rota::mpi::Session& session, const Report& report, const Arguments& arguments)
      : session_(session),
        report_(report),
        path_(arguments.at(0)),
        ballast_(path_.parent_path() / "ballast"),
        is_async_(arguments.at(2) == "async"),
        directory_(session.comm(), path_, {.writer = writer_of(arguments.at(1))}) {}

  void run() {
    save("first", 1, kDiskBytes);
    save("too large", 2, 10 * kDiskBytes);
    look("after it");
    at_root([&] { fill(); });
    save("full", 3, kDiskBytes);
    look("while full");
    at_root([&] { fs::remove(ballast_); });
    save("again", 4, kDiskBytes);
    look("at the end");
  }

 private:
  template <typename Work>
  void at_root(Work&& work) {
    rota::mpi::together(session_.comm(), "prepare", [&] {
      if (session_.world().rank == 0) work();
    });
  }

  // Leaves no room at all.
  void fill() {
    std::ofstream file(ballast_, std::ios::binary);
    const std::string block(4096, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) continue;
  }

  void save(const std::string& what, std::int64_t step, std::int64_t bytes) {
    attempt(what, [&] {
      rota::Snapshot state = rota::test::make_state(step, session_.world(), bytes);
      if (!is_async_) return directory_.save(step, state).info.step;
      directory_.save_async(step, std::move(state));
      return directory_.wait().value().info.step;
    });
  }

  // Also sees to it that nothing else is left in the directory.
  void look(const std::string& what) {
    attempt(what, [&] {
      const auto newest = directory_.latest();
      const std::string wrong = newest ? rota::test::difference(*newest, kDiskBytes) : "nothing is left";
      if (!wrong.empty()) throw rota::Error(rota::ErrorCode::corrupt, wrong);
      for (const auto& entry : fs::directory_iterator(path_)) {
        if (entry.path().extension() != ".h5") throw rota::Error(rota::ErrorCode::io, entry.path().string());
      }
      return newest->info().step;
    });
  }

  template <typename Work>
  void attempt(const std::string& what, Work&& work) {
    std::string text;
    try {
      text = "ok " + std::to_string(work());
    } catch (const rota::Error& error) {
      text = std::string(to_string(error.code())) + ": " + error.what();
    }
    rota::mpi::agree(session_.comm(), "go on", nullptr);
    report_.say(what + ": " + text);
  }

  const rota::mpi::Session& session_;
  const Report& report_;
  fs::path path_;
  fs::path ballast_;
  bool is_async_;
  rota::CheckpointDirectory directory_;
};

}  // namespace

void run_disk(const rota::mpi::Session& session, const Report& report, const Arguments& arguments) {
  Disk(session, report, arguments).run();
}

}  // namespace rota::test
