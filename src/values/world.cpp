#include "rota/world.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "rota/error.hpp"

namespace rota {
namespace {

struct Launcher {
  const char* rank;
  const char* size;
};

constexpr std::array<Launcher, 4> kLaunchers{{{"RANK", "WORLD_SIZE"},
                                              {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                              {"PMI_RANK", "PMI_SIZE"},
                                              {"SLURM_PROCID", "SLURM_NTASKS"}}};

int parse(const char* name, std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("read the world from the environment: {}=\"{}\" is not a number", name, text));
  }
  return value;
}

}  // namespace

int internal::this_process() noexcept { return ::getpid(); }

void World::validate() const {
  if (size >= 1 && rank >= 0 && rank < size && replica >= 0) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("make a world of rank {} of {}, replica {}: it must hold that 0 <= rank < size and "
                          "replica >= 0",
                          rank, size, replica));
}

World world_from_environment() {
  for (const auto& [rank_name, size_name] : kLaunchers) {
    const char* rank = std::getenv(rank_name);  // NOLINT(concurrency-mt-unsafe): read only
    const char* size = std::getenv(size_name);  // NOLINT(concurrency-mt-unsafe): read only
    if (rank == nullptr && size == nullptr) continue;
    if (rank == nullptr || size == nullptr) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("read the world from the environment: {} is set and {} is not",
                              rank ? rank_name : size_name, rank ? size_name : rank_name));
    }
    const World world{.rank = parse(rank_name, rank), .size = parse(size_name, size)};
    world.validate();
    return world;
  }
  return {};
}

}  // namespace rota
