// Communicators: of MPI, which mpi4py makes, and of other groups of Python.

#include <exception>
#include <optional>
#include <utility>

#include "core/failure.hpp"
#include "group_transport.hpp"
#include "mpi/handles.hpp"
#include "objects.hpp"
#include "ranks/access.hpp"
#include "ranks/collectives.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

// An argument of this rank, which may be none that fits: ranks agree on that before they go on with theirs.
template <typename T>
class OwnArgument {
 public:
  OwnArgument(py::handle given, const Argument& as, T otherwise) : task_(as.task), value_(otherwise) {
    try {
      take(given, as, value_);
    } catch (const std::exception& raised) {
      own_ = std::current_exception();
      told_ = std::make_exception_ptr(Error(ErrorCode::invalid_argument, raised.what()));
    }
  }
  [[nodiscard]] const T& value() const { return value_; }

  /// **Collective.** Throws on all ranks what does not fit on one.
  void agree(const Communicator& ranks) const {
    try {
      unlocked([&] { ranks::agree(ranks, task_, told_); });
    } catch (const Error&) {
      if (!own_) throw;
    }
    if (own_) std::rethrow_exception(own_);
  }

 private:
  std::string_view task_;
  T value_;
  std::exception_ptr own_, told_;
};

// **Collective.** Of one of mpi4py.
Communicator of_mpi(const py::object& comm, std::chrono::milliseconds deadline) {
  if (!py::hasattr(comm, "py2f") || !py::hasattr(comm, "Split")) {
    throw py::type_error(fmt::format(
        "a {} is no communicator of mpi4py, such as mpi4py.MPI.COMM_WORLD, nor ranks of torch.distributed",
        type_of(comm)));
  }
#ifdef ROTA_MPI
  if (!mpi::is_running()) {  // where `py2f` ends the process
    throw Error(ErrorCode::invalid_argument,
                mpi::has_ended()
                    ? "duplicate a communicator: MPI has ended"
                    : "duplicate a communicator: MPI does not run; call mpi4py.MPI.Init(). If mpi4py runs it "
                      "already, it is built for another MPI than rota, which has Open MPI");
  }
#endif
  const auto handle = comm.attr("py2f")().cast<int>();
  return unlocked([&] { return mpi::of_fortran(handle, deadline); });
}

// **Collective.** Of what `rota.Communicator` takes.
Communicator of_ranks(const py::object& comm, std::chrono::milliseconds deadline) {
  if (comm.is_none()) return {};
  const py::object group = py::module_::import("rota._communicator")
                               .attr("group_of")(comm, std::chrono::duration<double>(deadline).count());
  if (group.is(py::bool_(false))) return of_mpi(comm, deadline);
  if (group.is_none()) return {};
  return ranks::make_communicator(std::make_unique<GroupTransport>(group), deadline);
}

PyCommunicator make_communicator(const py::object& comm, py::handle deadline) {
  const OwnArgument by(deadline, {"make a communicator", "deadline"}, Communicator::kDeadline);
  Communicator made = of_ranks(comm, by.value());
  by.agree(made);
  return PyCommunicator(std::move(made));
}

PyCommunicator data_parallel(const PyCommunicator& self, py::handle given) {
  const auto comm = self.get();
  const OwnArgument rank(given, {"share out data", "rank"}, 0);
  rank.agree(*comm);
  return unlocked([&] { return PyCommunicator(comm->data_parallel(rank.value())); });
}

std::string shown(const PyCommunicator& self) try {
  const auto comm = self.get();
  return fmt::format("<rota.Communicator: rank {} of {}>", comm->rank(), comm->size());
} catch (const Error&) {
  return "<rota.Communicator, closed>";
}

using PyStopSignal = OneThread<StopSignal>;

std::unique_ptr<PyStopSignal> make_stop_signal(const PyCommunicator& comm) {
  const auto ranks = comm.get();  // which lives as long
  std::shared_ptr<StopSignal> stop(new StopSignal(*ranks), [ranks](const StopSignal* made) { delete made; });
  return std::make_unique<PyStopSignal>("a StopSignal", std::move(stop), ranks::end_of(*ranks));
}

}  // namespace

std::shared_ptr<const Communicator> PyCommunicator::get() const {
  if (!comm_) throw Error(ErrorCode::invalid_argument, "use a communicator: it was closed");
  require_no_end(ranks::end_of(*comm_), "use a communicator");
  return comm_;
}

void require_no_end(HasEnded has_ended, std::string_view what) {
  if (has_ended == nullptr || !has_ended()) return;
  throw internal::failure(ErrorCode::invalid_argument, "{}: {} has ended", what,
                          has_ended == &python_has_ended ? "Python" : "MPI");
}

std::shared_ptr<const Communicator> ranks_of(const PyCommunicator* comm) {
  return comm == nullptr ? std::make_shared<const Communicator>() : comm->get();
}

void define_communicator(py::module_& module) {
  module.def("world_from_environment", &world_from_environment);
  module.def("mpi_world",
             [] { return ranks::job_world().size == 1 ? std::nullopt : std::optional(ranks::job_world()); });
  py::class_<PyCommunicator>(module, "Communicator")
      .def(py::init(&make_communicator), py::arg("comm") = py::none(),
           py::arg("deadline") = std::chrono::duration<double>(Communicator::kDeadline).count())
      .def("data_parallel", &data_parallel, py::arg("rank"),
           "For tensor, pipeline or context parallel training: processes that pass the same `rank` read the "
           "same slice.\n\nAll ranks call it. The result's `world` has that rank, and the process's number "
           "among its replicas.")
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
             comm->together(phase, [&] { throw_if(failure); });
           })
      // The texts of all ranks, in order.
      .def("_gather",
           [](const PyCommunicator& self, const char* phase, std::string text) {
             const auto comm = self.get();
             const Unlocked released;
             return ranks::all_gather(*comm, phase, std::move(text));
           })
      // Of a text of lines, which must be the same on all ranks.
      .def("_require_same",
           [](const PyCommunicator& self, const char* phase, const std::string& text) {
             const auto comm = self.get();
             const Unlocked released;
             ranks::require_same(*comm, phase, text);
           })
      .def("__repr__", &shown)
      .def("close", &PyCommunicator::close, "Frees it. What was made with it goes on.");
  py::class_<PyStopSignal>(module, "StopSignal")
      .def(py::init(&make_stop_signal))
      .def("requested", in_turn(&StopSignal::requested),
           "True on all ranks once any rank was signalled. All of them ask, once a step. BusyError where "
           "other code has taken the handlers.")
      .def("close", &PyStopSignal::close, "Puts the former handlers back.");
}

}  // namespace rota::python
