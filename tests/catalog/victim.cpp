// Lists, indexes or reads a dataset with all ranks until each of them is killed by itself, as by kill -9,
// after a number of milliseconds.
//   victim list|index|read DATA MILLISECONDS

#include "helper.hpp"
#include "mpi/collectives.hpp"

namespace rota::test {
namespace {

[[noreturn]] void list(const std::string& data, const mpi::Communicator& comm) {
  for (;;) rota::Catalog(comm, data);
}

[[noreturn]] void index(const std::string& data, const mpi::Communicator& comm) {
  for (;;) rota::open(rota::Catalog(comm, data), "lines");
}

[[noreturn]] void read(const std::string& data, const mpi::Communicator& comm) {
  const rota::Catalog catalog(comm, data);
  rota::Loader loader(rota::open(catalog, "files"),
                      {.global_batch_size = 64, .epochs = rota::kEndless, .workers = 2}, comm.world());
  for (;;) loader.next();
}

}  // namespace

int victim(int argc, char** argv) {
  rota::mpi::Session session(argc, argv);
  return session.run([&] {
    const std::string what = argv[1];
    const std::string data = argv[2];
    const std::chrono::milliseconds delay(std::atoi(argv[3]));  // NOLINT(cert-err34-c): the test's own number
    rota::mpi::agree(session.comm(), "start", nullptr);
    std::thread([delay] {
      std::this_thread::sleep_for(delay);
      ::kill(::getpid(), SIGKILL);
    }).detach();
    if (what == "list") list(data, session.comm());
    if (what == "index") index(data, session.comm());
    read(data, session.comm());
    return 0;
  });
}

}  // namespace rota::test
