// The programs of these tests, started by mpirun: driver PROGRAM REPORT ARGUMENTS. See programs.hpp.

#include <unistd.h>

#include <map>
#include <stdexcept>
#include <string>

#include "programs.hpp"

int main(int argc, char** argv) {
  using rota_endurance::Arguments;
  using rota_endurance::Report;
  using Program = void (*)(const rota::mpi::Session&, const Report&, const Arguments&);
  const std::map<std::string, Program> programs{{"cycle", rota_endurance::run_cycle},
                                                {"phases", rota_endurance::run_phases},
                                                {"disk", rota_endurance::run_disk},
                                                {"large", rota_endurance::run_large},
                                                {"many", rota_endurance::run_many}};
  rota::mpi::Session session(argc, argv,
                             rota::mpi::ThreadLevel::multiple);  // as the collective writer wants it
  return session.run([&] {
    const Arguments arguments{argv + 1, argv + argc};
    const Report report(arguments.at(1), session.world().rank);
    programs.at(arguments.at(0))(session, report, {arguments.begin() + 2, arguments.end()});
    return 0;
  });
}
