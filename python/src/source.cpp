#include "source.hpp"

#include <pybind11/stl.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "communicator.hpp"
#include "options.hpp"
#include "rota/error.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

// N samples without any data: what a sampler orders.
class Numbers final : public Source {
 public:
  Numbers(std::int64_t size, std::optional<Fingerprint> fingerprint)
      : size_(size), fingerprint_(fingerprint) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  void read(std::span<const SampleId> ids, const BatchView&) const override { check_ids(*this, ids); }
  [[nodiscard]] Fingerprint fingerprint() const override {
    return fingerprint_ ? *fingerprint_ : Source::fingerprint();
  }

 private:
  std::int64_t size_;
  std::optional<Fingerprint> fingerprint_;
  std::vector<Field> fields_;
};

PySource made(std::shared_ptr<const Source> source) { return {dies_without_gil(std::move(source))}; }

// One tensor for each field, for samples to be read into.
class Arrays {
 public:
  Arrays(const Source& source, std::span<const SampleId> ids) : fields_(source.fields()) {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      auto& offsets = offsets_.emplace_back();
      if (!fields_[f].ragged) continue;
      std::vector<std::int64_t> rows(ids.size());
      source.rows(ids, f, rows);
      offsets.reserve(rows.size() + 1);
      offsets.push_back(0);
      for (const std::int64_t n : rows) offsets.push_back(offsets.back() + n);
    }
    memory_.resize(fields_.size());
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const auto rows = offsets_[f].empty() ? ids.size() : static_cast<std::size_t>(offsets_[f].back());
      const std::size_t row_bytes = fields_[f].row_bytes();
      auto& bytes = bytes_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(rows * row_bytes));
      memory_[f] = {.data = bytes.get(),
                    .row_bytes = row_bytes,
                    .offsets = offsets_[f].empty() ? nullptr : offsets_[f].data()};
    }
    source.read(ids, BatchView(memory_, 0, ids.size()));
  }

  /// By name; each array owns its memory. Needs the GIL.
  py::dict take(std::int64_t samples) {
    py::dict made;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const std::int64_t rows = offsets_[f].empty() ? samples : offsets_[f].back();
      std::byte* const data = bytes_[f].get();
      const py::capsule owner(bytes_[f].release(),
                              [](void* bytes) { delete[] static_cast<std::byte*>(bytes); });
      const py::array values =
          view(fields_[f], rows, {data, static_cast<std::size_t>(rows) * fields_[f].row_bytes()}, owner);
      if (!fields_[f].ragged) {
        made[to_name(fields_[f].name)] = values;
        continue;
      }
      const py::array offsets(static_cast<py::ssize_t>(offsets_[f].size()), offsets_[f].data());
      made[to_name(fields_[f].name)] = package("Ragged")(values, offsets);
    }
    return made;
  }

 private:
  const std::vector<Field>& fields_;
  std::vector<std::vector<std::int64_t>> offsets_;
  std::vector<std::unique_ptr<std::byte[]>> bytes_;
  std::vector<BatchView::FieldMemory> memory_;
};

py::dict sample(const PySource& self, py::handle i) {
  const SampleId id{take_index(i, self.source->size(), "read sample")};
  const std::span ids(&id, 1);
  auto arrays = unlocked([&] { return Arrays(*self.source, ids); });
  py::dict sample;
  for (const auto& [name, values] : arrays.take(1)) sample[name] = values[py::int_(0)];
  return sample;
}

std::vector<std::shared_ptr<const Source>> sources_of(const std::vector<PySource>& wrapped) {
  std::vector<std::shared_ptr<const Source>> sources;
  sources.reserve(wrapped.size());
  for (const PySource& one : wrapped) sources.push_back(one.source);
  return sources;
}

PySource cast_source(const PySource& source, const py::dict& given) {
  std::map<std::string, DType> types;
  for (const auto& [name, dtype] : given) types.emplace(bytes_of_name(name), to_dtype(dtype));
  const Unlocked unlocked;
  return made(cast(source.source, types));
}

void define_adaptors(py::module_& module) {
  module.def("numbers", [](py::handle length, const std::optional<std::string>& fingerprint) {
    const auto size = take<std::int64_t>(length, {"order a dataset", "its length"});
    std::optional<Fingerprint> own;
    if (fingerprint) own = to_fingerprint(*fingerprint, size);
    return made(std::make_shared<Numbers>(size, own));
  });
  module.def("cast", &cast_source);
  module.def("join", [](const std::vector<PySource>& sources) { return made(join(sources_of(sources))); });
  module.def("split", [](const PySource& source, py::handle given, py::handle seed) {
    constexpr std::string_view kTask = "split a dataset";
    std::vector<double> fractions;
    for (const py::handle one : given) fractions.push_back(take<double>(one, {kTask, "a fraction"}));
    std::vector<PySource> parts;
    for (auto& part : split(source.source, fractions, take<std::uint64_t>(seed, {kTask, "seed"}))) {
      parts.push_back(made(std::move(part)));
    }
    return parts;
  });
  module.def("write_shards",
             [](const PySource& source, const std::string& destination, const ShardOptions& options) {
               return unlocked([&] { return write_shards(source.source, destination, options); });
             });
  module.def("windows", [](const PySource& rows, const py::dict& given) {
    const WindowOptions options = kWindowOptions.parse(given);
    return unlocked([&] { return made(windows(rows.source, options)); });
  });
  module.def(
      "pack",
      [](const PySource& documents, const py::dict& given, const PyCommunicator* comm) {
        const PackOptions options = kPackOptions.parse(given);
        const auto ranks = ranks_of(comm);
        return unlocked([&] { return made(pack(*ranks, documents.source, options)); });
      },
      py::arg(), py::arg(), py::arg("comm") = py::none());
}

}  // namespace

Fingerprint to_fingerprint(const std::string& text, std::int64_t size) {
  const bool is_one = text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_one) return FingerprintBuilder().add(text).add(size).finish();
  return {.high = std::stoull(text.substr(0, 16), nullptr, 16),
          .low = std::stoull(text.substr(16), nullptr, 16)};
}

void define_sources(py::module_& module) {
  using Released = py::call_guard<Unlocked>;
  py::class_<PySource>(module, "Source")
      .def_property(
          "_recipe", [](const PySource& self) { return self.recipe.is_there() ? *self.recipe : py::none(); },
          [](PySource& self, py::object recipe) { self.recipe = Shared(std::move(recipe)); })
      .def("__len__", [](const PySource& self) { return self.source->size(); })
      .def("__getitem__", &sample)
      .def_property_readonly(
          "fields", [](const PySource& self) { return to_python(self.source->fields()); },
          "What tensors a sample has.")
      .def_property_readonly(
          "fingerprint",
          py::cpp_function([](const PySource& self) { return to_string(self.source->fingerprint()); },
                           Released()),
          "What the dataset is known by: a state of another one is refused.")
      .def(
          "where",
          [](const PySource& self, py::handle i) {
            const SampleId id{take_index(i, self.source->size(), "look up sample")};
            return to_file_name(unlocked([&] { return self.source->where(id); }));
          },
          py::arg("i"),
          "The file, or other origin, of sample i. Of bytes that are no text, as os.fsdecode has them.");
  define_adaptors(module);
}

}  // namespace rota::python
