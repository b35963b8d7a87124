// Snapshots, checkpoints, and directories of them.

#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "objects.hpp"
#include "options.hpp"
#include "rota/verify.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

template <typename T>
std::vector<T> in_vector(std::span<const T> items) {
  return {items.begin(), items.end()};
}

std::optional<PyCheckpoint> wrap(std::optional<Checkpoint> checkpoint, std::optional<World> world = {}) {
  if (!checkpoint) return std::nullopt;
  return PyCheckpoint{dies_without_gil(std::make_shared<const Checkpoint>(std::move(*checkpoint))), world};
}

// What a rank fails at before a save, for all to hear.
std::function<void(Snapshot&)> prepared(Snapshot& made, const Failure& failure) {
  return [&made, &failure](Snapshot& snapshot) {
    throw_if(failure);
    snapshot = std::move(made);
  };
}

// ---- the module ----

void define_snapshot(py::module_& module) {
  py::class_<Snapshot>(module, "Snapshot")
      .def(
          "tensor",
          [](Snapshot& self, const std::string& name, py::handle dtype, std::vector<std::int64_t> row_shape,
             const py::array& rows) {
            self.tensor(name, take<DType>(dtype, {"save a tensor", "dtype"}), std::move(row_shape),
                        rows.shape(0), bytes_of(rows));
          },
          py::keep_alive<1, 5>())
      .def("same", &Snapshot::same)
      .def("blob", [](Snapshot& self, const std::string& name, const py::bytes& bytes) {
        self.blob(name, std::string(bytes));
      });
}

py::array read(const PyCheckpoint& self, const std::string& name, RowRange rows) {
  const TensorInfo& info = self.checkpoint->tensor(name);
  if (rows.first < 0 || rows.count < 0 || rows.first > info.rows() - rows.count) {
    throw internal::failure(ErrorCode::out_of_range,
                            "read {} rows of tensor \"{}\" from row {} on: it has {}", rows.count, name,
                            rows.first, info.rows());
  }
  std::vector<py::ssize_t> shape(info.shape.begin(), info.shape.end());
  shape.front() = rows.count;
  py::array array(to_numpy(info.dtype), std::move(shape));
  const std::span bytes(static_cast<std::byte*>(array.mutable_data()),
                        static_cast<std::size_t>(array.nbytes()));
  unlocked([&] { self.checkpoint->read(name, rows, bytes); });
  return array;
}

py::array read_rows(const PyCheckpoint& self, const std::string& name, py::handle first, py::handle count) {
  return read(self, name,
              {.first = take<std::int64_t>(first, {"read rows", "the first"}),
               .count = take<std::int64_t>(count, {"read rows", "their number"})});
}

py::array read_share(const PyCheckpoint& self, const std::string& name) {
  const std::int64_t rows = self.checkpoint->tensor(name).rows();
  const World world = self.world ? *self.world
                                 : take<World>(py::module_::import("rota._communicator").attr("find_world")(),
                                               {"read a share", "world"});
  const std::int64_t first = share(rows, world.rank, world.size);
  return read(self, name, {.first = first, .count = share(rows, world.rank + 1, world.size) - first});
}

void define_file(py::module_& module) {
  py::class_<PyCheckpoint>(module, "Checkpoint")
      .def_property_readonly(
          "info", [](const PyCheckpoint& self) { return self.checkpoint->info(); }, "Which checkpoint it is.")
      .def_property_readonly(
          "tensors", [](const PyCheckpoint& self) { return in_vector(self.checkpoint->tensors()); },
          "Name, dtype and shape of each; those of loaders are called \"loader/...\".")
      .def_property_readonly(
          "blobs", [](const PyCheckpoint& self) { return in_vector(self.checkpoint->blobs()); },
          "Name, owner and size of each.")
      .def("__len__", [](const PyCheckpoint& self) { return self.checkpoint->tensors().size(); })
      .def("__iter__",
           [](const PyCheckpoint& self) {
             py::list names;
             for (const TensorInfo& tensor : self.checkpoint->tensors()) names.append(tensor.name);
             return py::iter(names);
           })
      .def("__contains__",
           [](const PyCheckpoint& self, py::handle name) {
             return py::isinstance<py::str>(name) && self.checkpoint->has_tensor(name.cast<std::string>());
           })
      .def("__getitem__",
           [](const PyCheckpoint& self, py::handle name) {
             if (!py::isinstance<py::str>(name)) throw py::key_error(py::repr(name).cast<std::string>());
             const auto text = name.cast<std::string>();
             return read(self, text, {.first = 0, .count = self.checkpoint->tensor(text).rows()});
           })
      .def("rows", &read_rows, py::arg("name"), py::arg("first"), py::arg("count"),
           "Rows [first, first + count) of a tensor.")
      .def("share", &read_share, py::arg("name"),
           "This rank's part of the rows, divided as equally as possible over the ranks in order.")
      .def(
          "blob",
          [](const PyCheckpoint& self, const std::string& name) {
            return py::bytes(unlocked([&] { return self.checkpoint->blob(name); }));
          },
          py::arg("name"), "The blob `name` of the job.");
  module.def(
      "open_checkpoint", [](const std::filesystem::path& file) { return wrap(open_checkpoint(file)); },
      py::call_guard<Unlocked>());
  module.def("verify", [](const std::filesystem::path& file) {
    return unlocked([&] { return verify_checkpoint(file); });
  });
}

