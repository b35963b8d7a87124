#pragma once

// Communicators of MPI, as Python sees them.

#include <pybind11/pybind11.h>

#include <memory>
#include <string_view>

#include "mpi/collectives.hpp"

namespace rota::python {

namespace py = pybind11;

/// What a user's mpi4py communicator was duplicated to, or a world of one. Collective calls take it.
class PyCommunicator {
 public:
  explicit PyCommunicator(mpi::Communicator comm);

  /// Throws Error{invalid_argument} where it was closed, or MPI has ended.
  [[nodiscard]] std::shared_ptr<const mpi::Communicator> get() const;
  void close() { comm_.reset(); }

 private:
  std::shared_ptr<const mpi::Communicator> comm_;
};

/// That of `comm`; where there is none, this process alone.
[[nodiscard]] std::shared_ptr<const mpi::Communicator> ranks_of(const PyCommunicator* comm);

/// Throws Error{invalid_argument} then; `what` begins the message.
void require_no_end(std::string_view what);

void define_communicator(py::module_& module);

}  // namespace rota::python
