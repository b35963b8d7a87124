// Streams: those of Python, and those made of others.

#include "rota/stream.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/failure.hpp"
#include "functions.hpp"
#include "objects.hpp"
#include "options.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

// Cursors of users in those of rota. In front are two numbers: the samples so far, and the kind of what was
// yielded with the last one, as `rota._streams` has it.
constexpr std::int64_t kOwnNumbers = 2;
bool is_kind(std::int64_t number) { return number >= 0 && number <= 3; }

// A cursor as Python takes it: None, or its kind, the user's numbers, and its bytes. Throws for one of
// another stream.
py::object to_python(const StreamCursor& cursor, std::int64_t size) {
  if (cursor.is_start()) return py::none();
  if (std::ssize(cursor.numbers) != size || cursor.numbers[0] < 0 || !is_kind(cursor.numbers[1]))
    throw Error(ErrorCode::corrupt, "open a stream: the cursor is of another stream");
  const std::vector numbers(cursor.numbers.begin() + kOwnNumbers, cursor.numbers.end());
  return py::make_tuple(cursor.numbers[1], py::tuple(py::cast(numbers)), py::bytes(cursor.blob));
}

// What a user's `open` returned. It is closed when it is dropped, on any thread.
class PythonShardStream final : public ShardStream {
 public:
  PythonShardStream(const Items& items, ShardId shard, py::object samples, StreamCursor cursor)
      : items_(items), shard_(shard), samples_(std::move(samples)), cursor_(std::move(cursor)) {}
  ~PythonShardStream() override {
    const bool is_closed = with_gil([&] {
      const py::error_scope kept;
      close();
    });
    if (!is_closed) static_cast<void>(samples_.release());
  }

  bool next(StreamSample& out) override {
    return call_python([&] {
      if (!samples_) return false;
      const auto item = py::reinterpret_steal<py::tuple>(PyIter_Next(samples_.ptr()));
      if (!item) {
        if (PyErr_Occurred() != nullptr) throw py::error_already_set();
        close();
        return false;
      }
      items_.put(item[0], out);
      cursor_.numbers[1] = item[1].cast<std::int64_t>();
      const py::tuple numbers = item[2];
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        cursor_.numbers[kOwnNumbers + i] = numbers[i].cast<std::int64_t>();
      }
      cursor_.blob = item[3].cast<std::string>();
      out.set_id({.shard = shard_, .input = cursor_.numbers[0]++});
      return true;
    });
  }

  void cursor(StreamCursor& out) const override { out = cursor_; }

 private:
  // Runs what `finally` and `with` hold. Nobody waits for what they raise.
  void close() noexcept {
    if (samples_) {
      PyObject* const returned = PyObject_CallMethod(samples_.ptr(), "close", nullptr);
      if (returned == nullptr) PyErr_WriteUnraisable(samples_.ptr());
      Py_XDECREF(returned);
    }
    samples_ = {};
  }

  const Items& items_;
  ShardId shard_;
  py::object samples_;
  StreamCursor cursor_;
};

struct StreamFacts {
  Items items;
  std::int64_t shards;
  std::int64_t numbers;  // of a user's cursor
  std::optional<std::string> name;
};

// What `rota._streams` has by that name.
py::object of_streams(const char* name) { return py::module_::import("rota._streams").attr(name); }

// A `rota.Stream` as a source.
class PythonStream final : public StreamSource {
 public:
  PythonStream(py::handle stream, StreamFacts facts) : facts_(std::move(facts)), stream_(stream) {}

  [[nodiscard]] const std::vector<Field>& fields() const override { return facts_.items.fields(); }
  [[nodiscard]] std::int64_t shards() const override { return facts_.shards; }
  [[nodiscard]] std::int64_t cursor_numbers() const override { return kOwnNumbers + facts_.numbers; }

  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                  const StreamCursor& cursor) const override {
    const auto size = static_cast<std::size_t>(cursor_numbers());
    const bool is_start = cursor.is_start();
    return call_python([&]() -> std::unique_ptr<ShardStream> {
      return std::make_unique<PythonShardStream>(
          facts_.items, shard,
          of_streams("open_shard")(*stream_, facts_.numbers, shard.value, epoch,
                                   to_python(cursor, cursor_numbers())),
          is_start ? StreamCursor{.numbers = std::vector<std::int64_t>(size)} : cursor);
    });
  }

  /// A shallow copy for each worker, as of a dataset. What has one shard has one reader: no copy, so that it
  /// may be a pipe.
  [[nodiscard]] std::unique_ptr<const StreamSource> for_worker(const WorkerInfo&) const override {
    if (facts_.shards == 1) return nullptr;
    return call_python([&]() -> std::unique_ptr<const StreamSource> {
      const py::object own = py::module_::import("rota._datasets").attr("copy_of")(*stream_);
      return own.is(*stream_) ? nullptr : std::make_unique<PythonStream>(own, facts_);
    });
  }

  [[nodiscard]] std::optional<std::int64_t> remaining(ShardId shard,
                                                      const StreamCursor& cursor) const override {
    return call_python([&] {
      return of_streams("remaining")(*stream_, shard.value, to_python(cursor, cursor_numbers()))
          .cast<std::optional<std::int64_t>>();
    });
  }

  [[nodiscard]] std::string where(ShardId shard) const override {
    return call_python([&] { return bytes_of_name((*stream_).attr("where")(shard.value)); });
  }

  [[nodiscard]] Fingerprint fingerprint() const override {
    const Fingerprint shape = StreamSource::fingerprint();
    return facts_.name ? FingerprintBuilder().add(to_string(shape)).add(*facts_.name).finish() : shape;
  }

 private:
  StreamFacts facts_;
  Shared stream_;
};