class PyDirectory : public OneThread<CheckpointDirectory> {
 public:
  PyDirectory(const PyCommunicator& comm, const std::filesystem::path& path, const CheckpointPolicy& policy)
      : PyDirectory(*comm.get(), path, policy) {}
  ~PyDirectory() {
    if (!is_closed()) end();
  }

  void end() {
    if (has_ended_ != nullptr && has_ended_()) return abandon();            // what is under way cannot end
    use([](CheckpointDirectory& directory) { directory.give_up_save(); });  // Python waits for those it wants
    close();
  }
  [[nodiscard]] World world() const noexcept { return world_; }

 private:
  PyDirectory(const Communicator& comm, const std::filesystem::path& path, const CheckpointPolicy& policy)
      : OneThread("a checkpoint directory",
                  unlocked([&] { return std::make_shared<CheckpointDirectory>(comm, path, policy); }),
                  ranks::end_of(comm)),
        has_ended_(ranks::end_of(comm)),
        world_{.rank = comm.rank(), .size = comm.size()} {}

  HasEnded has_ended_;
  World world_;
};

void define_directory(py::module_& module) {
  using Directory = CheckpointDirectory;
  py::class_<PyDirectory>(module, "CheckpointDirectory")
      .def(py::init<const PyCommunicator&, const std::filesystem::path&, const CheckpointPolicy&>())
      .def("_new_snapshot", in_turn<PyDirectory>(&Directory::new_snapshot))
      .def("_save",
           [](PyDirectory& self, std::int64_t step, Snapshot& snapshot, const Failure& failure) {
             return self.use([&](Directory& d) { return d.save_with(step, prepared(snapshot, failure)); });
           })
      .def("_save_async",
           [](PyDirectory& self, std::int64_t step, Snapshot& snapshot, const Failure& failure) {
             self.use([&](Directory& d) { d.save_async_with(step, prepared(snapshot, failure)); });
           })
      .def("poll", in_turn<PyDirectory>(&Directory::poll),
           "Moves a background save on, without waiting. True if none is under way. Not collective.")
      .def("_wait", in_turn<PyDirectory>(&Directory::wait))
      .def("_wait_for_mirror", in_turn<PyDirectory>(&Directory::wait_for_mirror))
      .def("_restore",
           [](PyDirectory& self, const py::function& restore) {
             return self.use([&](Directory& d) {
               return wrap(d.restore_with([&](const Checkpoint& checkpoint) {
                 throw_if(call_python([&] {
                   const PyCheckpoint lent{
                       std::shared_ptr<const Checkpoint>(std::shared_ptr<void>(), &checkpoint)};
                   return restore(lent).cast<Failure>();
                 }));
               }),
                           self.world());
             });
           })
      .def(
          "latest",
          [](PyDirectory& self) {
            return self.use([&](Directory& d) { return wrap(d.latest(), self.world()); });
          },
          "The newest checkpoint that verifies; None in an empty directory.")
      .def(
          "open",
          [](PyDirectory& self, py::handle serial) {
            const auto number = take<std::int64_t>(serial, {"open a checkpoint", "serial"});
            return self.use([&](Directory& d) { return wrap(d.open(number), self.world()); });
          },
          py::arg("serial"), "The checkpoint of that serial.")
      .def("list", in_turn<PyDirectory>(&Directory::list),
           "All checkpoints, oldest first; not yet verified as a whole.")
      .def_property_readonly(
          "rejected",
          [](PyDirectory& self) { return self.use([](Directory& d) { return in_vector(d.rejected()); }); },
          "The damaged checkpoints that the last `latest` or `restore` went past.")
      .def_property_readonly("is_locked", in_turn<PyDirectory>(&Directory::is_locked),
                             "Whether other jobs are kept out. Some file systems have no such locks.")
      .def("_close", &PyDirectory::end)
      .def_property_readonly(
          "is_closed", [](const PyDirectory& self) { return self.is_closed(); },
          "Whether `close` was called.");
}

}  // namespace

void define_checkpoint(py::module_& module) {
  define_snapshot(module);
  define_file(module);
  define_directory(module);
}

}  // namespace rota::python
