// The module rota._rota: rota's C++ library for the Python package. Python's side has defaults and
// documentation.

#include "functions.hpp"
#include "objects.hpp"
#include "remote/http.hpp"
#include "values.hpp"

namespace {

// Of an object whose __init__ failed or did not run yet, pybind11 would take memory for one of C++'s.
void refuse_objects_not_made(const pybind11::module_& module) {
  for (const auto& [name, made] : module.attr("__dict__").cast<pybind11::dict>()) {
    if (!pybind11::isinstance<pybind11::type>(made)) continue;
    if (auto* const type = pybind11::detail::get_type_info(reinterpret_cast<PyTypeObject*>(made.ptr()))) {
      type->operator_new = [](std::size_t /*size*/) -> void* {
        throw pybind11::attribute_error(
            "use an object that was not made: its __init__ failed, or is still to be called "
            "(super().__init__ first)");
      };
    }
  }
}

}  // namespace

PYBIND11_MODULE(_rota, module) {
  namespace python = rota::python;
  if (pybind11::module_::import("sys").attr("modules").contains("numpy")) python::require_known_numpy();
  module.attr("__version__") = ROTA_VERSION;
  python::define_lifetime(module);
  python::register_errors();
  pybind11::options signatures;
  signatures.disable_function_signatures();
  module.def("send_messages_to", &python::send_messages_to);
  module.def("add_ca_file",
             [](const std::string& file) { rota::internal::known_ca_files().push_back(file); });
  module.def("run_tool", &python::run_tool);
  python::define_options(module);
  python::define_sources(module);
  python::define_catalogs(module);
  python::define_communicator(module);
  python::define_checkpoint(module);
  python::define_batches(module);
  python::define_loaders(module);
  python::define_indices(module);
  python::define_runs(module);
  python::define_streams(module);
  python::define_settling(module);
  refuse_objects_not_made(module);
}
