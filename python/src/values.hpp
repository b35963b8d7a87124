#pragma once

// Plain structs of C++ as the named tuples of Python that say the same. What returns one, or an optional or a
// list of them, includes this.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <concepts>

#include "rota/catalog.hpp"
#include "rota/checkpoint_directory.hpp"
#include "rota/loader.hpp"
#include "rota/stream_loader.hpp"
#include "rota/verify.hpp"
#include "rota/write_shards.hpp"

namespace rota::python {

namespace py = pybind11;

py::object to_python(const World& world);
py::object to_python(const Position& at);
py::object to_python(const BatchSlot& slot);
py::object to_python(const SkippedSamples::Sample& skipped);
py::object to_python(const LoaderStats& stats);  // a dict
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
concept NamedTuple = std::same_as<T, World> || std::same_as<T, Position> || std::same_as<T, BatchSlot> ||
    std::same_as<T, SkippedSamples::Sample> || std::same_as<T, LoaderStats> ||
    std::same_as<T, CatalogChanges> || std::same_as<T, ShardReport> || std::same_as<T, CheckpointInfo> ||
    std::same_as<T, TensorInfo> || std::same_as<T, BlobInfo> || std::same_as<T, SaveReport> ||
    std::same_as<T, CheckpointDirectory::Rejected> || std::same_as<T, Verification::Damage> ||
    std::same_as<T, Verification>;

}  // namespace rota::python

namespace pybind11::detail {
/// One way only.
template <rota::python::NamedTuple T>
struct type_caster<T> {
  static constexpr auto name = const_name("tuple");
  static handle cast(const T& value, return_value_policy, handle) {
    return rota::python::to_python(value).release();
  }
};
}  // namespace pybind11::detail
