#include "communicator.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <utility>

#include "arguments.hpp"
#include "arrays.hpp"
#include "rota/error.hpp"
#include "source.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

// Before mpi4py's `py2f`, which ends the process where MPI does not run.
void require_mpi() {
  if (mpi::is_running()) return;
  throw Error(ErrorCode::invalid_argument,
              mpi::has_ended()
                  ? "duplicate a communicator: MPI has ended"
                  : "duplicate a communicator: MPI does not run; call mpi4py.MPI.Init(). If mpi4py runs "
                    "it already, it is built for another MPI than rota, which has Open MPI");
}

}  // namespace

PyCommunicator::PyCommunicator(mpi::Communicator comm)
    : comm_(dies_without_gil(std::make_shared<const mpi::Communicator>(std::move(comm)))) {}

std::shared_ptr<const mpi::Communicator> PyCommunicator::get() const {
  if (!comm_) throw Error(ErrorCode::invalid_argument, "use a communicator: it was closed");
  if (mpi::needs_mpi(*comm_)) require_no_end("use a communicator");
  return comm_;
}

void require_no_end(std::string_view what) {
  if (mpi::has_ended()) throw Error(ErrorCode::invalid_argument, fmt::format("{}: MPI has ended", what));
}

std::shared_ptr<const mpi::Communicator> ranks_of(const PyCommunicator* comm) {
  return comm == nullptr ? std::make_shared<const mpi::Communicator>() : comm->get();
}

void define_communicator(py::module_& module) {
  module.def("require_mpi", &require_mpi);
  module.def("world_from_environment", &world_from_environment);
  module.def("mpi_world",
             [] { return mpi::job_world().size == 1 ? std::nullopt : std::optional(mpi::job_world()); });
  py::class_<PyCommunicator>(module, "Communicator")
      .def(py::init([] { return PyCommunicator(mpi::Communicator()); }))
      .def(py::init([](int handle, py::handle deadline) {
        const auto by = take<std::chrono::milliseconds>(deadline, {"make a communicator", "deadline"});
        const Unlocked released;
        return PyCommunicator(mpi::of_fortran(handle, by));
      }))
      .def(py::init([](const PyCommunicator& whole, py::handle given) {
        const auto comm = whole.get();
        const int rank = take<int>(given, {"share out data", "rank"});
        const Unlocked released;
        return PyCommunicator(mpi::data_parallel(*comm, rank));
      }))
      .def_property_readonly(
          "rank", [](const PyCommunicator& self) { return self.get()->rank(); }, "Of `size` processes.")
      .def_property_readonly(
          "size", [](const PyCommunicator& self) { return self.get()->size(); }, "How many processes.")
      .def_property_readonly(
          "world", [](const PyCommunicator& self) { return self.get()->world(); },
          "The slice of the data that this process reads: `rank` of `size`, unless `data_parallel` made it.")
      // Of what each rank failed at by itself, as code and message, before they do something together.
      .def("_agree",
           [](const PyCommunicator& self, const char* phase, const Failure& failure) {
             const auto comm = self.get();
             const Unlocked released;
             mpi::together(*comm, phase, [&] { throw_if(failure); });
           })
      .def("close", &PyCommunicator::close, "Frees it. What was made with it goes on.");
}

}  // namespace rota::python
