// TraceWriter, as Python sees it. The GIL guards it.

#include "rota/trace.hpp"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "communicator.hpp"
#include "functions.hpp"
#include "one_thread.hpp"
#include "rota/loader.hpp"
#include "rota/stream_loader.hpp"

namespace rota::python {
namespace {

template <typename Loader>
void define_for(py::class_<TraceWriter>& trace) {
  trace
      .def(py::init([](const std::filesystem::path& directory, OneThread<Loader>& loader,
                       const PyCommunicator* comm, std::optional<std::int64_t> phase) {
        const auto ranks = comm == nullptr ? nullptr : comm->get();
        return loader.use([&](Loader& l) {
          return ranks ? std::make_unique<TraceWriter>(*ranks, directory, l, phase)
                       : std::make_unique<TraceWriter>(directory, l, phase);
        });
      }))
      .def("_end", [](TraceWriter& self, OneThread<Loader>& loader) {
        loader.use([&](Loader& l) {
          const py::gil_scoped_acquire gil;
          self.end(l);
        });
      });
}

}  // namespace

void define_traces(py::module_& module) {
  py::class_<TraceWriter> trace(module, "TraceWriter");
  define_for<Loader>(trace);
  define_for<StreamLoader>(trace);
  trace.def("write", &TraceWriter::write, py::arg("batch"), "Adds a batch of the loader; also an empty one.")
      .def_property_readonly("phase", &TraceWriter::phase, "Its number.");
}

}  // namespace rota::python
