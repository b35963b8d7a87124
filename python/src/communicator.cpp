#include "communicator.hpp"

#include <utility>

#include "rota/error.hpp"
#include "source.hpp"

namespace rota::python {
namespace {

// What mpi4py's `py2f` returned. Without the GIL.
mpi::Communicator of_fortran(MPI_Fint handle) {
  int is_initialized = 0;
  int is_finalized = 0;
  MPI_Initialized(&is_initialized);
  MPI_Finalized(&is_finalized);
  if (is_initialized == 0 || is_finalized != 0) {
    throw Error(ErrorCode::invalid_argument,
                is_finalized != 0
                    ? "duplicate a communicator: MPI has ended"
                    : "duplicate a communicator: MPI does not run; call mpi4py.MPI.Init(). If mpi4py "
                      "runs it already, it is built for another MPI than rota, which has Open MPI");
  }
  return mpi::Communicator(MPI_Comm_f2c(handle));
}

}  // namespace

PyCommunicator::PyCommunicator(mpi::Communicator comm)
    : comm_(dies_without_gil(std::make_shared<const mpi::Communicator>(std::move(comm)))) {}

std::shared_ptr<const mpi::Communicator> PyCommunicator::get() const {
  if (comm_) return comm_;
  throw Error(ErrorCode::invalid_argument, "use a communicator: it was closed");
}

void define_communicator(py::module_& module) {
  py::class_<PyCommunicator>(module, "Communicator")
      .def(py::init([] { return PyCommunicator(mpi::Communicator()); }))
      .def(py::init([](MPI_Fint handle) {
        const py::gil_scoped_release released;
        return PyCommunicator(of_fortran(handle));
      }))
      .def(py::init([](const PyCommunicator& whole, int rank) {
        const auto comm = whole.get();
        const py::gil_scoped_release released;
        return PyCommunicator(mpi::data_parallel(*comm, rank));
      }))
      .def_property_readonly("rank", [](const PyCommunicator& self) { return self.get()->rank(); })
      .def_property_readonly("size", [](const PyCommunicator& self) { return self.get()->size(); })
      .def_property_readonly(
          "world",
          [](const PyCommunicator& self) {
            const World world = self.get()->world();
            return py::module_::import("rota._values").attr("World")(world.rank, world.size, world.replica);
          })
      .def("close", &PyCommunicator::close);
}

}  // namespace rota::python
