// A user's own stream, read by rota's threads.

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "arguments.hpp"
#include "errors.hpp"
#include "functions.hpp"
#include "rota/error.hpp"
#include "source.hpp"

namespace rota::python {
namespace {

std::optional<std::int64_t> to_number(py::handle value) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (index) {
    const std::int64_t number = PyLong_AsLongLong(index.ptr());
    if (number != -1 || PyErr_Occurred() == nullptr) return number;
  }
  PyErr_Clear();
  return std::nullopt;
}

// Cursors of users in those of rota. In front are two numbers: the samples so far, and the kind of what was
// yielded with the last one. Users get the same back.
constexpr std::int64_t kOwnNumbers = 2;
enum class CursorKind : std::int64_t { start, number, tuple, bytes };

StreamCursor start_cursor(std::int64_t numbers) {
  return {.numbers = std::vector<std::int64_t>(static_cast<std::size_t>(kOwnNumbers + numbers))};
}

// False: it is no cursor of `numbers` numbers.
bool take_numbers(py::handle value, std::int64_t numbers, StreamCursor& out) {
  const bool is_tuple = py::isinstance<py::tuple>(value);
  const py::tuple given = is_tuple ? py::reinterpret_borrow<py::tuple>(value) : py::make_tuple(value);
  if (static_cast<std::int64_t>(given.size()) != numbers) return false;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto number = to_number(given[i]);
    if (!number) return false;
    out.numbers[kOwnNumbers + i] = *number;
  }
  out.numbers[1] = static_cast<std::int64_t>(is_tuple ? CursorKind::tuple : CursorKind::number);
  out.blob.clear();
  return true;
}

void take_cursor(py::handle value, std::int64_t numbers, StreamCursor& out) {
  if (py::isinstance<py::bytes>(value)) {
    std::ranges::fill(out.numbers.begin() + kOwnNumbers, out.numbers.end(), 0);
    out.numbers[1] = static_cast<std::int64_t>(CursorKind::bytes);
    out.blob = value.cast<std::string>();
    return;
  }
  if (take_numbers(value, numbers, out)) return;
  refuse(fmt::format(
      "a stream yielded {:.100} as the cursor behind a sample; yield sample, cursor, where the cursor is "
      "{}bytes (cursor_numbers = {}), and the numbers are of 64 bits",
      py::repr(value).cast<std::string>(),
      numbers == 0   ? ""
      : numbers == 1 ? "an int or "
                     : fmt::format("a tuple of {} ints or ", numbers),
      numbers));
}

py::object to_python(const StreamCursor& cursor, std::int64_t numbers) {
  if (cursor.is_start()) return py::none();
  if (std::ssize(cursor.numbers) != kOwnNumbers + numbers || cursor.numbers[0] < 0) {
    throw Error(ErrorCode::corrupt, "open a stream: the cursor is of another stream");
  }
  switch (static_cast<CursorKind>(cursor.numbers[1])) {
    case CursorKind::start:
      return py::none();
    case CursorKind::number:
      return py::int_(cursor.numbers.at(kOwnNumbers));
    case CursorKind::tuple:
      return py::tuple(py::cast(std::vector(cursor.numbers.begin() + kOwnNumbers, cursor.numbers.end())));
    case CursorKind::bytes:
      return py::bytes(cursor.blob);
  }
  throw Error(ErrorCode::corrupt, "open a stream: the cursor is of another stream");
}

// What a user's `open` returned. It is closed when it is dropped, on any thread.
class PythonShardStream final : public ShardStream {
 public:
  PythonShardStream(const SampleItems& items, std::int64_t numbers, ShardId shard, py::iterator samples,
                    StreamCursor cursor)
      : items_(items),
        numbers_(numbers),
        shard_(shard),
        samples_(std::move(samples)),
        cursor_(std::move(cursor)) {}
  ~PythonShardStream() override {
    if (Py_IsInitialized() == 0) {  // it went with Python
      static_cast<void>(samples_.release());
      return;
    }
    const py::gil_scoped_acquire gil;
    const py::error_scope kept;
    close();
  }

  bool next(StreamSample& out) override {
    return call_python([&] {
      if (!samples_) return false;
      const auto item = py::reinterpret_steal<py::object>(PyIter_Next(samples_.ptr()));
      if (!item) {
        if (PyErr_Occurred() != nullptr) throw py::error_already_set();
        close();
        return false;
      }
      take(item, out);
      return true;
    });
  }

  void cursor(StreamCursor& out) const override { out = cursor_; }

 private:
  void take(py::handle item, StreamSample& out) {
    if (!py::isinstance<py::tuple>(item) || py::len(item) != 2) {
      refuse(
          fmt::format("a stream yielded a {}; yield a pair: the sample, and the cursor behind it, as in "
                      "`yield {{\"x\": 1}}, i + 1`",
                      type_of(item)));
    }
    const auto pair = py::reinterpret_borrow<py::tuple>(item);
    put(items_, pair[0], out);
    take_cursor(pair[1], numbers_, cursor_);
    out.set_id({.shard = shard_, .input = cursor_.numbers[0]++});
  }

