// Lists, indexes or reads a dataset with all ranks until each of them is killed by itself, as by kill -9,
// after a number of milliseconds.
//   victim list|index|read DATA MILLISECONDS

#include "child.hpp"
#include "ranks/collectives.hpp"

namespace rota::test {

int victim(int argc, char** argv) {
  mpi::Session session(argc, argv);
  return session.run([&]() -> int {
    const std::string what = argv[1];
    const std::string data = argv[2];
    const std::chrono::milliseconds delay(std::atoi(argv[3]));  // NOLINT(cert-err34-c): the test's own number
    ranks::agree(session.comm(), "start", nullptr);
    std::thread([delay] {
      std::this_thread::sleep_for(delay);
      ::kill(::getpid(), SIGKILL);
    }).detach();
    const Communicator& comm = session.comm();
    while (what == "list") Catalog(comm, data);
    while (what == "index") open(Catalog(comm, data), "lines");
    Loader loader(open(Catalog(comm, data), "files"),
                  {.global_batch_size = 64, .epochs = kEndless, .workers = 2}, comm.world());
    for (;;) (void)loader.next();
  });
}

}  // namespace rota::test