PyStreamSource python_stream(py::handle stream) {
  constexpr std::string_view kTask = "take a stream";
  const auto numbers = take<std::int64_t>(stream.attr("cursor_numbers"), {kTask, "cursor_numbers"});
  if (numbers < 0 || numbers > 65'536 - 8 * kOwnNumbers) {
    throw internal::failure(ErrorCode::invalid_argument,
                            "take a stream: its cursor_numbers is {}; it must be 0 to 65,520", numbers);
  }
  auto fields = take<std::vector<Field>>(stream.attr("fields"), {kTask, "fields"});
  StreamFacts facts{
      .items = Items("take a sample of a stream", std::move(fields)),
      .shards = take<std::int64_t>(stream.attr("shards"), {kTask, "shards"}),
      .numbers = numbers,
      .name = take<std::optional<std::string>>(stream.attr("fingerprint"), {kTask, "fingerprint"})};
  return PyStreamSource(std::make_shared<PythonStream>(stream, std::move(facts)));
}

// Read-only: after a resume the same sample is given again.
py::object sample_of(std::int64_t epoch, const StreamSample& sample, const std::vector<Field>& fields,
                     const Guard& guard) {
  py::dict arrays;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const auto bytes = sample.bytes(f);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the array is made read-only
    const std::span memory(const_cast<std::byte*>(bytes.data()), bytes.size());
    const py::array array = view_sample(fields[f], sample.rows(f), memory, guard.owner());
    array.attr("flags").attr("writeable") = false;
    arrays[to_name(fields[f].name)] = array;
  }
  return package("StreamSample")(arrays, sample.id(), epoch);
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
        keeps = py::bool_(returned);
      });
      return keeps;
    });
  };
}

void make_samples(py::handle function, py::handle sample, const Items& items, std::int64_t most,
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
    items.put(one, outputs.add());
  }
}

FlatMapFunction to_flat_map(py::object function, std::vector<Field> fields, std::vector<Field> made,
                            std::int64_t most) {
  return [shared = Shared(std::move(function)), fields = std::move(fields),
          items = Items("take a sample that a flat_map made", std::move(made)),
          most](std::int64_t epoch, const StreamSample& sample, StreamOutputs& outputs) {
    call_python([&] {
      const Guard guard;
      guard.lend("flat_map", [&] {
        make_samples(*shared, sample_of(epoch, sample, fields, guard), items, most, outputs);
      });
    });
  };
}

}  // namespace

void define_streams(py::module_& module) {
  using Released = py::call_guard<Unlocked>;
  py::class_<PyStreamSource>(module, "StreamSource")
      .def_property_readonly(
          "fields", [](const PyStreamSource& self) { return to_tuple(self.source->fields()); },
          "What tensors a sample has.")
      .def_property_readonly(
          "shards", [](const PyStreamSource& self) { return self.source->shards(); },
          "How many there are; fixed for a run.")
      .def_property_readonly(
          "fingerprint",
          py::cpp_function([](const PyStreamSource& self) { return to_string(self.source->fingerprint()); },
                           Released()),
          "What the dataset is known by: a state of another one is refused.");
  module.def("python_stream", &python_stream);
  module.def("as_stream", [](const PySource& source, py::handle shards) {
    return PyStreamSource(
        as_stream(source.source, take<std::int64_t>(shards, {"read in sequence", "shards"})));
  });
  module.def("filter", [](const PyStreamSource& stream, py::object keep, std::string name) {
    return PyStreamSource(
        filter(stream.source, to_keep(std::move(keep), stream.source->fields()), std::move(name)));
  });
  module.def("flat_map", [](const PyStreamSource& stream, py::object make, const py::dict& given) {
    FlatMapOptions options = kFlatMapOptions.parse(given);
    auto function =
        to_flat_map(std::move(make), stream.source->fields(),
                    options.fields.empty() ? stream.source->fields() : options.fields, options.most);
    return PyStreamSource(flat_map(stream.source, std::move(function), std::move(options)));
  });
  module.def("shuffle_buffer", [](const PyStreamSource& stream, py::handle size, py::handle seed) {
    constexpr std::string_view kTask = "shuffle by a buffer";
    return PyStreamSource(shuffle_buffer(stream.source, take<std::int64_t>(size, {kTask, "size"}),
                                         take<std::uint64_t>(seed, {kTask, "seed"})));
  });
}

}  // namespace rota::python
