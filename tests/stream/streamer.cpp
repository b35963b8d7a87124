// Reads a stream with all ranks from the newest checkpoint on, and traces what it gets, until a rank is
// killed by itself, as by kill -9, or the run ends.
//   streamer [--dispatch] TRACES CHECKPOINTS BATCH [VICTIM STEPS]

#include "child.hpp"
#include "stream/numbered_stream.hpp"

namespace rota::test {
namespace {

constexpr std::int64_t kStepsPerSave = 5;

StreamLoader make_loader(const Communicator& comm, bool is_dispatched, std::int64_t batch) {
  const StreamLoaderOptions options{
      .global_batch_size = batch, .epochs = kStreamedEpochs, .workers = 1 + comm.rank() % 2};
  const auto source = streamed(is_dispatched);
  if (!is_dispatched) return {comm, source, options};
  return {comm, Dispatch{.source = comm.rank() == 0 ? source : nullptr, .shards = 16}, options};
}

int run(const mpi::Session& session, std::vector<std::string> arguments) {
  const bool is_dispatched = arguments[0] == "--dispatch";
  if (is_dispatched) arguments.erase(arguments.begin());
  StreamLoader loader = make_loader(session.comm(), is_dispatched, std::stoll(arguments[2]));
  CheckpointDirectory checkpoints(session.comm(), arguments[1]);
  checkpoints.restore_all(loader);
  TraceWriter trace(session.comm(), arguments[0], loader);
  const bool is_victim = arguments.size() > 3 && std::stoi(arguments[3]) == session.world().rank;
  std::int64_t steps = 0;
  while (const auto batch = loader.next()) {
    trace.write(*batch);
    if (is_victim && ++steps == std::stoll(arguments[4])) ::kill(::getpid(), SIGKILL);
    const std::int64_t step = loader.position().step;
    if (step % kStepsPerSave == 0) checkpoints.save_all(step, loader);
  }
  trace.end(loader);
  return 0;
}

}  // namespace

int streamer(int argc, char** argv) {
  mpi::Session session(argc, argv);
  return session.run([&] { return run(session, {argv + 1, argv + argc}); });
}

}  // namespace rota::test
