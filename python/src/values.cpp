#include "values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <limits>

#include "core/failure.hpp"
#include "errors.hpp"
#include "formats/formats.hpp"
#include "formats/records.hpp"
#include "loader/statistics.hpp"

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

py::object unless_negative(std::int64_t number) {
  return number < 0 ? py::none() : py::object(py::int_(number));
}

using py::literals::operator""_a;  // NOLINT(misc-unused-using-decls): it does not see literals

py::dict to_dict(const Durations& times) {
  return py::dict("count"_a = times.count(), "seconds"_a = times.seconds(), "p50"_a = times.quantile(0.5),
                  "p99"_a = times.quantile(0.99), "p999"_a = times.quantile(0.999));
}

py::dict to_dict(const RankComparison::Spread& spread) {
  return py::dict("least"_a = spread.least, "median"_a = spread.median, "most"_a = spread.most,
                  "rank"_a = spread.rank);
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

void take(py::handle value, const Argument& as, std::vector<std::int64_t>& to) {
  if (!py::isinstance<py::iterable>(value)) as.refuse_type(value, "a list of numbers");
  to.clear();
  for (const py::handle one : value) take(one, as, to.emplace_back());
}

void take(py::handle value, const Argument& as, std::vector<TarField>& to) {
  to.clear();
  if (!py::hasattr(value, "keys")) {
    for (std::string& extension : take<std::vector<std::string>>(value, as))
      to.emplace_back(std::move(extension));
    return;
  }
  for (const auto& [name, extensions] : py::dict(py::reinterpret_borrow<py::object>(value)))
    to.emplace_back(take<std::string>(name, as), take<std::vector<std::string>>(extensions, as));
}

void take(py::handle value, const Argument& /*as*/, std::filesystem::path& to) {
  to = py::module_::import("os").attr("fsencode")(value).cast<std::string>();
}

void take(py::handle value, const Argument& as, std::chrono::milliseconds& to) {
  const auto seconds = take<double>(value, as);
  if (!(seconds >= 0 && seconds <= 1e12)) as.refuse_value(value, "0 to 10^12 seconds");
  to = std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

void take(py::handle value, const Argument& as, BlockShape& to) {
  if (!py::isinstance<py::sequence>(value) || py::len(value) != 2) as.refuse_type(value, "(samples, blocks)");
  take(value[py::int_(0)], as, to.samples);
  take(value[py::int_(1)], as, to.blocks);
}

void take(py::handle value, const Argument& as, Position& to) {
  std::vector<std::int64_t> numbers;
  for (const py::handle one : py::reinterpret_borrow<py::object>(value))
    numbers.push_back(take<std::int64_t>(one, as));
  if (numbers.size() != 3) throw py::type_error("go to a position: it is (epoch, consumed, step)");
  to = {.epoch = numbers[0], .consumed = numbers[1], .step = numbers[2]};
}

void take(py::handle value, const Argument& as, World& to) {
  if (!py::isinstance<py::tuple>(value) || py::len(value) < 2 || py::len(value) > 3) {
    as.refuse_type(value, "(rank, size)");
  }
  take(value[py::int_(0)], as, to.rank);
  take(value[py::int_(1)], as, to.size);
  if (py::len(value) == 3) take(value[py::int_(2)], as, to.replica);
}

void take(py::handle value, const Argument& /*as*/, DType& to) {
  require_known_numpy();
  if (py::isinstance<py::str>(value) && value.cast<std::string>() == "bfloat16") {
    to = DType::bfloat16;
    return;
  }
  py::dtype numpy;
  try {
    numpy = py::dtype::from_args(py::reinterpret_borrow<py::object>(value));
  } catch (const py::error_already_set&) {
    throw internal::failure(ErrorCode::invalid_argument,
                            "there is no dtype {}; take one of numpy's, or \"bfloat16\"",
                            py::repr(value).cast<std::string>());
  }
  const auto name = py::str(numpy.attr("name")).cast<std::string>();
  try {
    if (!numpy.attr("isnative").cast<bool>()) throw Error(ErrorCode::invalid_argument, "");
    to = name == "bool" ? DType::boolean : parse_dtype(name);
  } catch (const Error&) {
    throw internal::failure(ErrorCode::invalid_argument,
                            "rota has no elements of dtype {}: only booleans, integers and floats of up to "
                            "64 bits in native byte order",
                            py::repr(numpy).cast<std::string>());
  }
}

void take(py::handle value, const Argument& as, std::vector<Field>& to) {
  to.clear();
  for (const py::handle one : py::module_::import("rota._values").attr("as_fields")(value)) {
    to.push_back({.name = bytes_of_name(one.attr("name")),
                  .dtype = take<DType>(one.attr("dtype"), as),
                  .shape = one.attr("shape").cast<std::vector<std::int64_t>>(),
                  .ragged = one.attr("ragged").cast<bool>()});
  }
}

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
py::object give(const std::vector<std::int64_t>& value) { return py::tuple(py::cast(value)); }
py::object give(const std::vector<TarField>& value) {
  if (internal::are_extensions(value)) return give(internal::names_of(value));
  py::dict made;
  for (const auto& [name, extensions] : value) made[give(name)] = give(extensions);
  return made;
}
py::object give(const std::filesystem::path& value) { return to_file_name(value.native()); }
py::object give(std::chrono::milliseconds value) {
  return py::float_(static_cast<double>(value.count()) / 1000);
}
py::object give(const BlockShape& value) { return py::make_tuple(value.samples, value.blocks); }
py::object give(DType value) {
  return py::str(value == DType::boolean ? "bool" : std::string(to_string(value)));
}

std::int64_t take_index(py::handle i, std::int64_t size, std::string_view task) {
  const auto number = unless_raised(PyNumber_Index(i.ptr()));
  int overflow = 0;
  const std::int64_t made = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow == 0 && made >= -size && made < size) return made < 0 ? made + size : made;
  throw internal::failure(ErrorCode::out_of_range, "{} {}: there are {}, numbered from 0 on", task,
                          py::str(number).cast<std::string>(), size);
}

// ---- named tuples ----

py::object package(const char* name) { return py::module_::import("rota").attr(name); }

py::object to_python(const World& world) { return package("World")(world.rank, world.size, world.replica); }
py::object to_python(const Position& at) { return package("Position")(at.epoch, at.consumed, at.step); }
py::object to_python(const BatchSlot& slot) {
  return package("BatchSlot")(slot.step, slot.rank, slot.slot, slot.is_skipped);
}
py::object to_python(const BatchCosts& costs) {
  return package("BatchCosts")(costs.global, costs.rank, costs.most, costs.most_by_sample, costs.largest);
}
py::object to_python(const Field& field) {
  return package("Field")(to_name(field.name), give(field.dtype), py::tuple(py::cast(field.shape)),
                          field.ragged);
}
py::object to_python(const StreamId& id) { return package("StreamId")(id.shard.value, id.input, id.output); }
py::object to_python(const Progress& at) {
  return package("Progress")(std::string(at.task), at.done, at.total, at.seconds, at.is_over,
                             std::string(at.unit));
}
py::object to_python(const SkippedSamples::Sample& skipped) {
  return package("SkippedSample")(skipped.epoch, skipped.id.value, to_file_name(skipped.where),
                                  to_text(skipped.error));
}
py::object to_python(const CatalogChanges& changes) {
  return package("CatalogChanges")(changes.changed, changes.resized, changes.vanished, changes.appeared,
                                   to_file_name(changes.first));
}
py::object to_python(const ShardReport& report) {
  return package("ShardReport")(report.samples, report.shards, report.there, report.written, report.bytes,
                                report.is_complete);
}
py::object to_python(const CheckpointInfo& info) {
  return package("CheckpointInfo")(info.path, info.serial, unless_negative(info.parent), info.step,
                                   info.format_version, info.world_size, info.run_id, info.bytes);
}
py::object to_python(const TensorInfo& info) {
  return package("TensorInfo")(info.name, give(info.dtype), py::tuple(py::cast(info.shape)));
}
py::object to_python(const BlobInfo& info) {
  return package("BlobInfo")(info.name, unless_negative(info.rank), info.bytes);
}
py::object to_python(const SaveReport& report) {
  return package("SaveReport")(report.info, report.seconds, report.mirror_error);
}
py::object to_python(const CheckpointDirectory::Rejected& rejected) {
  return package("RejectedCheckpoint")(rejected.path, to_text(rejected.reason));
}
py::object to_python(const Verification::Damage& damage) {
  constexpr std::array kParts{"page", "size", "table", "contents", "bytes", "rows", "blob"};
  const auto part = static_cast<std::size_t>(damage.part);
  return package("Damage")(kParts.at(part), damage.offset, damage.bytes, to_text(damage.what));
}
py::object to_python(const Verification& found) {
  return package("Verification")(found.info, found.tensors, found.blobs, found.damage);
}

py::object to_python(const BatchTimes& times) {
  return py::dict("wait_seconds"_a = times.wait_seconds, "read_seconds"_a = times.read_seconds,
                  "transform_seconds"_a = times.transform_seconds, "slowest"_a = to_text(times.slowest),
                  "slowest_seconds"_a = times.slowest_seconds);
}

py::object to_python(const RankComparison& found) {
  return py::dict("wait"_a = to_dict(found.wait), "read"_a = to_dict(found.read),
                  "transform"_a = to_dict(found.transform), "step"_a = to_dict(found.step),
                  "straggler"_a = to_text(found.straggler));
}

// What the table of statistics has of a loader, a worker or a dataset.
template <typename Stats>
py::dict by_name(const Stats& stats) {
  py::dict all;
  for (const internal::Statistic& one : internal::kStatistics) {
    if (const auto* count = std::get_if<std::int64_t Stats::*>(&one.of))
      all[py::str(one.name)] = stats.**count;
    if constexpr (!std::is_same_v<Stats, LoaderStats::Dataset>)
      if (const auto* times = std::get_if<Durations Stats::*>(&one.of))
        all[py::str(one.name)] = to_dict(stats.**times);
  }
  return all;
}

py::object to_python(const LoaderStats& stats) {
  py::list workers;
  for (const LoaderStats::Worker& worker : stats.workers) workers.append(by_name(worker));
  py::dict all = by_name(stats);
  all["slowest"] = to_python(stats.slowest);
  all["workers"] = workers;
  py::list datasets;
  for (const LoaderStats::Dataset& dataset : stats.datasets) {
    py::dict one = by_name(dataset);
    one["name"] = dataset.name;
    datasets.append(one);
  }
  all["datasets"] = datasets;
  return all;
}

py::list statistics() {
  constexpr std::string_view kinds[] = {"counter", "gauge", "summary"};
  py::list all;
  for (const internal::Statistic& one : internal::kStatistics) {
    all.append(
        py::make_tuple(one.name, kinds[static_cast<std::size_t>(one.kind)], one.unit, one.help, one.label()));
  }
  return all;
}

py::object give(const std::vector<Field>& value) { return to_tuple(value); }

py::tuple to_tuple(std::span<const Field> fields) {
  py::tuple made(fields.size());
  for (std::size_t f = 0; f < fields.size(); ++f) made[f] = to_python(fields[f]);
  return made;
}

// ---- memory ----

// pybind11 before 2.12 knows the memory of numpy 1's dtypes alone; of numpy 2's it reads an itemsize of 0.
void require_known_numpy() {
#if PYBIND11_VERSION_MAJOR == 2 && PYBIND11_VERSION_MINOR < 12
  static bool is_known = false;
  if (is_known) return;
  const auto version = py::module_::import("numpy").attr("__version__").cast<std::string>();
  if (!version.starts_with("1.")) {
    throw internal::failure(ErrorCode::unsupported,
                            "use numpy {}: this build of rota knows numpy 1 alone, as it was made with "
                            "pybind11 {}.{}; install it anew in this environment (pip install . brings a "
                            "newer pybind11), or take an older numpy (pip install \"numpy<2\")",
                            version, PYBIND11_VERSION_MAJOR, PYBIND11_VERSION_MINOR);
  }
  is_known = true;
#endif
}

py::dtype to_numpy(DType dtype) {
  require_known_numpy();
  return dtype == DType::bfloat16 ? py::dtype("uint16") : py::dtype::from_args(give(dtype));
}

py::array view(const Field& field, std::int64_t rows, std::span<std::byte> bytes, py::handle owner) {
  std::vector<py::ssize_t> shape{rows};
  shape.insert(shape.end(), field.shape.begin(), field.shape.end());
  return {to_numpy(field.dtype), std::move(shape), bytes.data(), owner};
}

py::object view(const Tensor& tensor, std::int64_t samples, py::handle owner) {
  const Field& field = *tensor.field;
  if (!field.ragged) return view(field, samples, tensor.bytes, owner);
  const std::int64_t rows = tensor.offsets.empty() ? 0 : tensor.offsets.back();
  return package("Ragged")(view(field, rows, tensor.bytes, owner), view(tensor.offsets, owner));
}

py::array view_sample(const Field& field, std::int64_t rows, std::span<std::byte> bytes, py::handle owner) {
  if (field.ragged) return view(field, rows, bytes, owner);
  return {to_numpy(field.dtype), std::vector<py::ssize_t>(field.shape.begin(), field.shape.end()),
          bytes.data(), owner};
}

std::span<const std::byte> bytes_of(const py::array& array) {
  return {static_cast<const std::byte*>(array.data()), static_cast<std::size_t>(array.nbytes())};
}

}  // namespace rota::python
