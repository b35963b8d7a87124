// Writes the golden checkpoints of format and state version 1 anew:
//   mpirun -n 2 write_golden SOURCE/tests
// Not after that version is released: what was written then must load for ever.

#include "loader/golden_run.hpp"

namespace rota::test {
namespace {

std::vector<std::byte> bytes_of(const auto& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// Five rows of three or fewer, of which rank 0 has the first two.
class Rows {
 public:
  Rows(Snapshot& snapshot, World world) : snapshot_(snapshot), world_(world) {}

  /// Numbers that begin at `first` and go up by `step`.
  template <typename T>
  void add(const char* name, Numbers shape, T first, T step, DType dtype = kDTypeOf<T>) {
    std::int64_t width = 1;
    for (const std::int64_t length : shape) width *= length;
    std::vector<T> values;
    for (std::int64_t i = begin() * width; i < (begin() + count()) * width; ++i) {
      values.push_back(static_cast<T>(first + static_cast<T>(i) * step));
    }
    snapshot_.tensor(name, dtype, std::move(shape), count(), bytes_of(values));
  }

 private:
  std::int64_t begin() const { return world_.rank == 0 ? 0 : 2; }
  std::int64_t count() const { return world_.rank == 0 ? 2 : 3; }

  Snapshot& snapshot_;
  World world_;
};

void add_special(Snapshot& snapshot, World world) {
  const bool is_first = world.rank == 0;
  const std::vector<std::byte> flags = is_first ? std::vector{std::byte{0}, std::byte{1}}
                                                : std::vector{std::byte{1}, std::byte{0}, std::byte{1}};
  snapshot.tensor("model/flags", DType::boolean, {}, std::ssize(flags), std::vector(flags));
  snapshot.tensor("model/none", DType::float32, {4}, 0, std::vector<std::byte>());
  std::vector<RowRange> ranges;
  std::vector<std::uint32_t> values;
  for (std::int64_t row = world.rank; row < 5; row += world.size) {
    ranges.push_back({row, 1});
    values.push_back(4'000'000'000U + static_cast<std::uint32_t>(row));
  }
  snapshot.tensor("model/scattered", DType::uint32, {}, ranges, bytes_of(values));
}

Snapshot tensors_of_all_types(World world) {
  Snapshot snapshot;
  Rows rows(snapshot, world);
  rows.add<std::int64_t>("loader/main/cursors", {2}, -3, 7);
  rows.add<float>("model/layer0.weight", {2, 3}, -1.5F, 0.25F);
  rows.add<double>("model/float64", {}, 1e300, 1e299);
  rows.add<std::int8_t>("model/int8", {}, -128, 50);
  rows.add<std::int16_t>("model/int16", {}, -32768, 9);
  rows.add<std::int32_t>("model/int32", {}, -5, 1 << 20);
  rows.add<std::uint8_t>("model/uint8", {}, 200, 11);
  rows.add<std::uint16_t>("model/uint16", {}, 65'000, 99);
  rows.add<std::uint64_t>("model/uint64", {}, std::uint64_t{1} << 63, 3);
  rows.add<std::uint16_t>("model/float16", {}, 0x3C00, 0x100, DType::float16);
  rows.add<std::uint16_t>("model/bfloat16", {}, 0x3F80, 0x40, DType::bfloat16);
  add_special(snapshot, world);
  snapshot.blob("loader/main/state", "seed 7, epoch 3");
  snapshot.blob("compressed", std::string(20'000, 'z'));
  snapshot.blob("empty", "");
  snapshot.rank_blob("rng", "rng of rank " + std::to_string(world.rank));
  return snapshot;
}

void add_loader(Snapshot& snapshot, Loader loader, const std::string& name) {
  Numbers ids;
  for (int step = 0; step < 5; ++step) {
    const auto batch = loader.next();
    for (const SampleId id : batch->ids()) ids.push_back(id.value);
    if (step == 2 && loader.mixture() != nullptr) loader.set_weights(std::vector{0.5, 0.5});
  }
  save(loader, snapshot, name);
  // What this rank has read, beside the state.
  snapshot.tensor("read/" + name, DType::int64, {}, std::ssize(ids), bytes_of(ids));
}

void add_stream(Snapshot& snapshot, StreamLoader loader, const std::string& name, int steps) {
  Numbers ids;
  for (int step = 0; step < steps; ++step) {
    const auto batch = loader.next();
    for (const StreamId& id : batch->stream_ids()) ids.push_back(1000 * id.shard.value + id.input);
  }
  while (name == "dispatch" && loader.world().rank == 0 && loader.stats().ready_batches < 3) continue;
  save(loader, snapshot, name);
  snapshot.tensor("read/" + name, DType::int64, {}, std::ssize(ids), bytes_of(ids));
}

Snapshot states_of_all_kinds(const Communicator& comm) {
  Snapshot snapshot;
  add_loader(snapshot, golden_loader(comm.world()), "loader");
  add_loader(snapshot, golden_mixture(comm.world()), "mixture");
  add_stream(snapshot, golden_stream(comm), "stream", 5);
  add_stream(snapshot, golden_dispatch(comm), "dispatch", 2);
  return snapshot;
}

void write(const Communicator& comm, const Snapshot& snapshot, const fs::path& file) {
  const fs::path directory = file.parent_path() / "new";
  const auto saved = CheckpointDirectory(comm, directory).save(1234, snapshot).info.path;
  if (comm.rank() != 0) return;
  fs::rename(saved, file);
  fs::remove(directory);
}

int write_all(int argc, char** argv) {
  mpi::Session session(argc, argv);
  return session.run([&] {
    if (argc != 2 || session.comm().size() != 2) {
      throw Error(ErrorCode::invalid_argument, "mpirun -n 2 write_golden SOURCE/tests");
    }
    const fs::path tests = argv[1];
    write(session.comm(), tensors_of_all_types(session.world()),
          tests / "checkpoint/golden/checkpoint-v1.h5");
    write(session.comm(), states_of_all_kinds(session.comm()), tests / "loader/golden/states-v1.h5");
    return 0;
  });
}

}  // namespace
}  // namespace rota::test

int main(int argc, char** argv) { return rota::test::write_all(argc, argv); }
