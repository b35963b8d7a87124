// A Python dataset, read by rota's threads.

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
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

// Items that were asked for their rows, until a worker, perhaps another one, reads them; 256 MiB of them.
// Those of batches that were given up stay until they are asked for again. The GIL guards it.
class Asked {
 public:
  // In the place of what was asked for before; to be taken so many times.
  void keep(SampleId id, Item item, std::int64_t times) {
    constexpr std::size_t kMostBytes = std::size_t{256} << 20;
    remove(kept_.find(id.value));
    std::size_t bytes = 1024;  // with what Python needs
    for (const py::array& array : item) bytes += static_cast<std::size_t>(array.nbytes());
    if (bytes_ + bytes > kMostBytes) return;  // it is fetched again
    bytes_ += bytes;
    kept_[id.value] = {std::move(item), bytes, times};
  }
  [[nodiscard]] const Item* find(SampleId id) const {
    const auto found = kept_.find(id.value);
    return found == kept_.end() ? nullptr : &found->second.item;
  }
  std::optional<Item> take(SampleId id) {
    const auto found = kept_.find(id.value);
    if (found == kept_.end()) return std::nullopt;
    Item item = found->second.item;
    if (--found->second.times == 0) remove(found);
    return item;
  }

 private:
  struct Kept {
    Item item;
    std::size_t bytes = 0;
    std::int64_t times = 0;
  };
  using Items = std::unordered_map<std::int64_t, Kept>;
  void remove(Items::iterator found) {
    if (found == kept_.end()) return;
    bytes_ -= found->second.bytes;
    kept_.erase(found);
  }

  Items kept_;
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
      // The first ragged field asks for a batch, the others for the same.
      const auto first = std::ranges::find(fields(), true, &Field::ragged) - fields().begin();
      if (static_cast<std::size_t>(first) == field) ask(ids);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const Item* const asked = asked_->find(ids[i]);
        out[i] = rows_of((asked != nullptr ? *asked : take(ids[i]))[field]);
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
  void ask(std::span<const SampleId> ids) const {
    std::unordered_map<std::int64_t, std::int64_t> times;
    for (const SampleId id : ids) ++times[id.value];
    for (const SampleId id : ids) {
      if (const auto asked = times.extract(id.value)) asked_->keep(id, take(id), asked.mapped());
    }
  }

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
