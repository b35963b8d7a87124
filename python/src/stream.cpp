// Sources of streams, and their transforms, as Python sees them.

#include "rota/stream.hpp"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>

#include "errors.hpp"
#include "functions.hpp"
#include "options.hpp"
#include "rota/error.hpp"
#include "source.hpp"

namespace rota::python {
namespace {

// Read-only: after a resume the same sample is given again.
py::object sample_of(std::int64_t epoch, const StreamSample& sample, const std::vector<Field>& fields,
                     const Guard& guard) {
  py::dict arrays;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const auto bytes = sample.bytes(f);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the array is made read-only
    const std::span memory(const_cast<std::byte*>(bytes.data()), bytes.size());
    const py::array array = sample_view(fields[f], sample.rows(f), memory, guard.owner());
    array.attr("flags").attr("writeable") = false;
    arrays[to_name(fields[f].name)] = array;
  }
  const StreamId& id = sample.id();
  return package("StreamSample")(arrays, package("StreamId")(id.shard.value, id.input, id.output), epoch);
}

KeepFunction to_keep(py::object function, std::vector<Field> fields) {
  return [shared = Shared(std::move(function)), fields = std::move(fields)](std::int64_t epoch,
                                                                            const StreamSample& sample) {
    return call_python([&] {
      const Guard guard;
      bool keeps = false;
      guard.lend("filter", [&] {
        const py::object returned = (*shared)(sample_of(epoch, sample, fields, guard));
        if (returned.is_none()) refuse("a filter returned None; return True or False");
        const int truth = PyObject_IsTrue(returned.ptr());
        if (truth < 0) throw py::error_already_set();
        keeps = truth == 1;
      });
      return keeps;
    });
  };
}

void make_samples(py::handle function, py::handle sample, const SampleItems& items, std::int64_t most,
                  StreamOutputs& outputs) {
  const py::object returned = function(sample);
  const bool is_one = PyDict_Check(returned.ptr()) != 0 || py::isinstance<py::str>(returned);
  const auto made = py::reinterpret_steal<py::object>(is_one ? nullptr : PyObject_GetIter(returned.ptr()));
  if (!made) {
    PyErr_Clear();
    refuse(fmt::format("a flat_map returned a {}; return a list of dicts, or yield them", type_of(returned)));
  }
  while (outputs.size() <= most) {  // one more is refused by who calls this
    const auto one = py::reinterpret_steal<py::object>(PyIter_Next(made.ptr()));
    if (!one) {
      if (PyErr_Occurred() != nullptr) throw py::error_already_set();
      return;
    }
    put(items, one, outputs.add());
  }
}

FlatMapFunction to_flat_map(py::object function, std::vector<Field> fields, std::vector<Field> made,
                            std::int64_t most) {
  return [shared = Shared(std::move(function)), fields = std::move(fields),
          items = SampleItems(std::move(made), "take a sample that a flat_map made"),
          most](std::int64_t epoch, const StreamSample& sample, StreamOutputs& outputs) {
    call_python([&] {
      const Guard guard;
      guard.lend("flat_map", [&] {
        make_samples(*shared, sample_of(epoch, sample, fields, guard), items, most, outputs);
      });
    });
  };
}

PyStreamSource made(std::shared_ptr<const StreamSource> source) {
  return {dies_without_gil(std::move(source))};
}

}  // namespace

void define_streams(py::module_& module) {
  using Released = py::call_guard<Unlocked>;
  py::class_<PyStreamSource>(module, "StreamSource")
      .def_property_readonly(
          "fields", [](const PyStreamSource& self) { return to_python(self.source->fields()); },
          "What tensors a sample has.")
      .def_property_readonly(
          "shards", [](const PyStreamSource& self) { return self.source->shards(); },
          "How many there are; fixed for a run.")
      .def_property_readonly(
          "fingerprint",
          py::cpp_function([](const PyStreamSource& self) { return to_string(self.source->fingerprint()); },
                           Released()),
          "What the dataset is known by: a state of another one is refused.");
  module.def("as_stream", [](const PySource& source, py::handle shards) {
    return made(as_stream(source.source, take<std::int64_t>(shards, {"read in sequence", "shards"})));
  });
  module.def("filter", [](const PyStreamSource& stream, py::object keep, std::string name) {
    return made(filter(stream.source, to_keep(std::move(keep), stream.source->fields()), std::move(name)));
  });
  module.def("flat_map", [](const PyStreamSource& stream, py::object make, const py::dict& given) {
    FlatMapOptions options = kFlatMapOptions.parse(given);
    auto function =
        to_flat_map(std::move(make), stream.source->fields(),
                    options.fields.empty() ? stream.source->fields() : options.fields, options.most);
    return made(flat_map(stream.source, std::move(function), std::move(options)));
  });
  module.def("shuffle_buffer", [](const PyStreamSource& stream, py::handle size, py::handle seed) {
    constexpr std::string_view kTask = "shuffle by a buffer";
    return made(shuffle_buffer(stream.source, take<std::int64_t>(size, {kTask, "size"}),
                               take<std::uint64_t>(seed, {kTask, "seed"})));
  });
}

}  // namespace rota::python
