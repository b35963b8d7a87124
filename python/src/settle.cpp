// What became of samples that were handed out: of loaders and samplers, from any thread.

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "loader/settling.hpp"
#include "objects.hpp"
#include "order.hpp"
#include "rota/resume.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

using internal::SampleName;

/// Samples that a program names: of a batch, whose place is known, or one by one.
struct Named {
  std::vector<SampleName> names;
  std::optional<std::pair<Position, Position>> of = {};
};

[[noreturn]] void refuse_names(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "name samples: " + why);
}

Named of_batch(const Batch& batch) {
  return {.names = internal::names_of(batch), .of = std::pair(batch.start(), batch.end())};
}

std::int64_t number_of(py::handle number) {
  const auto value = PyLong_AsLongLong(number.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return value;
}

bool is_number(py::handle value) { return PyLong_Check(value.ptr()) != 0 && PyBool_Check(value.ptr()) == 0; }

/// Takes `rota.Index` after `rota.Index`. What these have by their type is asked once for each type; those
/// that were drawn have it by themselves.
class Indices {
 public:
  Indices(std::uint64_t seed, bool passes_pads) : seed_(seed), passes_pads_(passes_pads) {}

  void add(py::handle index, std::vector<SampleName>& names) {
    if (Py_TYPE(index.ptr()) != type_) look(index);
    const std::int64_t id = number_of(index) + shift_;
    if (!is_pad_) return names.push_back({{id}, epoch_});
    if (!passes_pads_)
      refuse_names(fmt::format("index {} pads its batch, and is no sample of its own; leave it out", id));
  }

 private:
  void look(py::handle index) {
    if (!PyLong_Check(index.ptr()) || !py::hasattr(index, "is_pad"))
      refuse_names("by a batch, by rota.Index, or by ids and epochs; a plain number does not know its epoch");
    if (const auto seed = index.attr("seed").cast<std::uint64_t>(); seed != seed_)
      refuse_names(fmt::format("an index is of seed {}, and this run of {}", seed, seed_));
    epoch_ = index.attr("epoch").cast<std::int64_t>();
    is_pad_ = index.attr("is_pad").cast<bool>();
    shift_ = index.attr("shift").cast<std::int64_t>();
    type_ = py::hasattr(index, "__dict__") ? nullptr : Py_TYPE(index.ptr());
  }

  std::uint64_t seed_;
  bool passes_pads_;
  PyTypeObject* type_ = nullptr;
  std::int64_t epoch_ = 0;
  bool is_pad_ = false;
  std::int64_t shift_ = 0;
};

using Int64s = py::array_t<std::int64_t, py::array::c_style>;

Named of_numbers(py::handle ids, py::handle epochs) {
  require_known_numpy();
  const auto as_numbers = [](py::handle given) {
    const auto array = py::array::ensure(given);
    if (!array || array.ndim() > 1 ||
        (array.size() > 0 && array.dtype().kind() != 'i' && array.dtype().kind() != 'u'))
      refuse_names("ids and epochs must be whole numbers, one for each sample");
    return array.size() == 0 ? Int64s(0) : array.cast<Int64s>();
  };
  const Int64s of = as_numbers(ids);
  const Int64s in = as_numbers(epochs);
  if (in.size() != of.size() && in.size() != 1)
    refuse_names(
        fmt::format("{} ids and {} epochs; give one for each, or one for all", of.size(), in.size()));
  Named named{.names = std::vector<SampleName>(static_cast<std::size_t>(of.size()))};
  for (std::size_t i = 0; i < named.names.size(); ++i)
    named.names[i] = {{of.data()[i]}, in.data()[in.size() == 1 ? 0 : i]};
  return named;
}

Named named(const PyLedger& ledger, py::handle samples, py::handle epochs) {
  if (is_number(samples) && is_number(epochs))  // without numpy, which takes longer
    return {.names = {{{number_of(samples)}, number_of(epochs)}}};
  if (!epochs.is_none()) return of_numbers(samples, epochs);
  Named found;
  if (is_number(samples)) {
    Indices(ledger.seed, false).add(samples, found.names);
    return found;
  }
  if (py::isinstance<Batch>(samples)) return of_batch(samples.cast<const Batch&>());
  if (py::hasattr(samples, "_batch")) return of_batch(samples.attr("_batch").cast<const Batch&>());
  const bool has_pads = py::isinstance(samples, py::module_::import("rota._indices").attr("Indices"));
  Indices indices(ledger.seed, has_pads);
  for (const py::handle index : samples) indices.add(index, found.names);
  return found;
}

internal::Settling& settling_of(const PyRun& self) {
  if (self.settling) return *self.settling;
  throw Error(ErrorCode::invalid_argument,
              "settle samples: this sampler was made without settle=\"by_hand\"");
}

// Which is locked for a moment only: without giving up the GIL.
internal::Ledger& require(const PyLedger& self, std::string_view verb) {
  return *self.settling->require_ledger(verb);
}

void settle(const PyLedger& self, py::handle samples, py::handle epochs) {
  internal::Ledger& ledger = require(self, "settle");
  const Named all = named(self, samples, epochs);
  all.of ? ledger.settle_batch(all.names, all.of->first, all.of->second) : ledger.settle(all.names);
}

py::dict dropped(const PyLedger& self) {
  const DroppedSamples all = self.settling->ledger()->dropped();
  py::dict made;
  made["counts"] = all.counts;
  py::list samples;
  for (const SkippedSamples::Sample& sample : all.samples) samples.append(to_python(sample));
  made["samples"] = samples;
  return made;
}

// As `draw`, of a sampler: what is drawn is handed out.
py::object hand_out(PyRun& self, std::optional<std::int64_t> last_epoch) {
  internal::Settling& settling = *self.settling;
  unlocked([&] { settling.require_ledger("hand out")->wait_for_room(std::chrono::minutes(10)); });
  for (;;) {
    settling.give(self, self.world, false);
    auto memory = slices().take();
    const bool is_there = slice_here(self, *memory);
    if (!is_there && !settling.give(self, self.world, true).empty()) continue;
    if (!is_there) settling.drop_rest(self, self.world);
    if (!is_there || (!memory->is_again() && memory->start.epoch > last_epoch.value_or(kEndless)))
      return py::none();
    require_present(self, *memory);
    if (!settling.hand_out(self, *memory, self.world)) continue;
    py::object made = indices_of(self, *memory);
    return py::make_tuple(std::move(made), slices().wrap(std::move(memory)));
  }
}

}  // namespace

