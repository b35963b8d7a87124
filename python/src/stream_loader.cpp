// StreamLoader and StreamBatch, as Python sees them.

#include "rota/stream_loader.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "arrays.hpp"
#include "checkpoint.hpp"
#include "communicator.hpp"
#include "functions.hpp"
#include "loader.hpp"

namespace rota::python {
namespace {

using PyStreamLoader = OneThread<StreamLoader>;

py::object values(const char* name) { return py::module_::import("rota._values").attr(name); }

StreamLoaderOptions to_options(const py::dict& given) {
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

// ---- batches ----

std::span<const std::int64_t> numbers_of(std::span<const StreamId> ids) {
  static_assert(sizeof(StreamId) == 3 * sizeof(std::int64_t));
  return {reinterpret_cast<const std::int64_t*>(ids.data()), 3 * ids.size()};
}

py::object position_of(const StreamPosition& at) { return values("StreamPosition")(at.epoch, at.step); }

void define_batch(py::module_& module) {
  using Self = const py::object&;
  py::class_<StreamBatch>(module, "StreamBatch")
      .def("__len__", [](const StreamBatch& self) { return self.fields().size(); })
      .def("__iter__",
           [](const StreamBatch& self) {
             py::list names;
             for (const Field& field : self.fields()) names.append(field.name);
             return py::iter(names);
           })
      .def("__contains__",
           [](const StreamBatch& self, const std::string& name) {
             return std::ranges::any_of(self.fields(),
                                        [&](const Field& field) { return field.name == name; });
           })
      .def("__getitem__",
           [](Self self, const std::string& name) {
             const auto& batch = self.cast<const StreamBatch&>();
             return view(batch.tensor(name), batch.size(), self);
           })
      .def_property_readonly("fields", [](const StreamBatch& self) { return to_python(self.fields()); })
      .def_property_readonly("size", [](const StreamBatch& self) { return self.size(); })
      .def_property_readonly("start", [](const StreamBatch& self) { return position_of(self.start()); })
      .def_property_readonly(
          "ids", [](Self self) { return view(numbers_of(self.cast<const StreamBatch&>().ids()), self, 3); })
      .def_property_readonly(
          "positions", [](Self self) { return view(self.cast<const StreamBatch&>().positions(), self); });
}

}  // namespace

void define_stream_loader(py::module_& module) {
  define_batch(module);
  py::class_<PyStreamLoader>(module, "StreamLoader")
      .def(py::init([](const PyStreamSource& stream, const py::dict& options) {
        return make_loader<StreamLoader>(stream.source, to_options(options));
      }))
      .def(py::init([](const py::tuple& dispatch, const py::dict& options) {
        return make_loader<StreamLoader>(to_dispatch(dispatch), to_options(options));
      }))
      .def(py::init([](const PyStreamSource& stream, const py::dict& options, const PyCommunicator& comm) {
        return make_loader<StreamLoader>(*comm.get(), stream.source, to_options(options));
      }))
      .def(py::init([](const py::tuple& dispatch, const py::dict& options, const PyCommunicator& comm) {
        return make_loader<StreamLoader>(*comm.get(), to_dispatch(dispatch), to_options(options));
      }))
      .def("_next",
           [](PyStreamLoader& self) -> std::optional<StreamBatch> {
             auto batch = self.use([](StreamLoader& loader) { return loader.next(); });
             if (!batch) return std::nullopt;
             return std::move(*batch);
           })
      .def_property_readonly("position",
                             [](PyStreamLoader& self) {
                               return position_of(self.use([](StreamLoader& l) { return l.position(); }));
                             })
      .def("_state", [](PyStreamLoader& self) { return self.use([](StreamLoader& l) { return state(l); }); })
      .def("_restore", [](PyStreamLoader& self,
                          const std::string& text) { self.use([&](StreamLoader& l) { restore(l, text); }); })
      .def("_save_to",
           [](PyStreamLoader& self, PySnapshot& to, const std::string& name) {
             self.use([&](StreamLoader& l) { save(l, to.snapshot, name); });
           })
      .def("_restore_from",
           [](PyStreamLoader& self, const PyCheckpoint& from, const std::string& name) {
             self.use([&](StreamLoader& l) { restore(l, *from.checkpoint, name); });
           })
      .def("owner",
           [](PyStreamLoader& self, std::int64_t shard) {
             return self.use([&](StreamLoader& l) { return l.owner({shard}); });
           })
      .def_property_readonly("world",
                             [](PyStreamLoader& self) {
                               const World world = self.use([](StreamLoader& l) { return l.world(); });
                               return values("World")(world.rank, world.size, world.replica);
                             })
      .def_property_readonly("fingerprint",
                             [](PyStreamLoader& self) {
                               return to_string(self.use([](StreamLoader& l) { return l.fingerprint(); }));
                             })
      .def("_fields",
           [](PyStreamLoader& self) {
             return to_python(self.use([](StreamLoader& l) { return l.source().fields(); }));
           })
      .def_property_readonly(
          "stats",
          [](PyStreamLoader& self) { return dict_of(self.use([](StreamLoader& l) { return l.stats(); })); })
      .def("close", &PyStreamLoader::close)
      .def_property_readonly("is_closed", &PyStreamLoader::is_closed);
}

}  // namespace rota::python
