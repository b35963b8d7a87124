// Many small files become a few shards, in a directory or a bucket, from which ranks then read: each shard
// comes once to a node, ahead of its need, and checkpoints are copied to where the shards are.
//
//   mpirun -n 4 shards /usr/include /tmp/headers
//   mpirun -n 4 shards photos s3://bucket/photos
//
// Run it again where it was interrupted, with any number of ranks: it goes on.

#include <fmt/format.h>

#include "rota/rota.hpp"

int main(int argc, char** argv) {
  rota::mpi::Session session(argc, argv);
  return session.run([&] {
    const rota::Communicator& comm = session.comm();
    const std::string source = argc > 1 ? argv[1] : "/usr/include";
    const std::string place = argc > 2 ? argv[2] : "shards";

    // Each rank writes its part. The last to end says that all is there.
    const auto files = rota::open(comm, source, "files");
    rota::ShardReport report;
    comm.together("write shards", [&] {
      report = rota::write_shards(
          files, place, {.shard_bytes = 1 << 20, .world = {.rank = comm.rank(), .size = comm.size()}});
    });
    if (comm.rank() == 0) fmt::print("{} files are in {} shards\n", report.samples, report.shards);

    // A few shards at a time: those are in the memory of the node, and the next ones are on their way.
    const rota::Catalog shards(comm, place + "/*.tar", {.share_files = true});
    rota::Loader loader(
        comm, rota::open(shards, "tar"),
        {.global_batch_size = 64, .shards = 64, .interleave = 4, .shuffle = rota::Shuffle::within});

    rota::CheckpointPolicy policy;
    if (place.find("://") != std::string::npos) policy.mirror = rota::stored_path(place + "-checkpoints");
    rota::CheckpointDirectory checkpoints(comm, "shards-checkpoints", policy);
    checkpoints.restore_all(loader);  // on a new machine, the newest copy

    std::int64_t samples = 0;
    std::int64_t bytes = 0;
    while (const auto batch = loader.next()) {
      samples += batch->size();  // train on it
      bytes += std::ssize(batch->tensor("data").bytes);
    }
    checkpoints.save_all(loader.position().step, loader);
    checkpoints.wait_for_mirror();
    fmt::print("rank {} of {}: {} samples, {} bytes\n", comm.rank(), comm.size(), samples, bytes);
    return 0;
  });
}
