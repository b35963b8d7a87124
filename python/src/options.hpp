#pragma once

// The options of C++'s structs by their names in Python. Of one table are made: what takes them by keyword,
// what refuses an unknown one, and the defaults that a test compares with Python's signatures.

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <functional>
#include <string>
#include <vector>

#include "functions.hpp"
#include "rota/packing.hpp"
#include "rota/stream.hpp"
#include "rota/stream_loader.hpp"
#include "rota/windows.hpp"
#include "values.hpp"

namespace rota::python {

template <typename Options>
struct Option {
  const char* name;
  std::function<void(Options&, py::handle, const Argument&)> set;
  std::function<py::object(const Options&)> get;
};

/// An option that is the member to which `member` returns a reference.
template <typename Options, typename Member>
Option<Options> option(const char* name, Member member) {
  return {name,
          [member](Options& options, py::handle value, const Argument& as) {
            take(value, as, std::invoke(member, options));
          },
          [member](const Options& options) { return give(std::invoke(member, options)); }};
}
template <typename Options, typename T>
Option<Options> option(const char* name, T Options::*member) {
  return option<Options, T Options::*>(name, member);
}

template <typename Options>
struct OptionTable {
  const char* task = "";  ///< begins messages
  std::vector<Option<Options>> options;
  Options initial = {};  ///< with the defaults

  /// Of keywords, in the order of the table. Throws TypeError for one that is not there, and as `take` and
  /// `Options::validate` do.
  [[nodiscard]] Options parse(const py::dict& given) const {
    for (const auto& [name, value] : given) require_known(name.template cast<std::string>());
    Options made = initial;
    for (const Option<Options>& option : options) {
      if (!given.contains(option.name)) continue;
      option.set(made, given[option.name], {.task = task, .name = option.name});
    }
    if constexpr (requires { made.validate(); }) made.validate();
    return made;
  }

  /// A class of Python that takes them by keyword.
  void define(py::module_& module, const char* type) const {
    py::class_<Options>(module, type)
        .def(py::init([this](const py::kwargs& given) { return parse(given); }))
        .def_static("plain", [this](const py::kwargs& given) { return plain(given); })
        .def_static("defaults", [this] { return defaults(); });
  }

  /// Those given, as objects of Python's own types: to be kept, or pickled.
  [[nodiscard]] py::dict plain(const py::dict& given) const {
    const Options parsed = parse(given);
    py::dict made;
    for (const Option<Options>& option : options) {
      if (given.contains(option.name)) made[option.name] = option.get(parsed);
    }
    return made;
  }
  /// All, as objects of Python's own types.
  [[nodiscard]] py::dict defaults() const {
    py::dict made;
    for (const Option<Options>& option : options) made[option.name] = option.get(initial);
    return made;
  }

 private:
  void require_known(const std::string& name) const {
    std::string known;
    for (const Option<Options>& option : options) {
      if (name == option.name) return;
      known += fmt::format("{}{}", known.empty() ? "" : ", ", option.name);
    }
    throw py::type_error(fmt::format("{}: there is no option {}; there are {}", task, name, known));
  }
};

/// Of a Mixture, without the datasets.
struct MixtureOptions {
  MixtureEnd end = Mixture().end;
  std::int64_t steps = Mixture().steps;
  bool grown = Mixture().grown;
};

// Those that Python keeps as dictionaries, to be pickled, or in a named tuple.
extern const OptionTable<PackOptions> kPackOptions;
extern const OptionTable<WindowOptions> kWindowOptions;
extern const OptionTable<FlatMapOptions> kFlatMapOptions;
extern const OptionTable<MixtureOptions> kMixtureOptions;
extern const OptionTable<Dispatch> kDispatchOptions;  // without the source

/// Lengths, and the options of balances: with define_options.
void define_balance(py::module_& module);

std::vector<double> to_weights(py::handle given);
/// Of a `rota.Mixture`.
MixtureOptions to_mixture_options(py::handle given);
Mixture to_mixture(py::handle given);

}  // namespace rota::python