  // Runs what `finally` and `with` hold. Nobody waits for what they raise.
  void close() noexcept {
    if (samples_ && PyObject_HasAttrString(samples_.ptr(), "close") != 0) {
      PyObject* const returned = PyObject_CallMethod(samples_.ptr(), "close", nullptr);
      if (returned == nullptr) PyErr_WriteUnraisable(samples_.ptr());
      Py_XDECREF(returned);
    }
    samples_ = {};
  }

  const SampleItems& items_;
  std::int64_t numbers_;
  ShardId shard_;
  py::object samples_;
  StreamCursor cursor_;
};

struct StreamFacts {
  SampleItems items;
  std::int64_t shards;
  std::int64_t numbers;  // of a user's cursor
  std::optional<std::string> name;
};

class PythonStream final : public StreamSource {
 public:
  PythonStream(py::object stream, StreamFacts facts) : facts_(std::move(facts)), stream_(std::move(stream)) {}

  [[nodiscard]] const std::vector<Field>& fields() const override { return facts_.items.fields(); }
  [[nodiscard]] std::int64_t shards() const override { return facts_.shards; }
  [[nodiscard]] std::int64_t cursor_numbers() const override { return kOwnNumbers + facts_.numbers; }

  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                  const StreamCursor& cursor) const override {
    return call_python([&]() -> std::unique_ptr<ShardStream> {
      const py::object opened = stream_->attr("open")(shard.value, epoch, to_python(cursor, facts_.numbers));
      auto samples = py::reinterpret_steal<py::object>(PyObject_GetIter(opened.ptr()));
      if (!samples) {
        PyErr_Clear();
        refuse(fmt::format(
            "a stream's open() returned a {}; return an iterator over (sample, cursor), or yield them",
            type_of(opened)));
      }
      return std::make_unique<PythonShardStream>(facts_.items, facts_.numbers, shard, std::move(samples),
                                                 cursor.is_start() ? start_cursor(facts_.numbers) : cursor);
    });
  }

  /// A shallow copy for each worker, as of a dataset. What has one shard has one reader: no copy, so that it
  /// may be a pipe.
  [[nodiscard]] std::unique_ptr<const StreamSource> for_worker(const WorkerInfo&) const override {
    if (facts_.shards == 1) return nullptr;
    return call_python([&]() -> std::unique_ptr<const StreamSource> {
      try {
        return std::make_unique<PythonStream>(py::module_::import("copy").attr("copy")(*stream_), facts_);
      } catch (const py::error_already_set& raised) {
        if (!raised.matches(PyExc_TypeError)) throw;
        return nullptr;  // it cannot be copied
      }
    });
  }

  [[nodiscard]] std::optional<std::int64_t> remaining(ShardId shard,
                                                      const StreamCursor& cursor) const override {
    return call_python([&]() -> std::optional<std::int64_t> {
      const py::object left = stream_->attr("remaining")(shard.value, to_python(cursor, facts_.numbers));
      if (left.is_none()) return std::nullopt;
      if (const auto number = to_number(left)) return number;
      refuse(fmt::format("a stream's remaining() returned a {}; return an int, or None", type_of(left)));
    });
  }

  [[nodiscard]] std::string where(ShardId shard) const override {
    return call_python([&] { return bytes_of_name(stream_->attr("where")(shard.value)); });
  }

  [[nodiscard]] Fingerprint fingerprint() const override {
    const Fingerprint shape = StreamSource::fingerprint();
    return facts_.name ? FingerprintBuilder().add(to_string(shape)).add(*facts_.name).finish() : shape;
  }

 private:
  StreamFacts facts_;
  Shared stream_;
};

}  // namespace

void define_python_stream(py::module_& module) {
  module.def("python_stream", [](py::object stream, py::handle fields) {
    constexpr std::string_view kTask = "take a stream";
    const auto numbers = take<std::int64_t>(stream.attr("cursor_numbers"), {kTask, "cursor_numbers"});
    auto name = take<std::optional<std::string>>(stream.attr("fingerprint"), {kTask, "fingerprint"});
    if (numbers < 0 || numbers > 65'536 - 8 * kOwnNumbers) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("take a stream: its cursor_numbers is {}; it must be 0 to 65,520", numbers));
    }
    StreamFacts facts{.items = SampleItems(to_fields(fields), "take a sample of a stream"),
                      .shards = take<std::int64_t>(stream.attr("shards"), {kTask, "shards"}),
                      .numbers = numbers,
                      .name = std::move(name)};
    return PyStreamSource{dies_without_gil<const StreamSource>(
        std::make_shared<PythonStream>(std::move(stream), std::move(facts)))};
  });
}

}  // namespace rota::python
