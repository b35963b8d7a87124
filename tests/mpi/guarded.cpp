// A program whose body ends as its argument says.

#include "child.hpp"

namespace rota::test {

int guarded(int argc, char** argv) {
  mpi::Session session(argc, argv);
  const std::string how = argc > 1 ? argv[1] : "";
  return session.run([&]() -> int {
    const auto& comm = session.comm();
    if (how == "one" && comm.rank() == 1) throw std::runtime_error("this rank alone");
    if (how == "all") throw Error(ErrorCode::not_found, "the same on every rank");
    if (how == "each") throw std::runtime_error("of rank " + std::to_string(comm.rank()) + " only");
    if (how == "together") {
      comm.together("work", [&] {
        if (comm.rank() == 2) throw std::runtime_error("agreed on");
      });
    }
    if (how == "code") return 3;
    MPI_Barrier(mpi::handle_of(comm));  // where the others wait for a rank that has failed
    return 0;
  });
}

}  // namespace rota::test
