// StreamLoader, as Python sees it.

#include "rota/stream_loader.hpp"

#include <pybind11/stl.h>

#include <string>

#include "communicator.hpp"
#include "functions.hpp"
#include "loader.hpp"

namespace rota::python {
namespace {

StreamLoaderOptions to_stream_options(const py::dict& given) {
  StreamLoaderOptions options{
      .global_batch_size = option<std::int64_t>(given, "global_batch_size"),
      .epochs = given["epochs"].is_none() ? kEndless : option<std::int64_t>(given, "epochs"),
      .workers = option<int>(given, "workers"),
      .read_ahead_batches = option<std::int64_t>(given, "read_ahead_batches"),
      .read_ahead_bytes = option<std::int64_t>(given, "read_ahead_bytes"),
      .deadline = seconds(given, "deadline")};
  if (!given["allocator"].is_none()) options.allocator = to_allocator(given["allocator"]);
  return options;
}

Dispatch to_dispatch(const py::tuple& given) {
  return {.source = given[0].is_none() ? nullptr : given[0].cast<const PyStreamSource&>().source,
          .shards = given[1].cast<std::int64_t>(),
          .rank_split = parse_split(given[2].cast<std::string>())};
}

}  // namespace

void define_stream_loader(py::module_& module) {
  module.def("check_stream_loader_options",
             [](const py::dict& options) { static_cast<void>(to_stream_options(options)); });
  define_loader_class<StreamLoader>(module, "StreamLoader")
      .def(py::init([](const PyStreamSource& stream, const py::dict& options, const PyCommunicator& comm) {
        return make_with<StreamLoader>(comm, stream.source, to_stream_options(options));
      }))
      .def(py::init([](const py::tuple& dispatch, const py::dict& options, const PyCommunicator& comm) {
        return make_with<StreamLoader>(comm, to_dispatch(dispatch), to_stream_options(options));
      }))
      .def("owner", [](OneThread<StreamLoader>& self, std::int64_t shard) {
        return self.use([&](StreamLoader& l) { return l.owner({shard}); });
      });
}

}  // namespace rota::python
