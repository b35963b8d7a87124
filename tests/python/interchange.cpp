// The C++ side of test_interchange.py: saves or restores a loader over lines of text, a tensor and a blob, in
// mpirun or alone. A restored run prints what it found, and the ids of its rank's batches from there on.
//
//   interchange fingerprint DATA
//   interchange save DATA DIRECTORY STEPS
//   interchange restore DATA DIRECTORY

#include "child.hpp"

namespace rota::test {
namespace {

const LoaderOptions kOptions{
    .global_batch_size = 6, .shards = 5, .seed = 11, .tail = Tail::carry, .epochs = 3, .workers = 2};

void save(const Communicator& comm, Loader& loader, CheckpointDirectory& directory, int steps) {
  for (int step = 0; step < steps; ++step) (void)loader.next();
  std::vector<float> rows(comm.rank() == 0 ? 12 : 0);
  std::iota(rows.begin(), rows.end(), 0.5F);
  Snapshot snapshot;
  save(loader, snapshot);
  snapshot.tensor("model/w", {4}, static_cast<std::int64_t>(rows.size()) / 4, std::span<const float>(rows));
  snapshot.blob("note", "from C++");
  directory.save(steps, snapshot);
}

void restore(Loader& loader, CheckpointDirectory& directory) {
  const auto checkpoint = directory.restore_all(loader).value();
  fmt::print("{}\n{}\n{}\n", checkpoint.info().step, checkpoint.blob("note"),
             checkpoint.read<float>("model/w"));
  for (const Batch& batch : loader) {
    Numbers ids;
    for (const SampleId id : batch.ids()) ids.push_back(id.value);
    fmt::print("{}\n", ids);
  }
}

}  // namespace

int interchange(int argc, char** argv) {
  mpi::Session session(argc, argv);
  return session.run([&] {
    const std::string verb = argv[1];
    if (verb == "fingerprint") {
      fmt::print("{}\n", to_string(open(argv[2], "lines")->fingerprint()));
      return 0;
    }
    Loader loader(session.comm(), open(argv[2], "lines"), kOptions);
    CheckpointDirectory directory(session.comm(), argv[3]);
    if (verb == "save") {
      save(session.comm(), loader, directory, std::stoi(argv[4]));
    } else {
      restore(loader, directory);
    }
    return 0;
  });
}

}  // namespace rota::test
