#pragma once

// Values of Python as those of C++, and back. What does not fit is refused by name.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/enumerators.hpp"
#include "rota/catalog.hpp"
#include "rota/dtype.hpp"
#include "rota/loader_options.hpp"
#include "rota/types.hpp"
#include "rota/world.hpp"
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
void take(py::handle value, const Argument& as, std::filesystem::path& to);
void take(py::handle value, const Argument& as, std::chrono::milliseconds& to);
void take(py::handle value, const Argument& as, BlockShape& to);
void take(py::handle value, const Argument& as, World& to);
void take(py::handle value, const Argument& as, DType& to);

/// The other way round: as a signature of Python has it for a default.
py::object give(const std::string& value);
py::object give(const std::vector<std::string>& value);
py::object give(const std::filesystem::path& value);
py::object give(std::chrono::milliseconds value);
py::object give(const BlockShape& value);
py::object give(const World& value);
py::object give(DType value);
template <typename T>
py::object give(const T& value) {
  return py::cast(value);
}

/// The names of enumerators, in order.
inline std::span<const std::string_view> names_of(Shuffle /*any*/) { return internal::kShuffles; }
inline std::span<const std::string_view> names_of(Tail /*any*/) { return internal::kTails; }
inline std::span<const std::string_view> names_of(Split /*any*/) { return internal::kSplits; }
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

}  // namespace rota::python
