// Sources of some samples of others, and of those that are drawn anew in each epoch.

#include "source/draw.hpp"

#include <pybind11/numpy.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "objects.hpp"
#include "rota/select.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

using Draws = internal::Draws;
using Weights = py::array_t<double, py::array::c_style>;

constexpr std::string_view kRepeating = "repeat samples";
constexpr std::string_view kWeighting = "draw samples by weights";

std::uint64_t seed_of(py::handle seed, std::string_view task) {
  return take<std::uint64_t>(seed, {task, "seed"});
}

// What `weigh` makes over ranks, with Python's lock released.
template <typename Weigh>
auto together(const Weights& weights, py::handle draws, py::handle seed, const PyCommunicator* comm,
              const Weigh& weigh) {
  const auto count = take<std::int64_t>(draws, {kWeighting, "draws"});
  const std::uint64_t key = seed_of(seed, kWeighting);
  const auto ranks = ranks_of(comm);
  const std::span given(weights.data(), static_cast<std::size_t>(weights.size()));
  return unlocked([&] { return weigh(*ranks, given, count, key); });
}

SampleId draw_of(py::handle id) { return {take<std::int64_t>(id, {"look up a draw", "its number"})}; }
std::int64_t epoch_of(py::handle epoch) { return take<std::int64_t>(epoch, {"look up a draw", "epoch"}); }

void define_draws(py::module_& module) {
  module.def("repeat", [](const PySource& source, double times, py::handle seed) {
    return PySource(repeat(source.source, times, seed_of(seed, kRepeating)));
  });
  module.def(
      "weighted",
      [](const PySource& source, const Weights& weights, py::handle draws, py::handle seed,
         const PyCommunicator* comm) {
        return together(weights, draws, seed, comm, [&](const auto& ranks, const auto&... how) {
          return PySource(weighted(ranks, source.source, how...));
        });
      },
      py::arg(), py::arg(), py::arg(), py::arg(), py::arg("comm") = py::none());
  py::class_<Draws>(module, "Draws")
      .def(py::init([](std::int64_t samples, double times, py::handle seed) {
        return Draws::repeated(samples, times, seed_of(seed, kRepeating));
      }))
      .def(py::init([](std::int64_t samples, const Weights& weights, py::handle draws, py::handle seed,
                       const PyCommunicator* comm) {
             return together(weights, draws, seed, comm, [&](const auto& ranks, const auto&... how) {
               return Draws::weighted(ranks, samples, how...);
             });
           }),
           py::arg(), py::arg(), py::arg(), py::arg(), py::arg("comm") = py::none())
      .def("__len__", &Draws::size)
      .def_property_readonly("fingerprint", [](const Draws& self) { return to_string(self.fingerprint()); })
      .def("drawn", [](const Draws& self, py::handle id,
                       py::handle epoch) { return self.drawn(draw_of(id), epoch_of(epoch)).value; })
      .def("draws_of", [](const Draws& self, py::handle sample, py::handle epoch) {
        return numbers_of(self.draws_of(draw_of(sample), epoch_of(epoch)));
      });
}

}  // namespace

py::list numbers_of(const std::vector<SampleId>& ids) {
  py::list numbers;
  for (const SampleId id : ids) numbers.append(id.value);
  return numbers;
}

void define_selections(py::module_& module, py::class_<PySource>& sources) {
  module.def("select", [](const PySource& source, py::bytes ids) {
    const auto numbers = numbers_in<SampleId>(ids);
    const auto keep = dies_with_gil(std::make_unique<py::bytes>(std::move(ids)));
    return unlocked([&] { return PySource(select(source.source, keep, numbers)); });
  });
  module.def("without", [](const PySource& source, const py::bytes& ids) {
    const auto numbers = numbers_in<SampleId>(ids);
    return PySource(without(source.source, {numbers.begin(), numbers.end()}));
  });
  module.def("take", [](const PySource& source, py::handle n) {
    return PySource(rota::take(source.source, take<std::int64_t>(n, {"take samples", "n"})));
  });
  module.def("skip_first", [](const PySource& source, py::handle n) {
    return PySource(skip_first(source.source, take<std::int64_t>(n, {"skip samples", "n"})));
  });
  module.def("known_as", [](const PySource& source, const std::string& was, const std::string& now) {
    const auto parsed = [](const std::string& text) {
      const auto fingerprint = parse_fingerprint(text);
      if (!fingerprint)
        throw Error(ErrorCode::invalid_argument,
                    "know a dataset by another fingerprint: \"" + text +
                        "\" is none; give the 32 digits that errors and sources tell");
      return *fingerprint;
    };
    return unlocked([&] { return PySource(known_as(source.source, parsed(was), parsed(now))); });
  });
  define_draws(module);
  sources
      .def(
          "drawn",
          [](const PySource& self, py::handle id, py::handle epoch) {
            return drawn(*self.source, draw_of(id), epoch_of(epoch)).value;
          },
          py::arg("id"), py::arg("epoch"),
          "Of a source that `repeat` or `weighted` made: the sample that draw `id` of `epoch` is.")
      .def(
          "draws_of",
          [](const PySource& self, py::handle sample, py::handle epoch) {
            return numbers_of(draws_of(*self.source, draw_of(sample), epoch_of(epoch)));
          },
          py::arg("sample"), py::arg("epoch"),
          "Of such a source: all draws of a sample in `epoch`, ascending.");
}

}  // namespace rota::python
