#include "source.hpp"

#include <pybind11/stl.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "communicator.hpp"
#include "functions.hpp"
#include "rota/error.hpp"
#include "rota/packing.hpp"
#include "rota/windows.hpp"
#include "rota/write_shards.hpp"

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

py::dict read(const PySource& self, const std::vector<std::int64_t>& numbers) {
  std::vector<SampleId> ids;
  ids.reserve(numbers.size());
  for (const std::int64_t number : numbers) ids.push_back({number});
  std::optional<Arrays> arrays;
  {
    const Unlocked unlocked;
    check_ids(*self.source, ids);
    arrays.emplace(*self.source, ids);
  }
  return arrays->take(std::ssize(ids));
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
  using Released = py::call_guard<Unlocked>;
  module.def("numbers", [](std::int64_t size, const std::optional<std::string>& fingerprint) {
    std::optional<Fingerprint> own;
    if (fingerprint) own = to_fingerprint(*fingerprint, size);
    return made(std::make_shared<Numbers>(size, own));
  });
  module.def("cast", &cast_source);
  module.def("join", [](const std::vector<PySource>& sources) { return made(join(sources_of(sources))); });
  module.def("split", [](const PySource& source, const std::vector<double>& fractions, std::uint64_t seed) {
    std::vector<PySource> parts;
    for (auto& part : split(source.source, fractions, seed)) parts.push_back(made(std::move(part)));
    return parts;
  });
  module.def("write_shards", [](const PySource& source, const std::string& destination, bool is_mds,
                                std::int64_t shard_bytes, int workers, std::int64_t rank, std::int64_t size,
                                py::object progress) {
    ShardReport report;
    const ProgressFunction shown = to_progress(std::move(progress));
    {
      const Unlocked unlocked;
      report = write_shards(source.source, destination,
                            {.format = is_mds ? ShardFormat::mds : ShardFormat::tar,
                             .shard_bytes = shard_bytes,
                             .world = {.rank = static_cast<int>(rank), .size = static_cast<int>(size)},
                             .workers = workers,
                             .progress = shown});
    }
    return py::make_tuple(report.samples, report.shards, report.there, report.written, report.bytes,
                          report.is_complete);
  });
  module.def(
      "windows",
      [](const PySource& rows, std::int64_t length, std::int64_t stride, bool across_files) {
        return made(windows(rows.source, {.length = length, .stride = stride, .across_files = across_files}));
      },
      Released());
  module.def("pack",
             [](const PySource& documents, std::int64_t length, std::optional<std::int64_t> bos,
                std::optional<std::int64_t> eos, std::int64_t pad, std::uint64_t seed, bool shuffle_documents,
                const std::string& field, int threads, const PyCommunicator* comm) {
               const auto ranks = ranks_of(comm);
               const Unlocked unlocked;
               return made(pack(*ranks, documents.source,
                                {.length = length,
                                 .bos = bos,
                                 .eos = eos,
                                 .pad = pad,
                                 .seed = seed,
                                 .shuffle_documents = shuffle_documents,
                                 .field = field,
                                 .threads = threads}));
             });
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
      .def("_sample",
           [](const PySource& self, std::int64_t i) {
             const py::dict batch = read(self, {i});
             py::dict sample;
             for (const auto& [name, values] : batch) sample[name] = values[py::int_(0)];
             return sample;
           })
      .def_property_readonly("fields", [](const PySource& self) { return to_python(self.source->fields()); })
      .def_property_readonly(
          "fingerprint",
          py::cpp_function([](const PySource& self) { return to_string(self.source->fingerprint()); },
                           Released()))
      .def("_where", [](const PySource& self, std::int64_t i) {
        std::string where;
        {
          const Unlocked unlocked;
          where = self.source->where({i});
        }
        return to_file_name(where);
      });
  define_adaptors(module);
}

}  // namespace rota::python
