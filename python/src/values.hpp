#pragma once

// Values of Python as those of C++, and back. What does not fit is refused by name.

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/enumerators.hpp"
#include "rota/balance.hpp"
#include "rota/batch.hpp"
#include "rota/catalog.hpp"
#include "rota/checkpoint_directory.hpp"
#include "rota/loader.hpp"
#include "rota/open.hpp"
#include "rota/packing.hpp"
#include "rota/source.hpp"
#include "rota/verify.hpp"
#include "rota/windows.hpp"
#include "rota/write_shards.hpp"

namespace rota::python {

namespace py = pybind11;

/// What a message calls a value: "make a loader: workers".
struct Argument {
  std::string_view task;
  std::string_view name;

  /// "make a loader: workers is 'x'; it must be a number", as TypeError or Error{invalid_argument}.
  [[noreturn]] void refuse_type(py::handle value, std::string_view wanted) const;
  [[noreturn]] void refuse_value(py::handle value, std::string_view wanted) const;
};

/// `value` as that of C++, into `to`. Throws TypeError for another type (no fraction is cut, and True is no
/// number), and Error{invalid_argument} for a number that it does not have, or an unknown name.
void take(py::handle value, const Argument& as, bool& to);
void take(py::handle value, const Argument& as, int& to);
void take(py::handle value, const Argument& as, std::int64_t& to);
void take(py::handle value, const Argument& as, std::uint64_t& to);
void take(py::handle value, const Argument& as, double& to);
void take(py::handle value, const Argument& as, std::string& to);
void take(py::handle value, const Argument& as, std::vector<std::string>& to);
void take(py::handle value, const Argument& as, std::vector<std::int64_t>& to);
/// A list of extensions, or a dict of such lists by field.
void take(py::handle value, const Argument& as, std::vector<TarField>& to);
void take(py::handle value, const Argument& as, std::filesystem::path& to);
void take(py::handle value, const Argument& as, std::chrono::milliseconds& to);
void take(py::handle value, const Argument& as, BlockShape& to);
void take(py::handle value, const Argument& as, World& to);
/// (epoch, consumed, step).
void take(py::handle value, const Argument& as, Position& to);
/// A name ("bfloat16"), a numpy dtype, or what numpy takes for one.
void take(py::handle value, const Argument& as, DType& to);
/// Those of fsspec, by scheme, or None: also what fsspec has for all other schemes.
void take(py::handle value, const Argument& as, Storages& to);
/// ("s3://bucket/run", those storages), or None.
void take(py::handle value, const Argument& as, StoredPath& to);
/// An iterable of `rota.Field`, or of tuples with the same items, or a mapping of names to (dtype, shape).
void take(py::handle value, const Argument& as, std::vector<Field>& to);
/// A `rota.Balance`, or None.
void take(py::handle value, const Argument& as, Balance& to);

/// The other way round: as a signature of Python has it for a default.
py::object give(const std::string& value);
py::object give(const std::vector<std::string>& value);
py::object give(const std::vector<std::int64_t>& value);
py::object give(const std::vector<TarField>& value);
py::object give(const std::filesystem::path& value);
py::object give(std::chrono::milliseconds value);
py::object give(const BlockShape& value);
py::object give(DType value);
py::object give(const std::vector<Field>& value);
inline py::object give(const StoredPath& /*none*/) { return py::none(); }
inline py::object give(const Storages& /*none*/) { return py::none(); }
inline py::object give(const Balance& /*none*/) { return py::none(); }
template <typename T>
py::object give(const T& value) {
  return py::cast(value);
}

/// The names of enumerators, in order.
inline std::span<const std::string_view> names_of(Shuffle /*any*/) { return internal::kShuffles; }
inline std::span<const std::string_view> names_of(Tail /*any*/) { return internal::kTails; }
inline std::span<const std::string_view> names_of(Split /*any*/) { return internal::kSplits; }
inline std::span<const std::string_view> names_of(Fit /*any*/) { return internal::kFits; }
inline std::span<const std::string_view> names_of(Edges /*any*/) { return internal::kEdges; }
inline std::span<const std::string_view> names_of(Settle /*any*/) { return internal::kSettles; }
inline std::span<const std::string_view> names_of(BadSamples::Policy /*any*/) { return internal::kPolicies; }
inline std::span<const std::string_view> names_of(MixtureEnd /*any*/) { return internal::kMixtureEnds; }
inline std::span<const std::string_view> names_of(ChangeDetection /*any*/) {
  return internal::kChangeDetections;
}
inline std::span<const std::string_view> names_of(Access /*any*/) { return internal::kAccesses; }
inline std::span<const std::string_view> names_of(FolderLayout /*any*/) { return internal::kFolderLayouts; }
inline std::span<const std::string_view> names_of(ShardOptions::Format /*any*/) {
  return internal::kShardFormats;
}

std::size_t find_name(py::handle value, const Argument& as, std::span<const std::string_view> names);
template <typename Enum>
requires std::is_enum_v<Enum>
void take(py::handle value, const Argument& as, Enum& to) {
  to = static_cast<Enum>(find_name(value, as, names_of(to)));
}
template <typename Enum>
requires std::is_enum_v<Enum> py::object give(const Enum& value) {
  return py::str(std::string(names_of(value)[static_cast<std::size_t>(value)]));
}

template <typename T>
void take(py::handle value, const Argument& as, std::optional<T>& to) {
  to.reset();
  if (!value.is_none()) take(value, as, to.emplace());
}

template <typename T>
T take(py::handle value, const Argument& as) {
  T made{};
  take(value, as, made);
  return made;
}

/// Item `i` of `size`, also counted from the end. Throws TypeError, and Error{out_of_range}.
std::int64_t take_index(py::handle i, std::int64_t size, std::string_view task);

// ---- plain structs as the named tuples of Python that say the same: alone, in optionals and in lists ----

/// What the package exports by that name.
py::object package(const char* name);

py::object to_python(const World& world);
py::object to_python(const Position& at);
py::object to_python(const BatchSlot& slot);
py::object to_python(const BatchCosts& costs);
py::object to_python(const Field& field);
py::object to_python(const StreamId& id);
py::object to_python(const Progress& at);
py::object to_python(const SkippedSamples::Sample& skipped);
/// The table of statistics, as (name, kind, unit, help, whether it is of each worker).
py::list statistics();
py::object to_python(const LoaderStats& stats);  // a dict, as are the next two
py::object to_python(const BatchTimes& times);
py::object to_python(const RankComparison& found);
py::object to_python(const CatalogChanges& changes);
py::object to_python(const ShardReport& report);
py::object to_python(const CheckpointInfo& info);
py::object to_python(const TensorInfo& info);
py::object to_python(const BlobInfo& info);
py::object to_python(const SaveReport& report);
py::object to_python(const CheckpointDirectory::Rejected& rejected);
py::object to_python(const Verification::Damage& damage);
py::object to_python(const Verification& found);

template <typename T>
concept NamedTuple = requires(const T& value) {
  to_python(value);
};

/// A tuple of `rota.Field`.
py::tuple to_tuple(std::span<const Field> fields);

// ---- memory as arrays of numpy ----

/// Throws Error{unsupported} where numpy is of a version whose arrays this build would misread: before the
/// first one is made or taken. Needs the GIL.
void require_known_numpy();

/// numpy's type of the same elements. It has no bfloat16: that is the bits, uint16.
py::dtype to_numpy(DType dtype);

/// [rows, field.shape...] over `bytes`, which live as long as `owner` does.
py::array view(const Field& field, std::int64_t rows, std::span<std::byte> bytes, py::handle owner);
/// The same of numbers, [size] or [size, columns].
template <typename T>
py::array view(std::span<const T> numbers, py::handle owner, std::int64_t columns = 1) {
  require_known_numpy();
  std::vector<py::ssize_t> shape{static_cast<py::ssize_t>(numbers.size()) / columns};
  if (columns != 1) shape.push_back(columns);
  return {py::dtype::of<T>(), std::move(shape), numbers.data(), owner};
}
/// A tensor of a batch of `samples`: an array, or `rota.Ragged`.
py::object view(const Tensor& tensor, std::int64_t samples, py::handle owner);
/// A field of one sample, of `rows` rows where it is ragged.
py::array view_sample(const Field& field, std::int64_t rows, std::span<std::byte> bytes, py::handle owner);

std::span<const std::byte> bytes_of(const py::array& array);

/// Numbers as bytes of Python.
template <typename T>
std::span<const T> numbers_in(const py::bytes& bytes) {
  const auto all = static_cast<std::string_view>(bytes);
  return {reinterpret_cast<const T*>(all.data()), all.size() / sizeof(T)};
}
template <typename T>
py::bytes to_bytes(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(numbers[0])};
}

}  // namespace rota::python

namespace pybind11::detail {
/// One way only.
template <rota::python::NamedTuple T>
struct type_caster<T> {
  static constexpr auto name = const_name("tuple");  // NOLINT(readability-identifier-naming): pybind11's
  static handle cast(const T& value, return_value_policy, handle) {
    return rota::python::to_python(value).release();
  }
};
}  // namespace pybind11::detail
