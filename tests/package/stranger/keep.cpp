// Checkpoints without a loader, and without MPI_Init: a tensor and a blob out and back.

#include <iostream>
#include <rota/cereal.hpp>
#include <rota/checkpoint_directory.hpp>
#include <span>
#include <string>
#include <vector>

int main(int, char** argv) {
  const std::vector<float> weights{1, 2, 3, 4, 5, 6};
  rota::Snapshot snapshot;
  snapshot.tensor("model/weight", {2}, 3, std::span(weights));
  snapshot.blob("note", rota::to_blob(std::string("hello")));

  rota::CheckpointDirectory directory({}, argv[1]);
  directory.save(7, snapshot);

  const auto checkpoint = directory.latest();
  const bool same = checkpoint && checkpoint->info().step == 7 &&
                    checkpoint->read<float>("model/weight") == weights &&
                    rota::from_blob<std::string>(checkpoint->blob("note")) == "hello";
  std::cout << (same ? "the same\n" : "different\n");
  return same ? 0 : 1;
}
