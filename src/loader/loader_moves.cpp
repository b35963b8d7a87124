// How a loader is moved, and sent on by other batches, weights, plans and worlds.

#include <algorithm>
#include <string>
#include <utility>

#include "core/failure.hpp"
#include "core/message.hpp"
#include "loader/loader_impl.hpp"
#include "ranks/collectives.hpp"

namespace rota {

using internal::RunAccess;

void Loader::Impl::moved(std::string_view by) {
  rules.restored();
  settling.restart(delivered, world, by);
  change_and_restart();
}

void Loader::seek(const Position& position) {
  impl().delivered.seek(position);
  impl().moved("seek()");
}
void Loader::seek(const Position& position, const MixtureState& mixture) {
  impl().delivered.seek(position, mixture);
  impl().moved("seek()");
}
void Loader::seek_step(std::int64_t step) {
  impl().delivered.seek_step(step);
  impl().moved("seek_step()");
}
void Loader::restart() {
  Impl& run = impl();
  run.delivered.restart();
  run.rules.restarted();
  run.settling.restart(run.delivered, run.world, "restart()");
  run.change_and_restart();
}

void Loader::begin_for() {
  Impl& run = impl();
  if (run.options.evaluation && run.delivered.position() != Position{}) restart();
  run.compare();
  std::string said;
  if (run.settling.has_more(run.delivered, run.world)) return;
  run.rules.begin(run.delivered, said);
  if (!said.empty() && !std::exchange(run.has_told, true)) internal::tell(said);
}

void Loader::Impl::require_sources(const Run& run) const {
  const std::vector<std::string>& names = RunAccess::order(run)->names;
  const std::vector<std::string> own = mixture.names();
  for (std::size_t d = 0; d < names.size(); ++d) {
    if (std::ranges::find(own, names[d]) != own.end()) continue;
    for (const internal::Stretch& stretch : RunAccess::path(run).stretches()) {
      const bool is_past = stretch.begin.step < RunAccess::stretch(run).begin.step;
      if (is_past || stretch.mixture()->weights[d] == 0) continue;
      throw internal::failure(
          ErrorCode::invalid_argument,
          "give the dataset {} turns from step {} on: it was left out when the run went on; leave "
          "it out here, too, or make the loader with it again",
          names[d], stretch.begin.step);
    }
  }
}

void Loader::set_weights(std::span<const double> weights) {
  Impl& run = impl();
  Run changed = run.delivered;
  changed.set_weights(weights);
  run.require_sources(changed);
  run.delivered = changed;
  run.settling.ledger()->keep_from(run.delivered.position());
  run.change_and_restart();
}

void Loader::rescale(World world) {
  Impl& run = impl();
  world.validate();
  run.settling.rescale(run.delivered, std::exchange(run.world, world), world);
  run.change_and_restart();
}

void Loader::rescale(const Communicator& comm) {
  std::string mine;
  comm.together("rescale loaders",
                [&] { mine = impl().described(); });  // which asks the source, of some first
  ranks::require_same(comm, "rescale loaders", mine);
  comm.together("rescale loaders", [&] { rescale(comm.world()); });
  impl().counter.count_with(comm);
}

void Loader::set_global_batch_size(std::int64_t size) {
  Impl& run = impl();
  run.delivered.set_global_batch_size(size);
  run.options.global_batch_size = size;
  run.change_and_restart();
}

void Loader::replan(const RunPlan& plan) {
  Impl& run = impl();
  Run changed = run.delivered;
  changed.replan(plan);
  run.require_sources(changed);
  run.delivered = changed;
  run.options.plan = plan;
  run.settling.ledger()->keep_from(run.delivered.position());
  run.change_and_restart();
}

}  // namespace rota
