#include "jobs.hpp"
#include "child.hpp"
#include "faults.hpp"

namespace rota::test {

void save_so(CheckpointDirectory& directory, std::string_view how, std::int64_t step, Snapshot state) {
  if (how != "background") {
    directory.save(step, state);
    return;
  }
  directory.save_async(step, std::move(state));
  directory.wait();
}

Job::Job(const mpi::Session& session, fs::path report)
    : session_(&session),
      report_(std::move(report)),
      fd_(::open((report_ / std::to_string(world().rank)).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                 0666)) {
  if (fd_ < 0) throw std::runtime_error("cannot write a report into " + report_.string());
}

void Job::run(void (*work)(Job&, std::istream&)) {
  std::ifstream file(report_ / "cases");
  for (std::string line; std::getline(file, line); ++number_) {
    std::istringstream words(line);
    work(*this, words);
  }
}

void Job::say(std::string_view what, std::string text) const {
  std::ranges::replace(text, '\n', ' ');
  const std::string line = fmt::format("{}\t{}\t{}\n", number_, what, text);
  if (::write(fd_, line.data(), line.size()) < 0) throw std::runtime_error("cannot write a report");
}

void Job::attempt(std::string_view what, const std::function<std::string()>& work) const {
  const auto began = std::chrono::steady_clock::now();
  std::string text;
  std::exception_ptr missed;
  try {
    text = work();
  } catch (const Error& error) {
    text = fmt::format("{}: {}", to_string(error.code()), error.what());
    if (error.code() == ErrorCode::timeout) missed = std::current_exception();
  }
  say(fmt::format("ms of {}", what), std::to_string((std::chrono::steady_clock::now() - began) / 1ms));
  say(what, text);
  if (missed) std::rethrow_exception(missed);
}

void Job::at_root(const std::function<void()>& work) const {
  comm().together("prepare a case", [&] {
    if (world().rank == 0) work();
  });
}

int job(int argc, char** argv) {
  mpi::Session session(argc, argv, mpi::ThreadLevel::multiple);  // mpi_main.cpp has the other level
  return session.run([&] {
    const std::map<std::string, void (*)(Job&, std::istream&)> works{
        {"save", save}, {"restore", restore}, {"record", record}, {"cycle", cycle}, {"stall", stall}};
    Job(session, argv[2]).run(works.at(argv[1]));
    return 0;
  });
}

}  // namespace rota::test