// ---- samplers ----

std::string own_state(const PyRun& self) {
  return internal::own_text(self, *self.settling, self.world, self.skipped, content_of(self));
}

void restart_ledger(const PyRun& self, DroppedSamples dropped) {
  if (!self.settling) return;
  self.settling->restart(self, self.world, "a restore");
  self.settling->ledger()->restore(std::move(dropped));
}

void define_handing_out(py::class_<PyRun>& run) {
  run.def("_settle_by_hand",
          [](PyRun& self, py::handle limit) {
            const auto most = take<std::int64_t>(limit, {"make a sampler", "open_limit"});
            internal::OptionCheck("make a sampler").in_range("open_limit", most, 1);
            self.settling = std::make_shared<internal::Settling>(Settle::by_hand, most);
            self.settling->restart(self, self.world, "");
          })
      .def("_hand_out", &hand_out)
      .def_property_readonly("_ledger",
                             [](const PyRun& self) {
                               static_cast<void>(settling_of(self));
                               return PyLedger{self.settling, internal::RunAccess::order(self)->seed};
                             })
      .def_property_readonly("_has_more",
                             [](const PyRun& self) {
                               return self.settling ? self.settling->has_more(self, self.world)
                                                    : !internal::RunAccess::open(self).empty();
                             })
      .def("_restart_ledger",
           [](PyRun& self, const std::string& by) {
             if (self.settling) self.settling->restart(self, self.world, by);
           })
      .def("_keep_ledger",
           [](const PyRun& self) {
             if (self.settling) self.settling->ledger()->keep_from(self.position());
           })
      .def("_merge", [](PyRun& self, const PyCommunicator& comm) {
        unlocked([&, ranks = comm.get()] {
          return internal::merge(*ranks, self, settling_of(self), self.world,
                                 [&] { return own_state(self); });
        });
      });
}

// ---- of both ----

void define_settling(py::module_& module) {
  using py::literals::operator""_a;
  py::class_<PyLedger>(module, "Ledger")
      .def("settle", &settle, "samples"_a, "epochs"_a)
      .def("drop",
           [](const PyLedger& self, py::handle samples, py::handle epochs, const std::string& reason) {
             require(self, "drop").drop(named(self, samples, epochs).names, reason);
           })
      .def("again",
           [](const PyLedger& self, py::handle samples, py::handle epochs) {
             require(self, "give up").again(named(self, samples, epochs).names);
           })
      .def("again_all", [](const PyLedger& self) { require(self, "give up").again(); })
      .def("try_settle",
           [](const PyLedger& self, py::handle samples, py::handle epochs) {
             return require(self, "settle").try_settle(named(self, samples, epochs).names);
           })
      .def("counts",
           [](const PyLedger& self) {
             const auto counts = self.settling->ledger()->counts();
             return py::make_tuple(counts.out, counts.oldest_seconds, counts.given_up);
           })
      .def("has_room", [](const PyLedger& self) { return self.settling->ledger()->has_room(); })
      .def("dropped", &dropped);
  module.def("merge_states", [](const std::vector<std::string>& texts) { return merge_states(texts); });
}

}  // namespace rota::python
