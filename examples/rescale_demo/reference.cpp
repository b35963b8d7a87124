#include "reference.hpp"

#include <utility>

#include "rota/loader.hpp"
#include "rota/trace.hpp"

namespace rescale_demo {
namespace {

constexpr int kWorkers = 2;

// Up to `world.steps` batches, into a trace of their own.
std::int64_t run_part(rota::Loader& loader, const WorldOptions& world, std::int64_t phase,
                      const std::filesystem::path& dir) {
  loader.set_global_batch_size(world.batch);
  rota::TraceWriter trace(dir, loader, phase);
  std::int64_t steps = 0;
  while (!world.steps || steps < *world.steps) {
    const auto batch = loader.next();
    if (!batch) break;
    trace.write(*batch);
    ++steps;
  }
  trace.end(loader);
  return steps;
}

}  // namespace

std::int64_t run_reference(std::shared_ptr<const rota::Source> source, const DriverOptions& options,
                           const std::filesystem::path& dir) {
  rota::LoaderOptions loader_options = options.run.loader;
  loader_options.workers = kWorkers;
  rota::Loader loader(std::move(source), loader_options, rota::World{.rank = 0, .size = 1});
  std::int64_t steps = 0;
  std::int64_t phase = 0;
  for (const WorldOptions& world : options.worlds) steps += run_part(loader, world, phase++, dir);
  return steps;
}

}  // namespace rescale_demo
