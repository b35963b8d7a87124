#include "functions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "cli/verbs.hpp"
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
void change_in_place(std::vector<py::array> arrays, const SampleView& in, SampleOutput& out) {
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

constexpr std::string_view kTakeTransformed = "take what a transform returned";

// A function of samples. The GIL guards it.
struct PythonTransform {
  Shared function;
  Items made;                     // of no fields: it changes its samples in place
  std::optional<Items> own = {};  // made of the source's fields with the first sample, then

  void call(const TransformContext& context, const SampleView& in, SampleOutput& out) {
    const Guard guard;
    guard.lend("transform", [&] {
      py::dict values;
      for (std::size_t f = 0; f < in.fields.size(); ++f) {
        const std::size_t row_bytes = in.fields[f].row_bytes();
        const auto rows = row_bytes == 0 ? 0 : static_cast<std::int64_t>(in.bytes[f].size() / row_bytes);
        values[to_name(in.fields[f].name)] = view_sample(in.fields[f], rows, in.bytes[f], guard.owner());
      }
      const py::object sample = package("Sample")(values, context.id.value, context.epoch, context.key);
      const py::object returned = (*function)(sample);
      if (made.fields().empty()) {
        if (!own) {
          Items found(kTakeTransformed, {in.fields.begin(), in.fields.end()});
          if (!own) own = std::move(found);  // another thread may have been here meanwhile
        }
        return change_in_place(own->sample(returned.is_none() ? sample : returned), in, out);
      }
      const auto arrays = made.sample(returned);
      for (std::size_t f = 0; f < arrays.size(); ++f) {
        if (made.fields()[f].ragged) out.resize(f, arrays[f].shape(0));
        copy(arrays[f], out.bytes(f));
      }
    });
  }
};

void collate(py::handle function, const Items& made, const Batch& in, BatchOutput& out) {
  const Guard guard;
  guard.lend("collate", [&] {
    py::dict values;
    for (std::size_t f = 0; f < in.fields().size(); ++f) {
      values[to_name(in.fields()[f].name)] = view(in.tensor(f), in.size(), guard.owner());
    }
    const auto size = static_cast<py::ssize_t>(in.size());
    const py::array_t<std::int64_t> ids(size, reinterpret_cast<const std::int64_t*>(in.ids().data()));
    const py::array_t<std::uint8_t> kinds(size, reinterpret_cast<const std::uint8_t*>(in.kinds().data()));
    const auto fields = made.batch(function(package("Samples")(values, ids, kinds)), in.size());
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const auto& [array, rows] = fields[f];
      copy(array, made.fields()[f].ragged ? out.resize(f, rows) : out.bytes(f));
    }
  });
}

}  // namespace

Guard::Guard() : capsule_(this, [](void*) {}) {}

// The frames that an exception has passed through keep their variables, and so do those of what caused it; an
// AttributeError keeps the object that lacks the attribute.
void Guard::clear_frames(const py::error_already_set& raised) const {
  constexpr int kMost = 100;  // of a ring of causes
  py::object trace = raised.trace();
  py::object error = raised.value();
  for (int depth = 0; !is_alone() && depth < kMost && !error.is_none(); ++depth) {
    if (trace && !trace.is_none()) py::module_::import("traceback").attr("clear_frames")(trace);
    if (py::hasattr(error, "obj")) error.attr("obj") = py::none();  // of an AttributeError
    const py::object cause = error.attr("__cause__");
    error = cause.is_none() ? py::object(error.attr("__context__")) : cause;
    trace = error.is_none() ? py::none() : py::object(error.attr("__traceback__"));
  }
}

void Guard::refuse_kept(const char* whose, const std::string& raised) {
  refuse(fmt::format("the {} kept a view of its input, whose memory is used again; keep a copy{}", whose,
                     raised));
}

void take(py::handle function, const Argument& /*as*/, Transform& to) {
  if (function.is_none()) return;
  to.apply = [work = PythonTransform{Shared(function), Items(kTakeTransformed, to.fields)}](
                 const TransformContext& context, const SampleView& in, SampleOutput& out) mutable {
    call_python([&] {
      try {
        work.call(context, in, out);
      } catch (const py::error_already_set& raised) {  // Pillow's OSError for a damaged image has no number
        throw_as_error(raised, ErrorCode::callback);
      }
    });
  };
}

void take(py::handle function, const Argument& /*as*/, Collate& to) {
  if (function.is_none()) return;
  to.apply = [shared = Shared(function), made = Items("take what a collate returned", to.fields)](
                 const Batch& in, BatchOutput& out) {
    call_python([&] { collate(*shared, made, in, out); });
  };
}

void take(py::handle allocator, const Argument& /*as*/, Allocator& to) {
  if (allocator.is_none()) return;
  const Shared shared(allocator);
  to.allocate = [shared](std::size_t bytes) {
    return call_python([&] {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): an address is a number in Python
      return reinterpret_cast<void*>((*shared).attr("allocate")(bytes).cast<std::uintptr_t>());
    });
  };
  to.release = [shared](void* memory, std::size_t bytes) {
    with_gil([&] {
      if (!shared.is_there()) return;
      try {
        (*shared).attr("release")(reinterpret_cast<std::uintptr_t>(memory), bytes);
      } catch (py::error_already_set& raised) {
        raised.discard_as_unraisable("the release of an allocator");
      }
    });
  };
}

void take(py::handle function, const Argument& as, ProgressFunction& to) {
  const bool is_none = function.is_none();
  if (!is_none && PyCallable_Check(function.ptr()) == 0) as.refuse_type(function, "a function");
  const Shared shared = is_none ? Shared() : Shared(function);
  to = [shared](const Progress& at) {
    call_python([&] {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (shared.is_there()) (*shared)(to_python(at));
    });
  };
}

void send_messages_to(const py::function& function) {
  set_message_sink([shared = Shared(function)](std::string_view message) {
    with_gil([&] {
      if (!shared.is_there()) return;
      try {
        (*shared)(to_text(message));
      } catch (py::error_already_set& raised) {
        raised.discard_as_unraisable("a message of rota");
      }
    });
  });
}

int run_tool(const py::list& command_line) {
  set_message_sink({});
  auto words = command_line.cast<std::vector<std::string>>();
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const py::gil_scoped_release unlocked;
  return cli::run(static_cast<int>(words.size()), argv.data());
}

Items::Items(std::string_view task, std::vector<Field> fields)
    : fields_(std::move(fields)),
      take_(py::module_::import("rota._values").attr("Items")(to_text(task), to_tuple(fields_))) {}

std::vector<py::array> Items::sample(py::handle returned) const {
  return (*take_).attr("sample")(returned).cast<std::vector<py::array>>();
}

std::vector<std::pair<py::array, Items::Rows>> Items::batch(py::handle returned, std::int64_t samples) const {
  return (*take_).attr("batch")(returned, samples).cast<std::vector<std::pair<py::array, Rows>>>();
}

void Items::put(py::handle returned, StreamSample& out) const {
  const auto arrays = sample(returned);
  for (std::size_t f = 0; f < arrays.size(); ++f) {
    out.set(f, bytes_of(arrays[f]));
    if (fields_[f].ragged) out.resize(f, arrays[f].shape(0));  // of empty rows bytes do not say how many
  }
}

}  // namespace rota::python
