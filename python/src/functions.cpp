#include "functions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "errors.hpp"
#include "rota/error.hpp"
#include "rota/message.hpp"

namespace rota::python {
namespace {

void copy(const py::array& from, std::span<std::byte> to) {
  const auto bytes = bytes_of(from);
  if (!bytes.empty() && bytes.data() != to.data()) std::memmove(to.data(), bytes.data(), bytes.size());
}

bool overlaps(const py::array& array, std::span<const std::span<std::byte>> memory) {
  const auto* const begin = static_cast<const std::byte*>(array.data());
  return array.nbytes() > 0 && std::ranges::any_of(memory, [&](std::span<std::byte> field) {
           return begin < field.data() + field.size() && field.data() < begin + array.nbytes();
         });
}

// Into the sample's own memory, of which the arrays may be views.
void change_in_place(py::handle returned, const SampleView& in, SampleOutput& out) {
  const SampleItems own({in.fields.begin(), in.fields.end()}, "take what a transform returned");
  auto arrays = own.take(returned);
  for (std::size_t f = 0; f < arrays.size(); ++f) {
    if (static_cast<std::size_t>(arrays[f].nbytes()) != out.bytes(f).size()) {
      refuse(
          fmt::format("take field \"{}\" of what a transform returned: it has other numbers of rows; "
                      "give transform_fields",
                      in.fields[f].name));
    }
    const bool is_itself = arrays[f].data() == out.bytes(f).data();
    if (!is_itself && overlaps(arrays[f], in.bytes)) arrays[f] = arrays[f].attr("copy")();
  }
  for (std::size_t f = 0; f < arrays.size(); ++f) copy(arrays[f], out.bytes(f));
}

void transform(py::handle function, const SampleItems& made, const TransformContext& context,
               const SampleView& in, SampleOutput& out) {
  const Guard guard;
  guard.lend("transform", [&] {
    py::dict values;
    for (std::size_t f = 0; f < in.fields.size(); ++f) {
      const std::size_t row_bytes = in.fields[f].row_bytes();
      const auto rows = row_bytes == 0 ? 0 : static_cast<std::int64_t>(in.bytes[f].size() / row_bytes);
      values[to_name(in.fields[f].name)] = sample_view(in.fields[f], rows, in.bytes[f], guard.owner());
    }
    const py::object sample = package("Sample")(values, context.id.value, context.epoch, context.key);
    const py::object returned = function(sample);
    if (made.fields().empty()) return change_in_place(returned.is_none() ? sample : returned, in, out);
    const auto arrays = made.take(returned);
    for (std::size_t f = 0; f < arrays.size(); ++f) {
      if (made.fields()[f].ragged) out.resize(f, rows_of(arrays[f]));
      copy(arrays[f], out.bytes(f));
    }
  });
}

// A field with a sample's extent in front.
Field of_batch(const Field& field, std::size_t samples) {
  Field whole = field;
  if (!field.ragged) whole.shape.insert(whole.shape.begin(), static_cast<std::int64_t>(samples));
  return whole;
}

void put(const Field& field, std::size_t f, py::handle value, std::size_t samples, BatchOutput& out) {
  const std::string what = fmt::format("take field \"{}\" of what a collate returned", field.name);
  if (!field.ragged) return copy(to_array(value, of_batch(field, samples), what), out.bytes(f));
  const py::object ragged_type = package("Ragged");
  const py::object ragged = py::isinstance(value, ragged_type)
                                ? py::reinterpret_borrow<py::object>(value)
                                : ragged_type.attr("from_list")(value, to_numpy(field.dtype));
  const auto offsets =
      py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>(ragged.attr("offsets"));
  std::vector<std::int64_t> rows;
  for (py::ssize_t i = 1; i < offsets.size(); ++i) rows.push_back(offsets.at(i) - offsets.at(i - 1));
  const py::array values = to_array(ragged.attr("values"), field, what);
  const std::span<std::byte> to = out.resize(f, rows);
  if (to.size() != static_cast<std::size_t>(values.nbytes()))
    refuse(what + ": its offsets are not those of its values");
  copy(values, to);
}

void collate(py::handle function, std::span<const Field> made, const Batch& in, BatchOutput& out) {
  const Guard guard;
  guard.lend("collate", [&] {
    py::dict values;
    for (std::size_t f = 0; f < in.fields().size(); ++f) {
      values[to_name(in.fields()[f].name)] = view(in.tensor(f), in.size(), guard.owner());
    }
    const py::object returned = function(values);
    if (!py::hasattr(returned, "__getitem__") || py::isinstance<py::tuple>(returned)) {
      refuse("a collate returned no mapping of its fields to arrays");
    }
    for (std::size_t f = 0; f < made.size(); ++f) {
      const py::str name = to_name(made[f].name);
      if (!returned.contains(name)) refuse(fmt::format("a collate returned no field \"{}\"", made[f].name));
      put(made[f], f, returned[name], static_cast<std::size_t>(in.size()), out);
    }
  });
}

}  // namespace

Guard::Guard() : capsule_(this, [](void*) {}) {}

// The frames that an exception has passed through keep their variables, and so do those of what caused it.
void Guard::clear_frames(const py::error_already_set& raised) const {
  constexpr int kMost = 100;  // of a ring of causes
  py::object trace = raised.trace();
  py::object error = raised.value();
  for (int depth = 0; !is_alone() && depth < kMost && !error.is_none(); ++depth) {
    if (trace && !trace.is_none()) py::module_::import("traceback").attr("clear_frames")(trace);
    const py::object cause = error.attr("__cause__");
    error = cause.is_none() ? py::object(error.attr("__context__")) : cause;
    trace = error.is_none() ? py::none() : py::object(error.attr("__traceback__"));
  }
}

void Guard::refuse_both(const char* whose, const py::error_already_set& raised) {
  refuse(fmt::format(
      "the {} kept a view of its input, whose memory is used again; keep a copy; and it raised {}", whose,
      text_of(raised)));
}

void Guard::require_alone(const char* whose) const {
  if (is_alone()) return;
  refuse(fmt::format("the {} kept a view of its input, whose memory is used again; keep a copy", whose));
}

py::array sample_view(const Field& field, std::int64_t rows, std::span<std::byte> bytes, py::handle owner) {
  if (field.ragged) return view(field, rows, bytes, owner);
  return {to_numpy(field.dtype), std::vector<py::ssize_t>(field.shape.begin(), field.shape.end()),
          bytes.data(), owner};
}

Transform to_transform(py::object function, std::vector<Field> fields) {
  auto apply = [shared = Shared(std::move(function)),
                made = SampleItems(fields, "take what a transform returned")](
                   const TransformContext& context, const SampleView& in, SampleOutput& out) {
    call_python([&] {
      try {
        transform(*shared, made, context, in, out);
      } catch (const py::error_already_set& raised) {  // Pillow's OSError for a damaged image has no number
        throw_as_error(raised, ErrorCode::callback);
      }
    });
  };
  return {.apply = std::move(apply), .fields = std::move(fields)};
}

Collate to_collate(py::object function, std::vector<Field> fields) {
  auto apply = [shared = Shared(std::move(function)), fields](const Batch& in, BatchOutput& out) {
    call_python([&] { collate(*shared, fields, in, out); });
  };
  return {.apply = std::move(apply), .fields = std::move(fields)};
}

ProgressFunction to_progress(py::object function) {
  Shared shared;
  if (!function.is_none()) shared = Shared(std::move(function));
  return [shared](const Progress& at) {
    call_python([&] {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (!shared.is_there()) return;
      (*shared)(package("Progress")(std::string(at.task), at.done, at.total, at.seconds, at.is_over,
                                    std::string(at.unit)));
    });
  };
}

void send_messages_to(py::function function) {
  set_message_sink([shared = Shared(std::move(function))](std::string_view message) {
    if (Py_IsInitialized() == 0) return;  // nobody is left to hear it
    const py::gil_scoped_acquire gil;
    if (!shared.is_there()) return;
    try {
      (*shared)(to_text(message));
    } catch (py::error_already_set& raised) {
      raised.discard_as_unraisable("a message of rota");
    }
  });
}

Allocator to_allocator(py::object allocator) {
  const Shared shared(std::move(allocator));
  return {.allocate =
              [shared](std::size_t bytes) {
                return call_python([&] {
                  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address is a number in Python
                  return reinterpret_cast<void*>(shared->attr("allocate")(bytes).cast<std::uintptr_t>());
                });
              },
          .release =
              [shared](void* memory, std::size_t bytes) {
                if (Py_IsInitialized() == 0) return;
                const py::gil_scoped_acquire gil;
                if (!shared.is_there()) return;
                try {
                  shared->attr("release")(reinterpret_cast<std::uintptr_t>(memory), bytes);
                } catch (py::error_already_set& raised) {
                  raised.discard_as_unraisable("the release of an allocator");
                }
              }};
}

std::vector<py::array> SampleItems::take(py::handle returned) const {
  std::vector<py::array> arrays;
  const bool is_mapping = PyMapping_Check(returned.ptr()) != 0 && py::hasattr(returned, "keys");
  const bool is_sequence = py::isinstance<py::tuple>(returned);
  if (!is_mapping && !is_sequence && fields_.size() != 1) {
    refuse(fmt::format("{}: a {} for {} fields; return a dict", what_, type_of(returned), fields_.size()));
  }
  if (is_sequence && py::len(returned) != fields_.size()) {
    refuse(fmt::format("{}: a tuple of {} for {} fields", what_, py::len(returned), fields_.size()));
  }
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const py::str name = to_name(fields_[f].name);
    if (is_mapping && !returned.contains(name))
      refuse(fmt::format("{}: it has no \"{}\"", what_, fields_[f].name));
    auto value = py::reinterpret_borrow<py::object>(returned);
    if (is_mapping) value = returned[name];
    if (is_sequence) value = py::reinterpret_borrow<py::tuple>(returned)[f];
    arrays.push_back(to_array(value, fields_[f], fmt::format("{}, \"{}\"", what_, fields_[f].name)));
  }
  return arrays;
}

void put(const SampleItems& items, py::handle returned, StreamSample& out) {
  const auto arrays = items.take(returned);
  for (std::size_t f = 0; f < arrays.size(); ++f) {
    out.set(f, bytes_of(arrays[f]));
    if (items.fields()[f].ragged)
      out.resize(f, rows_of(arrays[f]));  // of empty rows bytes do not say how many
  }
}

}  // namespace rota::python
