// The shortest use of rota: every file below a directory is a sample; stop the program and start it again,
// with another number of ranks, and it goes on where it was.
//
//   mpirun -n 4 quickstart /usr/include checkpoints

#include <fmt/format.h>

#include "rota/rota.hpp"

int main(int argc, char** argv) {
  rota::mpi::Session session(argc, argv);
  return session.run([&] {
    const std::string data = argc > 1 ? argv[1] : "/usr/include";
    const rota::Communicator& comm = session.comm();
    rota::Loader loader(comm, rota::open(comm, data), {.global_batch_size = 64, .seed = 42, .workers = 2});
    rota::CheckpointDirectory checkpoints(comm, argc > 2 ? argv[2] : "quickstart-checkpoints");
    checkpoints.restore_all(loader);

    rota::StopSignal stop(comm);
    std::int64_t bytes = 0;
    while (!stop.requested()) {
      const auto batch = loader.next();
      if (!batch) break;
      bytes += std::ssize(batch->tensor("data").bytes);  // train on it
      if (loader.position().step % 50 == 0) checkpoints.save_all(loader.position().step, loader);
    }
    checkpoints.save_all(loader.position().step, loader);
    fmt::print("rank {} of {}: {} bytes, step {}\n", comm.rank(), comm.size(), bytes, loader.position().step);
    return 0;
  });
}
