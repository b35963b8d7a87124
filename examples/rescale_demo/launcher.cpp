#include "launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <thread>

#include "rota/error.hpp"

namespace rescale_demo {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::milliseconds(5);
constexpr auto kGrace = std::chrono::seconds(5);  // mpirun ends its ranks by itself
constexpr std::size_t kQuoted = 4000;             // bytes of a failed child's output

volatile std::sig_atomic_t interrupted = 0;

extern "C" void on_interrupt(int /*signal*/) { interrupted = 1; }

// Notes SIGINT and SIGTERM while it lives.
class Interrupts {
 public:
  Interrupts() {
    struct sigaction action {};
    action.sa_handler = on_interrupt;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &former_[0]);
    sigaction(SIGTERM, &action, &former_[1]);
  }
  ~Interrupts() {
    sigaction(SIGINT, &former_[0], nullptr);
    sigaction(SIGTERM, &former_[1], nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  std::array<struct sigaction, 2> former_{};
};

[[noreturn]] void fail(rota::ErrorCode code, const std::string& message) { throw rota::Error(code, message); }

std::string tail_of(const std::filesystem::path& log) {
  std::ifstream stream(log, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (text.size() > kQuoted) text = "..." + text.substr(text.size() - kQuoted);
  return text;
}

// A child in a process group of its own, whose number is the child's.
class Child {
 public:
  Child(std::vector<std::string> command, const std::filesystem::path& log) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0666);
    posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int error = posix_spawnp(&pid_, arguments[0], &actions_, &attributes_, arguments.data(), environ);
    if (error == 0) return;
    release();
    fail(
        rota::ErrorCode::not_found,
        fmt::format("start {}: {}; install Open MPI or put its bin directory on PATH, or start the phases by "
                    "--phase under a launcher of your own",
                    command[0], std::generic_category().message(error)));
  }
  ~Child() {
    if (!status_) stop();
    release();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The status once the child has ended, nothing where it has not by `until`.
  std::optional<int> wait(Clock::time_point until) {
    while (!status_ && interrupted == 0) {
      int status = 0;
      const pid_t ended = waitpid(pid_, &status, WNOHANG);
      if (ended == pid_ || (ended < 0 && errno != EINTR)) {
        status_ = status;
      } else if (Clock::now() >= until) {
        break;
      } else {
        std::this_thread::sleep_for(kPoll);
      }
    }
    return status_;
  }

 private:
  void stop() {
    interrupted = 0;
    kill(-pid_, SIGTERM);
    if (wait(Clock::now() + kGrace)) return;
    kill(-pid_, SIGKILL);
    wait(Clock::now() + kGrace);
  }
  void release() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
  pid_t pid_ = -1;
  std::optional<int> status_;
};

}  // namespace

void launch(int ranks, const std::vector<std::string>& arguments, const std::filesystem::path& log,
            std::chrono::seconds timeout) {
  std::vector<std::string> command{"mpirun", "-n", std::to_string(ranks),
                                   std::filesystem::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  interrupted = 0;
  const Interrupts interrupts;
  Child child(std::move(command), log);
  const auto status = child.wait(Clock::now() + timeout);
  if (!status && interrupted != 0) fail(rota::ErrorCode::io, "interrupted by a signal");
  if (!status) {
    fail(rota::ErrorCode::timeout,
         fmt::format("not done after {} s; it printed:\n{}", timeout.count(), tail_of(log)));
  }
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return;
  const auto how = WIFEXITED(*status) ? fmt::format("exit code {}", WEXITSTATUS(*status))
                                      : fmt::format("signal {}", WTERMSIG(*status));
  fail(rota::ErrorCode::io, fmt::format("{}; it printed:\n{}", how, tail_of(log)));
}

void prepare_mpi_environment() {
  constexpr std::array<std::array<const char*, 2>, 7> kSettings{{
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
      {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},  // Open MPI 5
      {"OMPI_MCA_hwloc_base_binding_policy", "none"},
      {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
      {"OMPI_MCA_mpi_yield_when_idle", "1"},
  }};
  for (const auto& [name, value] : kSettings) {
    setenv(name, value, 0);  // NOLINT(concurrency-mt-unsafe): the program has one thread at this point
  }
}

}  // namespace rescale_demo
