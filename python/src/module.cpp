// The module rota._rota: rota's C++ library for the Python package. Python's side has defaults and
// documentation.

#include <pybind11/pybind11.h>

#include "arrays.hpp"
#include "checkpoint.hpp"
#include "communicator.hpp"
#include "errors.hpp"
#include "functions.hpp"
#include "options.hpp"
#include "source.hpp"

PYBIND11_MODULE(_rota, module) {
  namespace python = rota::python;
  if (pybind11::module_::import("sys").attr("modules").contains("numpy")) python::require_known_numpy();
  module.attr("__version__") = ROTA_VERSION;
  python::register_errors();
  pybind11::options signatures;
  signatures.disable_function_signatures();
  python::define_options(module);
  module.def("send_messages_to", &python::send_messages_to);
  module.def("drop_shared", &python::drop_shared);
  python::define_sources(module);
  python::define_python_source(module);
  python::define_catalogs(module);
  python::define_communicator(module);
  python::define_checkpoint(module);
  python::define_loader(module);
  python::define_streams(module);
  python::define_python_stream(module);
  python::define_stream_loader(module);
  python::define_traces(module);
}
