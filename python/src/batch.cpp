// Batches: mappings of fields' names to arrays over their memory.

#include <algorithm>
#include <span>
#include <string>

#include "loader/batch_memory.hpp"
#include "objects.hpp"
#include "order.hpp"
#include "rota/batch.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

py::iterator field_names(const Batch& batch) {
  py::list names;
  for (const Field& field : batch.fields()) names.append(to_name(field.name));
  return py::iter(names);
}

bool has_field(const Batch& batch, py::handle name) {
  return std::ranges::any_of(batch.fields(),
                             [&](const Field& field) { return name.equal(to_name(field.name)); });
}

py::object field_of(const py::object& self, py::handle name) {
  if (!py::isinstance<py::str>(name)) throw py::key_error(py::repr(name).cast<std::string>());
  const auto& batch = self.cast<const Batch&>();
  return view(batch.tensor(bytes_of_name(name)), batch.size(), self);
}

using BatchClass = py::class_<Batch>;

void define_counts(BatchClass& batch) {
  batch.def("__len__", [](const Batch& self) { return self.fields().size(); })
      .def("__iter__", &field_names)
      .def("__contains__", &has_field)
      .def("__getitem__", &field_of)
      .def_property_readonly(
          "fields", [](const Batch& self) { return to_tuple(self.fields()); }, "What tensors there are.")
      .def_property_readonly("size", &Batch::size, "Samples here, which count or not.")
      .def_property_readonly("real", &Batch::real, "Samples here that count.")
      .def_property_readonly("start", &Batch::start, "The position before it.")
      .def_property_readonly("end", &Batch::end, "The position behind it.")
      .def_property_readonly("is_again", &Batch::is_again,
                             "Whether its samples were handed out before, and come again: it is no step.")
      .def_property_readonly(
          "times", [](const Batch& self) { return to_python(self.times()); },
          "A dict: seconds that the loop waited for it, and a worker read and transformed it, and what was "
          "slow.")
      .def_property_readonly("global_size", &Batch::global_size,
                             "Samples of all ranks, which count or not. Not of streams.")
      .def_property_readonly(
          "global_real", &Batch::global_real,
          "Samples of all ranks that count. An error where several ranks may skip some: sum "
          "`real` over ranks.")
      .def_property_readonly("costs", &Batch::costs, "Under \"balanced\", what it costs: `BatchCosts`.");
}

// One number for each of its slots, or several.
template <typename Number, typename T>
void define_numbers(BatchClass& batch, const char* name, std::span<const T> (Batch::*get)() const&,
                    const char* text, std::int64_t columns = 1) {
  const auto view_of = [=](const py::object& self) {
    static_assert(sizeof(T) % sizeof(Number) == 0);
    const std::span<const T> values = (self.cast<const Batch&>().*get)();
    const auto* const numbers = reinterpret_cast<const Number*>(values.data());
    return view(std::span(numbers, values.size_bytes() / sizeof(Number)), self, columns);
  };
  batch.def_property_readonly(name, view_of, text);
}

// The micro-batches of a batch, each as one of its own.
py::list parts_of(const Batch& batch) {
  const internal::BatchMemory& whole = internal::BatchPool::memory_of(batch);
  py::list parts;
  for (std::int64_t begin = 0; const std::int64_t end : whole.micro_ends) {
    auto part = slices().take();
    part->start = whole.start;
    part->end = whole.end;
    part->global_size = whole.global_size;
    part->global_real = whole.global_real;
    part->left_again = whole.left_again;
    part->micro_ends = whole.micro_ends;
    part->global_sums = whole.global_sums;
    part->costs = whole.costs;
    const auto cut = [&](const auto& from, auto& to) { to.assign(from.begin() + begin, from.begin() + end); };
    cut(whole.slots, part->slots);
    cut(whole.ids, part->ids);
    cut(whole.kinds, part->kinds);
    cut(whole.epochs, part->epochs);
    cut(whole.datasets, part->datasets);
    parts.append(slices().wrap(std::move(part)));
    begin = end;
  }
  return parts;
}

}  // namespace

void define_batches(py::module_& module) {
  BatchClass batch(module, "Batch");
  module.def("parts_of", &parts_of);
  define_counts(batch);
  define_numbers<std::int64_t>(batch, "ids", &Batch::ids, "[size], int64: the samples.");
  define_numbers<std::uint8_t>(batch, "kinds", &Batch::kinds,
                               "[size], uint8: 0 a sample, 1 padding, 2 skipped.");
  define_numbers<std::int64_t>(batch, "epochs", &Batch::epochs, "[size], int64: of each sample.");
  define_numbers<std::int32_t>(batch, "datasets", &Batch::datasets,
                               "[size], int32: which of a mixture's datasets each sample is of.");
  define_numbers<std::int64_t>(
      batch, "slots", &Batch::slots,
      "[size], int64: places in the global batch, ascending; under \"balanced\" in each "
      "micro-batch.");
  define_numbers<std::int64_t>(batch, "micro_ends", &Batch::micro_ends,
                               "int64: under \"balanced\", where each micro-batch ends.");
  define_numbers<std::int64_t>(
      batch, "global_sums", &Batch::global_sums,
      "int64: under \"balanced\", the sum of each column of lengths over all ranks.");
  define_numbers<std::int64_t>(
      batch, "stream_ids", &Batch::stream_ids,
      "[size, 3], int64: of streams, shard, input and output of each sample: see `StreamId`.", 3);
  define_numbers<std::int64_t>(batch, "positions", &Batch::positions,
                               "[size], int64: of streams, the number of each sample in its shard's stream.");
}

}  // namespace rota::python
