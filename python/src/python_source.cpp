// A Python dataset, read by rota's threads.

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <cstring>
#include <iterator>
#include <list>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "errors.hpp"
#include "functions.hpp"
#include "rota/error.hpp"
#include "source.hpp"

namespace rota::python {
namespace {

using Item = std::vector<py::array>;  // one for each field

// Items that were asked for their rows, until a worker, perhaps another one, reads them. Those of batches
// that were given up are never read: the oldest go. The GIL guards it.
class Asked {
 public:
  template <typename Take>
  const Item& keep(SampleId id, const Take& take) {
    constexpr std::size_t kMostBytes = std::size_t{256} << 20;
    if (const auto found = places_.find(id.value); found != places_.end()) return found->second->item;
    kept_.push_back({id, take(id)});
    places_[id.value] = std::prev(kept_.end());
    bytes_ += kept_.back().bytes();
    while (bytes_ > kMostBytes && kept_.size() > 1) remove(kept_.begin());
    return kept_.back().item;
  }
  std::optional<Item> take(SampleId id) {
    const auto found = places_.find(id.value);
    return found == places_.end() ? std::nullopt : std::optional(remove(found->second));
  }

 private:
  struct Kept {
    SampleId id;
    Item item;
    [[nodiscard]] std::size_t bytes() const {
      return std::accumulate(item.begin(), item.end(), std::size_t{1024},  // with what Python needs
                             [](std::size_t sum, const py::array& array) {
                               return sum + static_cast<std::size_t>(array.nbytes());
                             });
    }
  };
  Item remove(std::list<Kept>::iterator place) {
    bytes_ -= place->bytes();
    Item item = std::move(place->item);
    places_.erase(place->id.value);
    kept_.erase(place);
    return item;
  }

  std::list<Kept> kept_;
  std::unordered_map<std::int64_t, std::list<Kept>::iterator> places_;
  std::size_t bytes_ = 0;
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
        dataset_(std::move(dataset)),
        asked_(other.asked_) {}

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return items_.fields(); }

  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    check_ids(*this, ids);
    call_python([&] {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        out[i] = rows_of(asked_->keep(ids[i], [&](SampleId id) { return take(id); })[field]);
      }
    });
  }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    call_python([&] {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        std::optional<Item> asked = asked_->take(ids[i]);
        const Item item = asked ? *std::move(asked) : take(ids[i]);
        for (std::size_t f = 0; f < fields().size(); ++f) put(item[f], f, out.bytes(f, i));
      }
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
  Item take(SampleId id) const {
    Item item = items_.take((*dataset_)[py::int_(id.value)]);
    for (py::array& array : item) {
      // Where others have it, too, the next sample may be written over it.
      if (array.ref_count() > 1 || !array.owndata()) array = py::array(array.attr("copy")());
    }
    return item;
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
  std::shared_ptr<Asked> asked_ = share_many(Asked{});
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
