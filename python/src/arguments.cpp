#include "arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <limits>

#include "arrays.hpp"
#include "errors.hpp"
#include "rota/error.hpp"

namespace rota::python {
namespace {

std::string refusal(const Argument& as, py::handle value, std::string_view wanted) {
  const auto shown = py::repr(value).cast<std::string>();
  return fmt::format("{}: {} is {:.100}; it must be {}", as.task, as.name, shown, wanted);
}

// A whole number, and not a bool.
py::object to_integer(py::handle value, const Argument& as) {
  auto made = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (made && !PyBool_Check(value.ptr())) return made;
  PyErr_Clear();
  as.refuse_type(value, "a number");
}

std::int64_t to_signed(py::handle value, const Argument& as, std::int64_t least, std::int64_t most) {
  const py::object number = to_integer(value, as);
  int overflow = 0;
  const std::int64_t made = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow == 0 && made >= least && made <= most) return made;
  as.refuse_value(number, fmt::format("{} to {}", least, most));
}

}  // namespace

void Argument::refuse_type(py::handle value, std::string_view wanted) const {
  throw py::type_error(refusal(*this, value, wanted));
}
void Argument::refuse_value(py::handle value, std::string_view wanted) const {
  throw Error(ErrorCode::invalid_argument, refusal(*this, value, wanted));
}

void take(py::handle value, const Argument& as, std::int64_t& to) {
  to = to_signed(value, as, std::numeric_limits<std::int64_t>::min(),
                 std::numeric_limits<std::int64_t>::max());
}
void take(py::handle value, const Argument& as, int& to) {
  to = static_cast<int>(to_signed(value, as, INT_MIN, INT_MAX));
}

void take(py::handle value, const Argument& as, std::uint64_t& to) {
  const py::object number = to_integer(value, as);
  to = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() == nullptr) return;
  PyErr_Clear();
  as.refuse_value(number, "0 to 2^64 - 1");
}

void take(py::handle value, const Argument& as, double& to) {
  to = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() == nullptr) return;
  PyErr_Clear();
  as.refuse_type(value, "a number");
}

// Also 0 and 1, and numpy's.
void take(py::handle value, const Argument& as, bool& to) {
  const bool is_number = PyLong_Check(value.ptr()) != 0 || type_of(value).starts_with("bool");
  to = is_number && value.equal(py::int_(1));
  if (!is_number || (!to && !value.equal(py::int_(0)))) as.refuse_type(value, "True or False");
}

void take(py::handle value, const Argument& as, std::string& to) {
  if (!py::isinstance<py::str>(value)) as.refuse_type(value, "a name");
  to = bytes_of_name(value);
}

void take(py::handle value, const Argument& as, std::vector<std::string>& to) {
  const bool is_text = py::isinstance<py::str>(value) || py::isinstance<py::bytes>(value);
  if (is_text || !py::isinstance<py::iterable>(value)) as.refuse_type(value, "a list of names");
  to.clear();
  for (const py::handle one : value) take(one, as, to.emplace_back());
}

void take(py::handle value, const Argument& /*as*/, std::filesystem::path& to) {
  to = py::module_::import("os").attr("fsencode")(value).cast<std::string>();
}

void take(py::handle value, const Argument& as, std::chrono::milliseconds& to) {
  const auto seconds = take<double>(value, as);
  if (!(std::abs(seconds) <= 1e12)) as.refuse_value(value, "0 to 10^12 seconds");
  to = std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

void take(py::handle value, const Argument& as, BlockShape& to) {
  if (!py::isinstance<py::sequence>(value) || py::len(value) != 2) as.refuse_type(value, "(samples, blocks)");
  take(value[py::int_(0)], as, to.samples);
  take(value[py::int_(1)], as, to.blocks);
}

void take(py::handle value, const Argument& as, World& to) {
  if (!py::isinstance<py::tuple>(value) || py::len(value) < 2 || py::len(value) > 3) {
    as.refuse_type(value, "(rank, size)");
  }
  take(value[py::int_(0)], as, to.rank);
  take(value[py::int_(1)], as, to.size);
  if (py::len(value) == 3) take(value[py::int_(2)], as, to.replica);
}

void take(py::handle value, const Argument& /*as*/, DType& to) { to = to_dtype(value); }

std::size_t find_name(py::handle value, const Argument& as, std::span<const std::string_view> names) {
  const auto wanted = fmt::format("one of {}", fmt::join(names, ", "));
  if (!py::isinstance<py::str>(value)) as.refuse_type(value, wanted);
  const auto found = std::ranges::find(names, bytes_of_name(value));
  if (found == names.end()) as.refuse_value(value, wanted);
  return static_cast<std::size_t>(found - names.begin());
}

py::object give(const std::string& value) { return to_name(value); }
py::object give(const std::vector<std::string>& value) {
  py::list names;
  for (const std::string& name : value) names.append(to_name(name));
  return py::tuple(names);
}
py::object give(const std::filesystem::path& value) { return to_file_name(value.native()); }
py::object give(std::chrono::milliseconds value) {
  return py::float_(static_cast<double>(value.count()) / 1000);
}
py::object give(const BlockShape& value) { return py::make_tuple(value.samples, value.blocks); }
py::object give(const World& value) { return py::make_tuple(value.rank, value.size, value.replica); }
py::object give(DType value) { return py::str(name_of(value)); }

std::int64_t take_index(py::handle i, std::int64_t size, std::string_view task) {
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(i.ptr()));
  if (!number) throw py::error_already_set();
  int overflow = 0;
  const std::int64_t made = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow == 0 && made >= -size && made < size) return made < 0 ? made + size : made;
  throw Error(ErrorCode::out_of_range, fmt::format("{} {}: there are {}, numbered from 0 on", task,
                                                   py::str(number).cast<std::string>(), size));
}

}  // namespace rota::python
