// Sources of samples: those of Python, and those made of others.

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "functions.hpp"
#include "objects.hpp"
#include "options.hpp"
#include "rota/select.hpp"
#include "source/read_plan.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

constexpr std::string_view kIfMeant = " (where that may be, fingerprint=\"\" compares the length alone)";

// N samples without any data: what a sampler orders.
class Numbers final : public Source, public internal::PlannedSource {
 public:
  Numbers(std::int64_t size, std::optional<Fingerprint> fingerprint, std::vector<std::int64_t> digests)
      : size_(size), fingerprint_(fingerprint), digests_(std::move(digests)) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  void read(std::span<const SampleId> ids, const BatchView&) const override { check_ids(*this, ids); }
  [[nodiscard]] Fingerprint fingerprint() const override {
    return fingerprint_ ? *fingerprint_ : Source::fingerprint();
  }
  [[nodiscard]] std::vector<internal::SampleContent> content(std::int64_t most,
                                                             internal::SampleRange of) const override {
    if (of.end - of.begin < size_) return {};
    const std::int64_t last = std::ssize(digests_) - 1;
    std::vector<internal::SampleContent> content;
    for (std::int64_t k = 0; k < std::min(most, last + 1); ++k) {
      const std::int64_t at = most <= last ? share(last, k, std::max<std::int64_t>(most - 1, 1)) : k;
      content.push_back(
          {.where = fmt::format("sample {}{}", last == 0 ? 0 : share(size_ - 1, at, last), kIfMeant),
           .digest = digests_[static_cast<std::size_t>(at)]});
    }
    return content;
  }

 private:
  std::int64_t size_;
  std::optional<Fingerprint> fingerprint_;
  std::vector<std::int64_t> digests_;  // of what names some samples, from the first to the last
  std::vector<Field> fields_;
};

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
  using Kepts = std::unordered_map<std::int64_t, Kept>;
  void remove(Kepts::iterator found) {
    if (found == kept_.end()) return;
    bytes_ -= found->second.bytes;
    kept_.erase(found);
  }

  Kepts kept_;
  std::size_t bytes_ = 0;
};

// While it lives, no other thread calls a dataset that has one of these locks of Python's.
class Turn {
 public:
  explicit Turn(const py::object& locks) : Turn() {
    for (const py::handle lock : locks) {
      // Waits without the GIL, but not for ever: whoever has it may wait for the end of this thread.
      while (!lock.attr("acquire")(true, 0.05).cast<bool>()) internal::Wait::here().check();
      taken_.push_back(py::reinterpret_borrow<py::object>(lock));
    }
  }
  ~Turn() {
    for (const py::object& lock : taken_) Py_XDECREF(PyObject_CallMethod(lock.ptr(), "release", nullptr));
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turn() = default;

  std::vector<py::object> taken_;
};

py::object of_datasets(const char* name) { return py::module_::import("rota._datasets").attr(name); }

class PythonSource final : public Source, public internal::PlannedSource {
 public:
  PythonSource(py::object dataset, std::vector<Field> fields, std::optional<Fingerprint> fingerprint,
               bool is_named, bool is_thread_safe)
      : size_(static_cast<std::int64_t>(py::len(dataset))),
        items_("take a sample of a dataset", std::move(fields)),
        fingerprint_(fingerprint),
        is_named_(is_named),
        locks_(is_thread_safe ? py::object(py::tuple()) : of_datasets("locks_of")(dataset)),
        dataset_(std::move(dataset)) {}

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return items_.fields(); }

  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    check_ids(*this, ids);
    in_turn([&] {
      // The first ragged field asks for a batch, the others for the same.
      const auto first = std::ranges::find(fields(), true, &Field::ragged) - fields().begin();
      if (static_cast<std::size_t>(first) == field) ask(ids);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        internal::Wait::here().check();
        const Item* const asked = asked_->find(ids[i]);
        out[i] = (asked != nullptr ? *asked : take(ids[i]))[field].shape(0);
      }
    });
  }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    in_turn([&] {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        internal::Wait::here().check();  // a worker ends behind the sample in hand
        std::optional<Item> asked = asked_->take(ids[i]);
        const Item item = asked ? *std::move(asked) : take(ids[i]);
        for (std::size_t f = 0; f < fields().size(); ++f) put(item[f], f, out.bytes(f, i));
      }
    });
  }

  [[nodiscard]] Fingerprint fingerprint() const override {
    return fingerprint_ ? *fingerprint_ : Source::fingerprint();
  }

  /// Of a few samples, where they are the same when they are read again, and the user has not named the
  /// dataset.
  [[nodiscard]] std::vector<internal::SampleContent> content(std::int64_t most,
                                                             internal::SampleRange of) const override {
    constexpr std::int64_t kMost = 8;  // they may cost much
    if (is_named_) return {};
    return call_python([&] {
      const Turn turn(*locks_);  // for the two times to be alike: workers would draw numbers in between
      std::vector<internal::SampleContent> content;
      const py::cpp_function read([&] {
        content = internal::read_content(*this, std::min(most, kMost), of, false);
        py::list digests;
        for (auto& sample : content) digests.append(sample.digest);
        return digests;
      });
      if (!of_datasets("is_reproducible")(read).cast<bool>()) content.clear();
      for (auto& sample : content) sample.where += kIfMeant;
      return content;
    });
  }

 private:
  /// One call at a time of a dataset that did not say otherwise: what it returns is copied before the next.
  template <typename Work>
  void in_turn(const Work& work) const {
    call_python([&] {
      const Turn turn(*locks_);
      if (const auto now = static_cast<std::int64_t>(py::len(*dataset_)); now != size_) {
        throw internal::failure(
            ErrorCode::callback,
            "take a sample of a dataset: it has {} samples now, and had {} when its source "
            "was made; make source and loader anew",
            now, size_);
      }
      work();
    });
  }

  void ask(std::span<const SampleId> ids) const {
    std::unordered_map<std::int64_t, std::int64_t> times;
    for (const SampleId id : ids) ++times[id.value];
    for (const SampleId id : ids) {
      const auto asked = times.extract(id.value);
      if (!asked) continue;
      Item item = take(id);
      for (py::array& array : item) {
        // Where others have it, too, the next sample may be written over it.
        if (array.ref_count() > 1 || !array.owndata()) array = py::array(array.attr("copy")());
      }
      asked_->keep(id, std::move(item), asked.mapped());
    }
  }

  Item take(SampleId id) const { return items_.sample((*dataset_)[py::int_(id.value)]); }

  void put(const py::array& from, std::size_t f, std::span<std::byte> to) const {
    const auto bytes = bytes_of(from);
    if (bytes.size() != to.size()) {
      throw internal::failure(ErrorCode::callback,
                              "take a sample of a dataset: \"{}\" had another number of rows when it was "
                              "asked for again; a dataset must not change",
                              fields()[f].name);
    }
    if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
  }

  std::int64_t size_;
  Items items_;
  std::optional<Fingerprint> fingerprint_;
  bool is_named_;
  Shared locks_;
  Shared dataset_;
  std::shared_ptr<Asked> asked_ = dies_with_gil(std::make_unique<Asked>());
};

}  // namespace

