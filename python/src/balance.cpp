// Lengths of samples, and balances by them.

#include "rota/balance.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "objects.hpp"
#include "options.hpp"
#include "rota/packing.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

// Of what numpy makes an array of.
Lengths to_lengths(py::handle given) {
  require_known_numpy();
  const py::array all(py::module_::import("numpy").attr("asarray")(given));
  const char kind = all.dtype().kind();
  if (all.ndim() != 1 || (all.size() > 0 && kind != 'i' && kind != 'u')) {
    throw py::type_error(fmt::format(
        "take lengths: they must be whole numbers, one for each sample, and not {} of shape {}",
        py::str(all.dtype()).cast<std::string>(), py::str(all.attr("shape")).cast<std::string>()));
  }
  const auto copied = [&]<typename T>(T /*number*/) {
    const py::array_t<T, py::array::c_style | py::array::forcecast> numbers(all);
    const std::span span(numbers.data(), static_cast<std::size_t>(numbers.size()));
    return unlocked([&] { return Lengths(span); });
  };
  return kind == 'i' && all.itemsize() == sizeof(std::int32_t) ? copied(std::int32_t{})
                                                               : copied(std::int64_t{});
}

py::array to_array(const Lengths& lengths) {
  require_known_numpy();
  py::array_t<std::int64_t> all(lengths.size());
  for (std::int64_t i = 0; i < lengths.size(); ++i) all.mutable_at(i) = lengths[{i}];
  return all;
}

const OptionTable<LengthColumn> kLengthColumn{
    "balance a batch",
    {{"lengths",
      [](LengthColumn& column, py::handle value, const Argument& as) {
        py::isinstance<py::str>(value) ? take(value, as, column.field)
                                       : static_cast<void>(column.lengths = value.cast<const Lengths&>());
      },
      [](const LengthColumn& /*none*/) { return py::none(); }},
     option("linear", &LengthColumn::linear),
     option("quadratic", &LengthColumn::quadratic)}};

const OptionTable<Balance> kBalance{
    "balance a batch",
    {{"columns",
      [](Balance& balance, py::handle value, const Argument& /*as*/) {
        for (const py::handle one : value)
          balance.columns.push_back(kLengthColumn.parse(one.attr("__dict__").cast<py::dict>()));
      },
      [](const Balance& /*none*/) { return py::none(); }},
     option("equal_counts", &Balance::equal_counts),
     option("micro_batches", &Balance::micro_batches),
     option("micro_cost", &Balance::micro_cost),
     option("padded", &Balance::padded)}};

}  // namespace

void take(py::handle value, const Argument& as, Balance& to) {
  to = {};
  if (value.is_none()) return;
  if (!py::isinstance(value, package("Balance"))) as.refuse_type(value, "a rota.Balance");
  py::dict given;
  for (const auto& option : kBalance.options) given[option.name] = value.attr(option.name);
  to = kBalance.parse(given);
}

void define_balance(py::module_& module) {
  py::class_<Lengths>(module, "Lengths")
      .def(py::init(&to_lengths), py::arg("lengths"))
      .def("__len__", [](const Lengths& self) { return self.size(); })
      .def("__getitem__",
           [](const Lengths& self, py::handle i) {
             return self[{take_index(i, self.size(), "look up the length of sample")}];
           })
      .def("__array__", [](const Lengths& self, const py::args& /*dtype*/,
                           const py::kwargs& /*copy*/) { return to_array(self); })
      .def_property_readonly(
          "most", [](const Lengths& self) { return self.most(); }, "The longest.")
      .def_property_readonly(
          "digest", [](const Lengths& self) { return to_string(self.digest()); }, "Of them all.")
      .def("__eq__",
           [](const Lengths& self, py::handle other) {
             return py::isinstance<Lengths>(other) && self.digest() == other.cast<const Lengths&>().digest();
           })
      .def("__hash__", [](const Lengths& self) { return py::hash(py::str(to_string(self.digest()))); })
      .def("__repr__",
           [](const Lengths& self) {
             return fmt::format("<rota.Lengths of {} samples, up to {}>", self.size(), self.most());
           })
      .def(py::pickle(&to_array, [](const py::array& all) { return to_lengths(all); }));
  kLengthColumn.define(module, "LengthColumnOptions");
  kBalance.define(module, "BalanceOptions");
  module.def("check_balance", [](py::handle balance) { take<Balance>(balance, {"balance a batch", "it"}); });
  module.def("read_lengths", [](py::handle path) {
    const auto file = take<std::filesystem::path>(path, {"read lengths", "the path"});
    return unlocked([&] { return read_lengths(file); });
  });
  for (const auto& [name, of] : {std::pair("squares_of", &squares_of), std::pair("tokens_of", &tokens_of)}) {
    module.def(name,
               [of = of](const PySource& packed) { return unlocked([&] { return of(*packed.source); }); });
  }
  module.def("lengths_of",
             [](const PySource& source, py::handle field, py::handle threads, const PyCommunicator* comm) {
               const auto name = take<std::string>(field, {"ask for lengths", "field"});
               const auto of_each = take<int>(threads, {"ask for lengths", "threads"});
               const auto ranks = ranks_of(comm);
               return unlocked([&] { return lengths_of(*ranks, *source.source, name, of_each); });
             });
}

}  // namespace rota::python
