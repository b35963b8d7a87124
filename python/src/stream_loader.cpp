// StreamLoader, as Python sees them.

#include "rota/stream_loader.hpp"

#include <pybind11/stl.h>

#include <span>
#include <string>

#include "arrays.hpp"
#include "communicator.hpp"
#include "functions.hpp"
#include "loader.hpp"
#include "options.hpp"

namespace rota::python {
namespace {

Dispatch to_dispatch(const py::tuple& given) {
  Dispatch dispatch = kDispatchOptions.parse(given[1]);
  if (!given[0].is_none()) dispatch.source = given[0].cast<const PyStreamSource&>().source;
  return dispatch;
}

}  // namespace

void define_stream_loader(py::module_& module) {
  define_loader_class<StreamLoader>(module, "StreamLoader")
      .def(py::init(
          [](const PyStreamSource& stream, const StreamLoaderOptions& options, const PyCommunicator& comm) {
            return make_with<StreamLoader>(comm, stream.source, options);
          }))
      .def(py::init(
          [](const py::tuple& dispatch, const StreamLoaderOptions& options, const PyCommunicator& comm) {
            return make_with<StreamLoader>(comm, to_dispatch(dispatch), options);
          }))
      .def(
          "owner",
          [](OneThread<StreamLoader>& self, py::handle shard) {
            const auto number = take<std::int64_t>(shard, {"look up a shard", "its number"});
            return self.use([&](StreamLoader& l) { return l.owner({number}); });
          },
          py::arg("shard"), "The rank that reads `shard` now.");
}

}  // namespace rota::python
