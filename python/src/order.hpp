#pragma once

// What loaders and runs have in common in Python: an order, and a place in it.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loader/batch_memory.hpp"
#include "objects.hpp"
#include "options.hpp"
#include "resume/loader_state.hpp"
#include "resume/renumbering.hpp"
#include "values.hpp"

namespace rota::python {

/// A run, and what else a sampler has of it. The GIL guards it.
struct PyRun : Run {
  World world = {};  ///< of who draws
  Split split = Split::by_sample;
  Balance balance = {};
  /// What names the samples.
  std::shared_ptr<const std::vector<internal::SampleContent>> content =
      std::make_shared<const std::vector<internal::SampleContent>>();
  std::int64_t skipped = 0;  ///< as in the state that was loaded
  /// Where what is drawn is handed out. Of copies, too, which hand out nothing.
  std::shared_ptr<internal::Settling> settling = {};
  /// Of the last state that was asked for, to make the next.
  struct Texts;
  mutable std::shared_ptr<const Texts> texts = {};
  /// Of a sampler, as it was made: of the datasets that the program has, in its order. Else null.
  std::shared_ptr<const PyRun> own = {};
  /// By the number of a dataset, how far ids are behind the indices of the program's datasets, one behind the
  /// other; kAbsent for one that is not there. Null where they are the same.
  std::shared_ptr<const std::vector<std::int64_t>> shifts = {};
  static constexpr std::int64_t kAbsent = kMaxCount + 1;

  void go_to(const Run& run);
  [[nodiscard]] const std::vector<std::string>& own_names() const {
    return internal::RunAccess::order(own ? *own : *this)->names;
  }
  /// As that of OneThread.
  template <typename Work>
  auto use(const Work& work, bool /*is_brief*/ = false) {
    return work(static_cast<Run&>(*this));
  }
};

/// Throws Error{invalid_argument} where a batch has samples of a dataset that is not there.
void require_present(const PyRun& self, const RunSlice& batch);
/// The indices of one that has none, by the program's datasets; in the place of a sample that is left out
/// another is read.
py::object indices_of(const PyRun& self, const RunSlice& batch);
/// A list of `rota.Index`. Each is as far before its id as `shifts` says; without these, its id.
py::object make_indices(std::span<const SampleId> ids, std::span<const std::int64_t> epochs,
                        std::span<const SlotKind> kinds, std::uint64_t seed,
                        std::span<const std::int64_t> shifts = {});

/// Slices without data.
[[nodiscard]] internal::BatchPool& slices();
[[nodiscard]] internal::AskContent content_of(const PyRun& self);
/// What its rank has of the next batch, as Run::slice.
inline bool slice_here(const PyRun& run, RunSlice& out) {
  return run.slice(out, run.world, run.split, run.balance);
}

// What is settled by hand: settle.cpp.

/// What a loader or a sampler knows of samples that it has handed out. From any thread.
struct PyLedger {
  std::shared_ptr<const internal::Settling> settling;
  std::uint64_t seed = 0;  ///< of the order
};

void define_handing_out(py::class_<PyRun>& run);
/// As far as this rank knows.
[[nodiscard]] std::string own_state(const PyRun& self);
/// Where the run was restored, of which these were dropped.
void restart_ledger(const PyRun& self, DroppedSamples dropped);

/// What comes when; and going elsewhere. `Self` is PyRun or OneThread<Loader>.
template <typename Self>
void define_steps(py::class_<Self>& made) {
  made.def(
          "__len__",
          [](Self& self) {
            try {
              return self.use([](auto& run) { return run.steps(); }, kBrief);
            } catch (const Error& error) {  // by a TypeError list() knows that there is none
              if (error.code() != ErrorCode::unsupported) throw;
              throw py::type_error(error.what());
            }
          },
          "Steps of all epochs, wherever the run stands. TypeError of a mixture, and without a last epoch.")
      .def("__bool__", [](Self&) { return true; })
      .def_property_readonly(
          "steps_per_epoch",
          [](Self& self) { return self.use([](auto& run) { return run.steps_per_epoch(); }, kBrief); },
          "At this batch size. UnsupportedError of a mixture.")
      .def(
          "position_of",
          [](Self& self, py::handle step) {
            const auto of = take<std::int64_t>(step, {"find a step", "step"});
            return self.use([&](auto& run) { return run.position_of(of); }, kBrief);
          },
          py::arg("step"), "Where `step` begins; None past the end.");
}

template <typename Self>
void define_changes(py::class_<Self>& made) {
  made.def(
          "seek",
          [](Self& self, py::handle position) {
            const auto to = take<Position>(position, {"go to a position", "a number of it"});
            self.use([&](auto& run) { run.seek(to); });
          },
          py::arg("position"),
          "Goes to (epoch, consumed, step), as of this order. A loader drops what it has read.")
      .def(
          "seek_step",
          [](Self& self, py::handle step) {
            const auto to = take<std::int64_t>(step, {"go to a step", "step"});
            self.use([&](auto& run) { run.seek_step(to); });
          },
          py::arg("step"),
          "Goes to the start of a step, whatever batch sizes and weights led or will lead to it.")
      .def(
          "restart", [](Self& self) { self.use([](auto& run) { run.restart(); }); },
          "Begins anew, with the first sample of the first epoch.")
      .def(
          "set_global_batch_size",
          [](Self& self, py::handle size) {
            const auto to = take<std::int64_t>(size, {"set a batch size", "it"});
            self.use([&](auto& run) { run.set_global_batch_size(to); });
          },
          py::arg("size"), "Goes on with batches of another size. All ranks do it at the same step.")
      .def("_replan",
           [](Self& self, const std::string& text) {
             self.use([plan = parse_plan(text)](auto& run) { run.replan(plan); });
           })
      .def(
          "set_weights",
          [](Self& self, py::handle weights) {
            self.use([to = to_weights(weights)](auto& run) { run.set_weights(to); });
          },
          py::arg("weights"),
          "Goes on with other weights of a mixture's datasets. All ranks do it at the same step.");
}

}  // namespace rota::python
