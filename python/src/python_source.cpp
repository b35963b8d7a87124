// A Python dataset, read by rota's threads.

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <cstring>
#include <optional>
#include <utility>

#include "errors.hpp"
#include "functions.hpp"
#include "rota/error.hpp"
#include "source.hpp"

namespace rota::python {
namespace {

// The items of some samples, each as an array for each field. The GIL guards it.
struct Fetched {
  std::vector<SampleId> ids;
  std::vector<std::vector<py::array>> items;
};

class PythonSource final : public Source {
 public:
  PythonSource(py::object dataset, std::vector<Field> fields, std::optional<Fingerprint> fingerprint)
      : size_(static_cast<std::int64_t>(py::len(dataset))),
        items_(std::move(fields), "take a sample of a dataset"),
        fingerprint_(fingerprint),
        dataset_(std::move(dataset)) {}
  PythonSource(const PythonSource& other, py::object dataset)
      : size_(other.size_),
        items_(other.items_),
        fingerprint_(other.fingerprint_),
        dataset_(std::move(dataset)) {}

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return items_.fields(); }

  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    check_ids(*this, ids);
    call_python([&] {
      const auto fetched = fetch(ids);
      for (std::size_t i = 0; i < ids.size(); ++i) out[i] = rows_of(fetched->items[i][field]);
    });
  }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    call_python([&] {
      const auto fetched = fetch(ids);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        for (std::size_t f = 0; f < fields().size(); ++f) put(fetched->items[i][f], f, out.bytes(f, i));
      }
      fetched_.reset();
    });
  }

  /// A copy of the dataset for each worker, so that what it opens when it is first read is the worker's own;
  /// the same dataset, where it cannot be copied, or is an array.
  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo&) const override {
    return call_python([&]() -> std::unique_ptr<const Source> {
      py::object own = *dataset_;
      // An array opens nothing, and its copy would be of all its numbers.
      if (!py::isinstance<py::array>(own)) {
        try {
          own = py::module_::import("copy").attr("copy")(own);
        } catch (const py::error_already_set& raised) {
          if (!raised.matches(PyExc_TypeError)) throw;
        }
      }
      return std::make_unique<PythonSource>(*this, std::move(own));
    });
  }

  [[nodiscard]] Fingerprint fingerprint() const override {
    return fingerprint_ ? *fingerprint_ : Source::fingerprint();
  }

 private:
  // Those of the last call, where they are the same: `rows` comes before `read`.
  std::shared_ptr<const Fetched> fetch(std::span<const SampleId> ids) const {
    if (fetched_ && std::ranges::equal(fetched_->ids, ids)) return fetched_;
    auto fetched = share_many(Fetched{});
    fetched->ids.assign(ids.begin(), ids.end());
    for (const SampleId id : ids) {
      auto& arrays = fetched->items.emplace_back(items_.take((*dataset_)[py::int_(id.value)]));
      for (py::array& array : arrays) {
        // Where others have it, too, the next sample may be written over it.
        if (array.ref_count() > 1 || !array.owndata()) array = py::array(array.attr("copy")());
      }
    }
    fetched_ = fetched;
    return fetched;
  }

  void put(const py::array& from, std::size_t f, std::span<std::byte> to) const {
    const auto bytes = bytes_of(from);
    if (bytes.size() != to.size()) {
      throw Error(ErrorCode::callback,
                  fmt::format("take a sample of a dataset: \"{}\" had another number of rows "
                              "when it was asked for again; a dataset must not change",
                              fields()[f].name));
    }
    if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
  }

  std::int64_t size_;
  SampleItems items_;
  std::optional<Fingerprint> fingerprint_;
  Shared dataset_;
  mutable std::shared_ptr<const Fetched> fetched_;
};

}  // namespace

void define_python_source(py::module_& module) {
  module.def("python_source",
             [](py::object dataset, py::handle fields, const std::optional<std::string>& fingerprint) {
               std::optional<Fingerprint> own;
               if (fingerprint)
                 own = to_fingerprint(*fingerprint, static_cast<std::int64_t>(py::len(dataset)));
               return PySource{dies_without_gil<const Source>(
                   std::make_shared<PythonSource>(std::move(dataset), to_fields(fields), own))};
             });
}

}  // namespace rota::python