std::optional<Fingerprint> to_fingerprint(const std::optional<std::string>& given, std::int64_t size) {
  if (!given || given->empty()) return std::nullopt;
  const auto itself = parse_fingerprint(*given);
  return itself ? itself : FingerprintBuilder().add(*given).add(size).finish();
}

namespace {

// The sample's arrays by name.
py::dict sample(const PySource& self, py::handle i) {
  const Source& source = *self.source;
  const SampleId id{take_index(i, source.size(), "read sample")};
  const std::span ids(&id, 1);
  const auto& fields = source.fields();
  std::vector<std::array<std::int64_t, 2>> offsets(fields.size(), {0, 1});
  const std::int64_t epoch = py::hasattr(i, "epoch") ? i.attr("epoch").cast<std::int64_t>() : 0;  // an Index
  const std::span epochs(&epoch, 1);
  unlocked([&] {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const auto rows = std::span(offsets[f]).subspan(1);
      if (fields[f].ragged) internal::PlannedSource::ask_rows(source, epochs, ids, f, rows);
    }
  });
  py::dict made;
  std::vector<BatchView::FieldMemory> memory;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    std::vector<py::ssize_t> shape(fields[f].shape.begin(), fields[f].shape.end());
    if (fields[f].ragged) shape.insert(shape.begin(), offsets[f][1]);
    py::array array(to_numpy(fields[f].dtype), std::move(shape));
    memory.push_back({.data = static_cast<std::byte*>(array.mutable_data()),
                      .row_bytes = fields[f].row_bytes(),
                      .offsets = fields[f].ragged ? offsets[f].data() : nullptr});
    made[to_name(fields[f].name)] = std::move(array);
  }
  unlocked([&] { source.read(ids, BatchView(memory, 0, 1, epochs)); });
  for (const Field& field : fields) {
    const py::str name = to_name(field.name);
    if (!field.ragged && field.shape.empty()) made[name] = made[name][py::tuple()];  // a number of numpy
  }
  return made;
}

