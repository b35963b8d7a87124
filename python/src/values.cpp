#include "values.hpp"

#include <pybind11/stl/filesystem.h>

#include <array>

#include "arrays.hpp"
#include "errors.hpp"

namespace rota::python {
namespace {

py::object unless_negative(std::int64_t number) {
  return number < 0 ? py::none() : py::object(py::int_(number));
}

}  // namespace

py::object to_python(const World& world) { return package("World")(world.rank, world.size, world.replica); }
py::object to_python(const Position& at) { return package("Position")(at.epoch, at.consumed, at.step); }
py::object to_python(const BatchSlot& slot) { return package("BatchSlot")(slot.step, slot.rank, slot.slot); }
py::object to_python(const SkippedSamples::Sample& skipped) {
  return package("SkippedSamples::Sample")(skipped.epoch, skipped.id.value, to_file_name(skipped.where),
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
  return package("TensorInfo")(info.name, name_of(info.dtype), py::tuple(py::cast(info.shape)));
}
py::object to_python(const BlobInfo& info) {
  return package("BlobInfo")(info.name, unless_negative(info.rank), info.bytes);
}
py::object to_python(const SaveReport& report) {
  return package("SaveReport")(report.info, report.seconds, report.mirror_error);
}
py::object to_python(const CheckpointDirectory::Rejected& rejected) {
  return package("CheckpointDirectory::Rejected")(rejected.path, to_text(rejected.reason));
}
py::object to_python(const Verification::Damage& damage) {
  constexpr std::array kParts{"page", "size", "table", "contents", "bytes", "rows", "blob"};
  const auto part = static_cast<std::size_t>(damage.part);
  return package("Damage")(kParts.at(part), damage.offset, damage.bytes, to_text(damage.what));
}
py::object to_python(const Verification& found) {
  return package("Verification")(found.info, found.tensors, found.blobs, found.damage);
}

py::object to_python(const LoaderStats& stats) {
  using namespace py::literals;
  py::list workers;
  for (const LoaderStats::Worker& worker : stats.workers) {
    workers.append(py::dict("samples"_a = worker.samples, "bytes"_a = worker.bytes,
                            "read_seconds"_a = worker.read_seconds));
  }
  return py::dict("batches"_a = stats.batches, "samples"_a = stats.samples, "skipped"_a = stats.skipped,
                  "bytes"_a = stats.bytes, "wait_seconds"_a = stats.wait_seconds,
                  "ready_batches"_a = stats.ready_batches, "retries"_a = stats.retries,
                  "fetched_files"_a = stats.fetched_files, "fetched_bytes"_a = stats.fetched_bytes,
                  "workers"_a = workers);
}

}  // namespace rota::python
