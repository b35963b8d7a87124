#pragma once

// Snapshots and checkpoints, as Python sees them. A loader of any kind has the methods
// `_save_to(snapshot, name)` and `_restore_from(checkpoint, name)`.

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>

#include "rota/checkpoint.hpp"
#include "rota/snapshot.hpp"
#include "rota/world.hpp"

namespace rota::python {

namespace py = pybind11;

/// What a save writes. Python keeps the arrays that it views.
struct PySnapshot {
  Snapshot snapshot;
};

struct PyCheckpoint {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::optional<World> world = {};  ///< of those that opened it together
};

void define_checkpoint(py::module_& module);

}  // namespace rota::python