PySource cast_source(const PySource& source, const py::dict& given) {
  std::map<std::string, DType> types;
  for (const auto& [name, dtype] : given)
    types.emplace(bytes_of_name(name), take<DType>(dtype, {"cast", "a type"}));
  const Unlocked unlocked;
  return PySource(cast(source.source, types));
}

std::vector<std::shared_ptr<const Source>> sources_of(const std::vector<PySource>& given) {
  std::vector<std::shared_ptr<const Source>> sources;
  sources.reserve(given.size());
  for (const PySource& one : given) sources.push_back(one.source);
  return sources;
}

void define_adaptors(py::module_& module) {
  module.def("numbers", [](py::handle length, py::handle fingerprint, std::vector<std::int64_t> digests) {
    const auto size = take<std::int64_t>(length, {"order a dataset", "its length"});
    const auto given = take<std::optional<std::string>>(fingerprint, {"order a dataset", "fingerprint"});
    return PySource(std::make_shared<Numbers>(size, to_fingerprint(given, size), std::move(digests)));
  });
  module.def("python_source", [](py::object dataset, py::handle fields,
                                 const std::optional<std::string>& fingerprint, bool is_thread_safe) {
    const auto own = to_fingerprint(fingerprint, static_cast<std::int64_t>(py::len(dataset)));
    return PySource(std::make_shared<PythonSource>(
        std::move(dataset), take<std::vector<Field>>(fields, {"take a dataset", "fields"}), own,
        fingerprint.has_value(), is_thread_safe));
  });
  module.def("cast", &cast_source);
  module.def("join", [](const std::vector<PySource>& given) { return PySource(join(sources_of(given))); });
  module.def("split", [](const PySource& source, const std::vector<double>& fractions, py::handle seed) {
    const auto parts =
        split(source.source, fractions, take<std::uint64_t>(seed, {"split a dataset", "seed"}));
    return std::vector<PySource>(parts.begin(), parts.end());
  });
  module.def("zip", [](const std::vector<PySource>& given) { return PySource(zip(sources_of(given))); });
  module.def("write_shards",
             [](const PySource& source, const std::string& destination, const ShardOptions& options) {
               return unlocked([&] { return write_shards(source.source, destination, options); });
             });
  module.def("windows", [](const PySource& rows, const py::dict& given) {
    const WindowOptions options = kWindowOptions.parse(given);
    return unlocked([&] { return PySource(windows(rows.source, options)); });
  });
  module.def("episode_lengths", [](const PySource& rows, const std::string& field) {
    return unlocked([&] { return episode_lengths(*rows.source, field); });
  });
  module.def(
      "pack",
      [](const PySource& documents, const py::dict& given, const PyCommunicator* comm) {
        const PackOptions options = kPackOptions.parse(given);
        const auto ranks = ranks_of(comm);
        return unlocked([&] { return PySource(pack(*ranks, documents.source, options)); });
      },
      py::arg(), py::arg(), py::arg("comm") = py::none());
}

}  // namespace

void define_sources(py::module_& module) {
  using Released = py::call_guard<Unlocked>;
  py::class_<PySource> source(module, "Source");
  source
      .def_property(
          "_recipe", [](const PySource& self) { return self.recipe.is_there() ? *self.recipe : py::none(); },
          [](PySource& self, py::object recipe) { self.recipe = Shared(std::move(recipe)); })
      .def("__len__", [](const PySource& self) { return self.source->size(); })
      .def("__getitem__", &sample)
      .def_property_readonly(
          "fields", [](const PySource& self) { return to_tuple(self.source->fields()); },
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
          "The file, or other origin, of sample i. Of bytes that are no text, as os.fsdecode has them.")
      .def(
          "documents",
          [](const PySource& self, py::handle i, py::handle epoch) {
            const SampleId id{take_index(i, self.source->size(), "look up sample")};
            const auto in = take<std::int64_t>(epoch, {"name the documents of a sequence", "epoch"});
            return numbers_of(documents_of(*self.source, id, in));
          },
          py::arg("i"), py::arg("epoch") = 0,
          "Of a source that `pack` made: the documents with tokens in sequence i, in order. They are others "
          "in each epoch with fit=\"best\".")
      .def(
          "packing",
          [](const PySource& self) {
            using py::literals::operator""_a;
            const PackFacts facts = unlocked([&] { return packing_of(*self.source); });
            return py::dict("sequences"_a = facts.sequences, "documents"_a = facts.documents,
                            "cut"_a = facts.cut, "tokens"_a = facts.tokens, "fill"_a = facts.fill);
          },
          "Of a source that `pack` made: how many sequences, documents, and of these cut ones, how many "
          "tokens, and which part of the sequences they fill.");
  define_adaptors(module);
  define_selections(module, source);
}

}  // namespace rota::python
