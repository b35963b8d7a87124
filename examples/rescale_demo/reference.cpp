#include "reference.hpp"

#include <string>
#include <utility>

#include "dataset.hpp"
#include "rota/loader.hpp"
#include "rota/resume.hpp"
#include "rota/trace.hpp"

namespace rescale_demo {
namespace {

constexpr int kWorkers = 2;

// Up to `world.steps` batches, into a trace of their own.
std::int64_t run_part(rota::Loader& loader, const WorldOptions& world, std::int64_t phase,
                      const std::filesystem::path& dir) {
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
  rota::LoaderOptions how = options.run.loader;
  how.workers = kWorkers;
  std::int64_t steps = 0;
  std::int64_t phase = 0;
  if (options.run.datasets == 0) {
    rota::Loader loader(std::move(source), how, rota::World{});
    for (const WorldOptions& world : options.worlds) {
      loader.set_global_batch_size(world.batch);
      steps += run_part(loader, world, phase++, dir);
    }
    return steps;
  }
  std::string state;
  for (const WorldOptions& world : options.worlds) {  // another loader where datasets come
    how.plan = plan_of(source->size(), options.run, world.datasets);
    rota::Loader loader(mixture_of(source, options.run, world.datasets), how, rota::World{});
    if (!state.empty()) rota::restore(loader, state);
    steps += run_part(loader, world, phase++, dir);
    state = rota::state(loader);
  }
  return steps;
}

}  // namespace rescale_demo
