// How a loader is moved, and sent on by other batches, weights, plans and worlds.

#include <string>
#include <utility>

#include "core/message.hpp"
#include "loader/loader_impl.hpp"
#include "ranks/collectives.hpp"

namespace rota {

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

void Loader::set_weights(std::span<const double> weights) {
  Impl& run = impl();
  run.delivered.set_weights(weights);
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
  run.delivered.replan(plan);
  run.options.plan = plan;
  run.settling.ledger()->keep_from(run.delivered.position());
  run.change_and_restart();
}

}  // namespace rota
