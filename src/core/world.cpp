#include "rota/world.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "core/failure.hpp"
#include "core/message.hpp"
#include "core/text.hpp"

namespace rota {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
};

// The nearest first. A job script of Slurm has SLURM_PROCID, too, but is no step: only srun sets the number
// of tasks of one.
constexpr std::array<Launcher, 4> kLaunchers{{{"torchrun", "RANK", "WORLD_SIZE"},
                                              {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                              {"mpirun", "PMI_RANK", "PMI_SIZE"},
                                              {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}}};

int parse(const char* name, std::string_view text) {
  if (const auto value = internal::whole_number<int>(text)) return *value;
  throw internal::failure(ErrorCode::invalid_argument,
                          "read the world from the environment: {}=\"{}\" is not a number", name, text);
}

}  // namespace

// What has threads of its own asks at every call, and a system call takes as long as a short one of these.
int internal::this_process() noexcept {
  static std::atomic<int> process = 0;
  static const int is_watched = ::pthread_atfork(nullptr, nullptr, [] { process = ::getpid(); });
  if (is_watched != 0) return ::getpid();
  if (process == 0) process = ::getpid();
  return process;
}

void World::validate() const {
  if (size >= 1 && rank >= 0 && rank < size && replica >= 0) return;
  throw internal::failure(
      ErrorCode::invalid_argument,
      "make a world of rank {} of {}, replica {}: it must hold that 0 <= rank < size and replica >= 0", rank,
      size, replica);
}

World world_from_environment() {
  static std::atomic_flag was_told;
  const internal::Launched found = internal::launched();
  if (found.world.rank == 0 && found.world.size > 1 && !was_told.test_and_set()) {
    internal::tell(fmt::format("the world is {}'s: rank 0 of {}", found.by, found.world.size));
  }
  return found.world;
}

internal::Launched internal::launched() {
  for (const auto& [launcher, rank_name, size_name] : kLaunchers) {
    const char* rank = std::getenv(rank_name);  // NOLINT(concurrency-mt-unsafe): read only
    const char* size = std::getenv(size_name);  // NOLINT(concurrency-mt-unsafe): read only
    const bool is_script = size == nullptr && std::string_view(launcher) == "srun";
    if (is_script || (rank == nullptr && size == nullptr)) continue;
    if (rank == nullptr || size == nullptr) {
      throw internal::failure(ErrorCode::invalid_argument,
                              "read the world from the environment: {} is set and {} is not",
                              rank ? rank_name : size_name, rank ? size_name : rank_name);
    }
    const World world{.rank = parse(rank_name, rank), .size = parse(size_name, size)};
    world.validate();
    return {.world = world, .by = launcher, .named = size_name};
  }
  return {};
}

}  // namespace rota
