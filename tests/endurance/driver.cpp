// The programs of these tests, started by mpirun: driver PROGRAM REPORT ARGUMENTS. See programs.hpp.

#include <unistd.h>

#include <map>
#include <stdexcept>
#include <string>

#include "programs.hpp"

int main(int argc, char** argv) {
  using rota::test::Arguments;
  using rota::test::Report;
  using Program = void (*)(const rota::mpi::Session&, const Report&, const Arguments&);
  const std::map<std::string, Program> programs{{"cycle", rota::test::run_cycle},
                                                {"phases", rota::test::run_phases},
                                                {"disk", rota::test::run_disk},
                                                {"large", rota::test::run_large},
                                                {"many", rota::test::run_many}};
  rota::mpi::Session session(argc, argv,
                             rota::mpi::ThreadLevel::multiple);  // as the collective writer wants it
  return session.run([&] {
    const Arguments arguments{argv + 1, argv + argc};
    const Report report(arguments.at(1), session.world().rank);
    programs.at(arguments.at(0))(session, report, {arguments.begin() + 2, arguments.end()});
    return 0;
  });
}
