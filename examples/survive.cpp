// A rank dies in the middle of an epoch, and the others go on without a restart, by MPI's fault tolerance
// (ULFM), which Open MPI 5 has. Every step trains what it would have, had nobody died.
//
//   mpirun --with-ft ulfm -n 4 survive 2 7      # rank 2 dies in step 7
//
// W. Bland et al., "Post-failure recovery of MPI communication capability", IJHPCA 2013.

#include <fmt/format.h>
#include <mpi-ext.h>
#include <mpi.h>

#include <csignal>
#include <cstring>

#include "rota/rota.hpp"
#include "whole_number.hpp"

namespace {

class Numbers : public rota::Source {
 public:
  [[nodiscard]] std::int64_t size() const override { return 1000; }
  [[nodiscard]] const std::vector<rota::Field>& fields() const override { return fields_; }
  void read(std::span<const rota::SampleId> ids, const rota::BatchView& out) const override {
    rota::check_ids(*this, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) std::memcpy(out.bytes(0, i).data(), &ids[i].value, 8);
  }

 private:
  std::vector<rota::Field> fields_{{.name = "x", .dtype = rota::DType::int64}};
};

/// Trains all steps of `loader`, whose ranks are those of `comm`.
void train(rota::Loader& loader, MPI_Comm comm, bool is_dying, std::int64_t when) {
  std::int64_t committed = 0;
  while (true) {
    std::int64_t total = 0;
    int is_done = 0, is_over = 0;
    try {
      const std::optional<rota::Batch> batch = loader.next();
      is_over = !batch;
      if (is_dying && committed == when) std::raise(SIGKILL);
      if (batch) {
        for (const std::int64_t x : batch->tensor("x").as<std::int64_t>())
          total += x;  // stands for gradients
      }
      is_done = MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_INT64_T, MPI_SUM, comm) == MPI_SUCCESS;
    } catch (const rota::Error&) {  // the loader itself has counted bad samples with a rank that is gone
    }
    if (is_done == 0) MPIX_Comm_revoke(comm);  // for those that wait for others
    const bool is_agreed = MPIX_Comm_agree(comm, &is_done) == MPI_SUCCESS;
    if (is_done == 1 && is_agreed) {
      if (is_over == 1) break;
      rota::RunSlice whole;
      loader.run().at(committed)->slice(whole);
      for (const rota::SampleId id : whole.ids) total -= id.value;
      if (total != 0) throw rota::Error(rota::ErrorCode::mismatch, "a sample is lost");
      ++committed;
      continue;
    }
    MPI_Comm left = MPI_COMM_NULL;
    MPIX_Comm_shrink(comm, &left);
    MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN);
    loader.seek_step(committed);  // the step in which it died comes again
    loader.rescale(rota::mpi::communicator(left));
    MPI_Comm_free(&comm);
    comm = left;
  }
  const rota::World world = rota::mpi::world(comm);
  if (world.rank == 0) fmt::print("{} ranks trained {} steps, and lost no sample\n", world.size, committed);
  MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int code = 1;
  try {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    const int rank = rota::mpi::world(comm).rank;
    const bool is_dying = argc > 2 && whole_number("the rank that dies", argv[1]) == rank;
    rota::Loader loader(rota::mpi::communicator(comm), std::make_shared<Numbers>(),
                        {.global_batch_size = 12,
                         .seed = 1,
                         .epochs = 2,
                         .bad_samples = {.policy = rota::BadSamples::Policy::skip}});
    train(loader, comm, is_dying, argc > 2 ? whole_number("the step", argv[2]) : 0);
    code = 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "survive: {}\n", error.what());
  }
  MPI_Finalize();
  return code;
}
