// Runs, and what a sampler draws of them.

#include "rota/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "loader/batch_memory.hpp"
#include "loader/ordered_source.hpp"
#include "objects.hpp"
#include "options.hpp"
#include "order.hpp"
#include "order/balance.hpp"
#include "order/for_rules.hpp"
#include "order/run_state.hpp"
#include "resume/loader_state.hpp"
#include "source/read_plan.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

using internal::ForRules;
using internal::RunAccess;
using internal::SampleContent;

}  // namespace

// The last ones die with Python.
internal::BatchPool& slices() {
  static const auto* const pool =
      new std::shared_ptr<internal::BatchPool>(std::make_shared<internal::BatchPool>(
          std::vector<Field>(), Allocator(), std::size_t{64}, std::int64_t{0}));
  return **pool;
}

internal::AskContent content_of(const PyRun& self) {
  return [&]() -> auto& { return *self.content; };
}

namespace {

std::vector<RunData> to_data(const py::iterable& given) {
  std::vector<RunData> data;
  for (const py::handle one : given) {
    const auto [samples, shards, blocks] = one.cast<std::tuple<py::object, py::bytes, py::bytes>>();
    const auto shard_lengths = numbers_in<std::int64_t>(shards);
    const auto block_lengths = numbers_in<std::int64_t>(blocks);
    data.push_back({.samples = take<std::int64_t>(samples, {"make a run", "samples"}),
                    .shard_lengths = {shard_lengths.begin(), shard_lengths.end()},
                    .block_lengths = {block_lengths.begin(), block_lengths.end()}});
  }
  return data;
}

py::list from_data(const PyRun& self) {
  py::list all;
  for (const RunData& one : self.data()) {
    all.append(py::make_tuple(one.samples, to_bytes(one.shard_lengths), to_bytes(one.block_lengths)));
  }
  return all;
}

// `mixture` is None, or a `rota.Mixture` of names, if there are any.
PyRun make_run(const py::iterable& data, const LoaderOptions& options, const py::object& mixture,
               py::handle fingerprint) {
  RunOptions how = options.run();
  if (!mixture.is_none()) {
    const MixtureOptions mixed = to_mixture_options(mixture);
    how.weights = to_weights(mixture.attr("weights"));
    how.end = mixed.end;
    how.steps = mixed.steps;
  }
  std::vector<RunData> all = to_data(data);
  if (!mixture.is_none()) {
    const auto names = mixture.attr("sources").cast<std::vector<std::string>>();
    for (std::size_t d = 0; d < std::min(names.size(), all.size()); ++d) all[d].name = names[d];
  }
  std::int64_t samples = 0;
  for (const RunData& one : all) samples += std::clamp<std::int64_t>(one.samples, 0, kMaxCount - samples);
  how.fingerprint =
      to_fingerprint(take<std::optional<std::string>>(fingerprint, {"make a run", "fingerprint"}), samples);
  return {Run(all, how)};
}

// What a source or a mixture is in order.
internal::OrderedSource order_of(py::handle data, LoaderOptions& options) {
  if (py::isinstance<PySource>(data)) {
    return unlocked([&, source = data.cast<const PySource&>().source] {
      return internal::put_in_order(source, options);
    });
  }
  return unlocked([&, mixture = to_mixture(data)] { return internal::put_in_order(mixture, options); });
}

PyRun make_run_over(py::handle data, LoaderOptions options) { return {order_of(data, options).run}; }

World sampler_world(py::handle given) {
  const auto world = take<World>(given, {"place a loader", "world"});
  world.validate();
  return world;
}

// For a sampler over sources made by `numbers`.
PyRun make_sampler_run(py::handle data, LoaderOptions options, py::handle world) {
  const auto ordered = order_of(data, options);
  internal::check(options.rank_split, options.balance, ordered.run.samples());
  PyRun made{ordered.run, sampler_world(world), options.rank_split, options.balance,
             std::make_shared<const std::vector<SampleContent>>(
                 internal::PlannedSource::content_of(*ordered.source, internal::kSamplesOfContent))};
  made.own = std::make_shared<const PyRun>(made);
  return made;
}

template <typename Slice>
py::object next_slice(const Slice& slice) {
  auto memory = slices().take();
  if (!slice(*memory)) return py::none();
  return py::cast(slices().wrap(std::move(memory)));
}

// The indices of the next batch, and what is in it; None behind the last one that begins in that epoch.
py::object draw(PyRun& self, std::optional<std::int64_t> last_epoch) {
  auto memory = slices().take();
  if (!slice_here(self, *memory)) return py::none();
  if (!memory->is_again() && memory->start.epoch > last_epoch.value_or(kEndless)) return py::none();
  require_present(self, *memory);
  py::object made = indices_of(self, *memory);
  RunAccess::pass(self, *memory);
  py::tuple drawn = py::make_tuple(std::move(made), slices().wrap(std::move(memory)));
  return drawn;
}

internal::OrderedJson json_of_state(const PyRun& self) {
  internal::OrderedJson json = internal::state_of(self, self.skipped, self.world.size);
  internal::add_content(*self.content, json);
  return json;
}

}  // namespace

// Its states differ by their positions alone, as long as nothing else is changed.
struct PyRun::Texts {
  Texts(const PyRun& of, const Run& run)
      : at_origin(run),
        world_size(of.world.size),
        skipped(of.skipped),
        but_position(json_of_state(of), "position") {}
  [[nodiscard]] bool are_of(const PyRun& run, const Run& its_origin) const {
    return &RunAccess::path(at_origin) == &RunAccess::path(its_origin) && at_origin == its_origin &&
           world_size == run.world.size && skipped == run.skipped;
  }

  Run at_origin;
  int world_size;
  std::int64_t skipped;
  internal::SealedBut but_position;
};

namespace {

void keep_texts(const PyRun& self) {
  Run at_origin(static_cast<const Run&>(self));
  RunAccess::go_to_origin(at_origin);
  if (!self.texts || !self.texts->are_of(self, at_origin))
    self.texts = std::make_shared<const PyRun::Texts>(self, at_origin);
}

std::string state_of(const PyRun& self) {
  if (self.settling) return self.settling->whole_or(own_state(self));
  keep_texts(self);
  return self.texts->but_position.sealed(internal::json_of(self.position()));
}

void load(PyRun& self, py::handle state) {
  const std::string text = state_text(state);
  const internal::SavedState saved(internal::kLoaderKind, text);
  const std::int64_t skipped = saved.object().has("skipped") ? saved.object().number("skipped") : 0;
  const internal::Renumbering by(saved, self, self.own_names(), self.split);
  const Run moved = internal::moved_to(by.saved(), by.run(), content_of(self));
  saved.require_digest();
  self.go_to(moved);
  self.skipped = skipped;
  restart_ledger(self, {.counts = internal::drops_in(saved.object())});
}

py::array cursors_of(const PyRun& self) {
  require_known_numpy();
  const auto& orders = RunAccess::order(self)->orders;
  const std::int64_t shards = std::ssize(orders) * orders.front().plan().shards();
  py::array_t<std::int64_t> cursors({shards, std::int64_t{2}});
  self.cursors(0, {cursors.mutable_data(), static_cast<std::size_t>(2 * shards)});
  return cursors;
}

World world_of(py::handle world) { return take<World>(world, {"take a slice of a run", "world"}); }
Balance balance_of(py::handle balance) {
  return take<Balance>(balance, {"take a slice of a run", "balance"});
}
// With a balance, which it need not name.
Split split_of(py::handle split, const Balance& balance) {
  const Argument as{"take a slice of a run", "split"};
  const auto named = take<Split>(split, as);
  if (balance.columns.empty()) return named;
  if (named != Split::by_sample && named != Split::balanced)
    as.refuse_value(split, "\"balanced\" where balance= is given");
  return Split::balanced;
}

// A method of Run's as one of PyRun's, which pybind11 does not see where it is noexcept.
template <typename T>
auto own(T (Run::*method)() const) -> T (PyRun::*)() const {
  return method;
}

using RunClass = py::class_<PyRun>;

void define_answers(RunClass& run) {
  run.def("_slice",
          [](const PyRun& self, py::handle given, py::handle split, py::handle of) {
            const World world = world_of(given);
            const Balance balance = balance_of(of);
            const Split named = split_of(split, balance);
            return next_slice([&](RunSlice& out) { return self.slice(out, world, named, balance); });
          })
      .def("_go_to_step",
           [](PyRun& self, py::handle step, bool also_left_out) {
             const Run from = also_left_out ? RunAccess::without_skip(self) : static_cast<const Run&>(self);
             const auto at = from.at(take<std::int64_t>(step, {"find a step", "step"}));
             if (at) self.go_to(*at);
             return at.has_value();
           })
      .def(
          "when",
          [](const PyRun& self, py::handle id, py::handle epoch, py::handle ranks, py::handle split,
             py::handle balance) {
            const Balance given = balance_of(balance);
            const Split named = split_of(split, given);
            const SampleId sample{take<std::int64_t>(id, {"look up a sample", "id"})};
            const auto of = take<std::int64_t>(epoch, {"look up a sample", "epoch"});
            const auto size = take<int>(ranks, {"look up a sample", "ranks"});
            return self.when(sample, of, size, named, given);
          },
          py::arg("id"), py::arg("epoch") = 0, py::arg("ranks") = 1, py::arg("split") = "by_sample",
          py::arg("balance") = py::none(),
          "The step, the rank of a world of `ranks`, and the slot in which sample `id` is read in `epoch`; "
          "None where it never is.")
      .def(
          "is_skipped",
          [](const PyRun& self, py::handle step) {
            return self.is_skipped(take<std::int64_t>(step, {"find a step", "step"}));
          },
          py::arg("step"), "Whether the plan leaves a step out.");
}

// Where it is, and of what.
void define_values(RunClass& run) {
  run.def("cursors", &cursors_of, "[shards, 2], int64: epoch and position of each.")
      .def_property_readonly("is_over", &PyRun::is_over, "Whether there is no next batch.")
      .def_property_readonly("position", own(&Run::position), "Where it is.")
      .def_property_readonly("samples", own(&Run::samples), "Of all datasets.")
      .def_property_readonly("global_batch_size", own(&Run::global_batch_size),
                             "Samples of all ranks in a step.")
      .def_property_readonly(
          "seed", [](const PyRun& self) { return self.options().seed; }, "Of the order.")
      .def_property_readonly(
          "plan", [](const PyRun& self) { return to_string(self.plan()); }, "What changes on its way: JSON.")
      .def_property_readonly("_names", [](const PyRun& self) { return RunAccess::order(self)->names; })
      .def("_data", &from_data)
      .def("state", &PyRun::state, "Where it is and what defines its order: a loader's state, a text.")
      .def("recipe", &PyRun::recipe,
           "The same with the lengths of its shards and blocks, of which a state has a digest alone. To be "
           "kept once.")
      .def("__eq__", [](const PyRun& self, py::handle other) {
        return py::isinstance<PyRun>(other) && self == other.cast<const PyRun&>();
      });
  run.attr("__hash__") = py::none();
}

void define_moves(RunClass& run) {
  run.def("_advance",
          [](PyRun& self, const Batch* slice) {
            if (slice == nullptr) return self.advance();
            RunSlice passed;
            passed.start = slice->start();
            passed.end = slice->end();
            passed.global_real = slice->global_real();
            self.advance(passed);
            return true;
          })
      .def("_behind", [](const PyRun& self, const Batch& batch, bool is_over) {
        if (batch.start().step < RunAccess::path(self).begin().step)
          throw Error(ErrorCode::invalid_argument,
                      "take the state behind a batch: batches were changed since");
        keep_texts(self);  // for those of other copies, too
        PyRun made = self;
        const RunSlice& slice = internal::BatchPool::memory_of(batch);
        RunSlice at;  // where not all of its parts are over, it comes whole again
        at.end = is_over ? slice.end : slice.start;
        at.left_again = slice.left_again + (!is_over && slice.is_again() ? slice.global_real : 0);
        RunAccess::go_behind(made, at);
        return made;
      });
}

// What a sampler asks.
void define_sampling(RunClass& run) {
  run.def("_draw", &draw)
      .def("_slice_here",
           [](const PyRun& self) { return next_slice([&](RunSlice& out) { return slice_here(self, out); }); })
      .def("_state", &state_of)
      .def("_load", &load)
      .def("_described",
           [](const PyRun& self) {
             return internal::described(self) + internal::describe(self.split, self.balance);
           })
      .def("_save_to",
           [](const PyRun& self, Snapshot& to, const std::string& name) {
             const auto whole = [&] { return state_of(self); };
             const auto saved = self.settling
                                    ? internal::as_saved(self, *self.settling, whole, content_of(self))
                                    : internal::SavedRun{static_cast<const Run&>(self)};
             internal::save_run(saved, self.world, content_of(self), internal::described(saved.run), to,
                                name);
           })
      .def("_restore_from",
           [](PyRun& self, const PyCheckpoint& from, const std::string& name) {
             internal::SavedRun all = unlocked([&, own = self] {
               const internal::SavedState saved(internal::kLoaderKind, *from.checkpoint, name);
               const internal::Renumbering by(saved, own, own.own_names(), own.split);
               return internal::restored(by.saved(), *from.checkpoint, by.run(), own.world, content_of(own),
                                         by.added());
             });
             self.go_to(all.run);
             self.skipped = 0;
             restart_ledger(self, std::move(all.dropped));
           })
      .def_property(
          "_world", [](const PyRun& self) { return self.world; },
          [](PyRun& self, py::handle world) {
            const World to = sampler_world(world);
            if (self.settling) self.settling->rescale(self, self.world, to);
            self.world = to;
          });
}

void define_rules(py::module_& module) {
  py::class_<ForRules>(module, "ForRules")
      .def(py::init<bool, bool>())
      .def("begin",
           [](ForRules& self, PyRun& of) {
             std::string said;
             const bool gives = self.begin(of, said);
             return py::make_tuple(gives, said);
           })
      .def("take_end", [](ForRules& self, PyRun& of) { return self.take_end(of); })
      .def("set_epoch",
           [](ForRules& self, PyRun& of, py::handle epoch) {
             return self.set_epoch(of, take<std::int64_t>(epoch, {"go to an epoch", "it"}));
           })
      .def("passed",
           [](ForRules& self, const PyRun& run, const Batch& batch) { self.passed(run, batch.start()); })
      .def("end_epoch", &ForRules::end_epoch)
      .def("restarted", &ForRules::restarted)
      .def("restored", &ForRules::restored)
      .def_property_readonly("is_restored", &ForRules::is_restored)
      .def("ends", [](const ForRules& self, const PyRun& of) { return self.ends(of); })
      .def("gives_nothing", [](const ForRules& self, const PyRun& of) { return self.gives_nothing(of); })
      .def(py::pickle([](const ForRules& self) { return self.numbers(); },
                      [](const ForRules::Numbers& of) { return ForRules(of); }));
}

}  // namespace

void define_runs(py::module_& module) {
  RunClass made(module, "Run");
  made.def(py::init<const PyRun&>());
  define_answers(made);
  define_values(made);
  define_steps(made);
  define_changes(made);
  define_moves(made);
  define_sampling(made);
  define_handing_out(made);
  define_rules(module);
  module.def("make_run", &make_run);
  module.def("make_run_over", &make_run_over);
  module.def("make_sampler_run", &make_sampler_run);
  module.def("run_of", [](py::handle text, const py::object& data) {
    return PyRun{Run::from(take<std::string>(text, {"read a run", "the state"}),
                           data.is_none() ? std::vector<RunData>() : to_data(data))};
  });
}

}  // namespace rota::python
