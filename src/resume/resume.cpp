#include "rota/resume.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/snapshot_data.hpp"
#include "core/failure.hpp"
#include "core/owned.hpp"
#include "loader/loader_impl.hpp"
#include "order/run_state.hpp"
#include "resume/loader_state.hpp"
#include "resume/other_datasets.hpp"
#include "resume/stream_state.hpp"

namespace rota {
namespace {

using internal::Behind;
using internal::kCursors;
using internal::part_of_loader;
using internal::RunAccess;
using internal::RunPlace;
using internal::SavedState;

/// Shards of all datasets.
std::int64_t shards_of(const Run& run) {
  const auto& orders = RunAccess::order(run)->orders;
  return std::ssize(orders) * orders.front().plan().shards();
}

/// The shards whose cursors this place in `world` writes, and checks.
RowRange cursor_rows(const Run& run, const World& world) {
  const std::int64_t shards = shards_of(run);
  const std::int64_t first = share(shards, world.rank, world.size);
  return {first, share(shards, world.rank + 1, world.size) - first};
}

std::vector<std::int64_t> cursors_of(const Run& run, RowRange rows) {
  std::vector<std::int64_t> cursors(static_cast<std::size_t>(2 * rows.count));
  run.cursors(rows.first, cursors);
  return cursors;
}

[[noreturn]] void refuse_cursors(const Position& at, const SavedState& saved) {
  saved.fail(fmt::format("its cursors are not those of epoch {}, sample {}", at.epoch, at.consumed));
}

void check_cursors(const Run& run, const World& world, const Checkpoint& checkpoint, const SavedState& saved,
                   std::int64_t added) {
  const std::string tensor = saved.checked(kCursors, DType::int64, 2);
  const std::int64_t datasets = std::ssize(RunAccess::order(run)->orders);
  const std::int64_t known = shards_of(run) / datasets * (datasets - added);  // to the state
  RowRange rows = cursor_rows(run, world);
  rows.first = std::min(rows.first, known);
  rows.count = std::min(rows.count, known - rows.first);
  if (checkpoint.tensor(tensor).rows() != known ||
      checkpoint.read<std::int64_t>(tensor, rows) != cursors_of(run, rows)) {
    refuse_cursors(run.position(), saved);
  }
}

// Unless cursors fit the position as far as they tell without the loader.
void require_cursors(const SavedState& saved) {
  const RunPlace place = internal::place_of(saved.object());
  const std::int64_t datasets = place.mixture ? std::ssize(place.mixture->weights) : 1;
  const auto cursors = saved.numbers(kCursors, 2);
  const std::int64_t shards = std::ssize(cursors) / 2;
  bool is_good = datasets > 0 && shards % datasets == 0 &&
                 shards / datasets == saved.object().object("order").number("shards");
  if (is_good && !place.mixture) {  // whose datasets have epochs of their own
    std::int64_t consumed = 0;
    for (std::size_t i = 0; is_good && i < cursors.size(); i += 2) {
      is_good = cursors[i] == place.position.epoch && cursors[i + 1] >= 0 &&
                !__builtin_add_overflow(consumed, cursors[i + 1], &consumed);
    }
    is_good = is_good && consumed == place.position.consumed;
  }
  if (!is_good) refuse_cursors(place.position, saved);
}

// ---- skipped and dropped samples: STATE.md says in which tensors they are ----

constexpr std::int64_t kColumns = 4;  // epoch, id, bytes of the place, bytes of the error
constexpr std::string_view kCounts = "skipped_counts";
constexpr std::string_view kSkipped = "skipped";

using Listed = std::vector<SkippedSamples::Sample>;

// Its texts are in a tensor beside it.
std::string text_of(std::string_view list) { return fmt::format("{}_text", list); }

template <typename T>
std::vector<std::byte> bytes_of(const T& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

void save_list(const Listed& listed, std::string_view list, Snapshot& snapshot, std::string_view name) {
  std::vector<std::int64_t> rows;
  std::string text;
  for (const SkippedSamples::Sample& sample : listed) {
    rows.insert(rows.end(),
                {sample.epoch, sample.id.value, std::ssize(sample.where), std::ssize(sample.error)});
    text += sample.where;
    text += sample.error;
  }
  snapshot.tensor(part_of_loader(name, list), DType::int64, {kColumns}, std::ssize(listed), bytes_of(rows));
  snapshot.tensor(part_of_loader(name, text_of(list)), DType::uint8, {}, std::ssize(text), bytes_of(text));
}

// Where the texts of the listed samples end, one after the other: two for each row.
std::vector<std::int64_t> text_ends(const std::vector<std::int64_t>& rows, std::string_view list,
                                    std::int64_t size, const SavedState& saved) {
  const std::int64_t bytes = saved.bytes(text_of(list));
  std::vector<std::int64_t> ends{0};
  for (auto row = std::span(rows); !row.empty(); row = row.subspan(kColumns)) {
    saved.require(row[0] >= 0 && row[1] >= 0 && row[1] < size, list, "names a sample that is not");
    for (const std::int64_t length : row.subspan(2, 2)) {
      saved.require(length >= 0 && length <= bytes - ends.back(), list, "has texts that are not");
      ends.push_back(ends.back() + length);
    }
  }
  saved.require(ends.back() == bytes, text_of(list), "is longer than what is listed");
  return ends;
}

// A rank's equal share of those that are listed, of `counted` samples of a dataset of `size`.
Listed read_list(const SavedState& saved, std::string_view list, World world, std::int64_t size,
                 std::int64_t counted) {
  const auto rows = saved.numbers(list, kColumns);
  const auto ends = text_ends(rows, list, size, saved);
  const std::int64_t listed = std::ssize(rows) / kColumns;
  saved.require(listed <= counted, list, "lists more than were counted");
  const auto first = static_cast<std::size_t>(share(listed, world.rank, world.size));
  const auto end = static_cast<std::size_t>(share(listed, world.rank + 1, world.size));
  const std::int64_t begin = ends[2 * first];
  std::string texts(static_cast<std::size_t>(ends[2 * end] - begin), '\0');
  saved.read(text_of(list), begin, std::as_writable_bytes(std::span(texts)));
  const auto text = [&](std::size_t i) {
    return texts.substr(static_cast<std::size_t>(ends[i] - begin),
                        static_cast<std::size_t>(ends[i + 1] - ends[i]));
  };
  Listed samples;
  for (std::size_t i = first; i < end; ++i) {
    const std::int64_t* const row = &rows[i * kColumns];
    samples.push_back({.epoch = row[0], .id = {row[1]}, .where = text(2 * i), .error = text(2 * i + 1)});
  }
  return samples;
}

// Without the lists of others, where it saves alone.
bool writes_list(const World& own, bool is_alone) { return is_alone ? own.size == 1 : own.replica == 0; }

void save_skipped(const Loader& loader, Snapshot& snapshot, std::string_view name, bool is_alone) {
  const internal::SkipCounter& counter = Behind::of(loader).counter;
  if (!counter.skips() && counter.before() == 0) return;  // on all ranks alike
  const World own = loader.world();
  const World world = is_alone ? World{} : own;
  const bool knows_all = world.size == own.size;  // with those who save, too
  const std::int64_t count =
      knows_all ? counter.since() + (world.rank == 0 ? counter.before() : 0) : counter.known(own);
  const RowRange mine{world.rank, world.replica == 0 ? 1 : 0};
  snapshot.tensor(part_of_loader(name, kCounts), DType::int64, {}, std::span(&mine, 1),
                  bytes_of(std::span(&count, static_cast<std::size_t>(mine.count))));
  save_list(writes_list(own, is_alone) ? counter.skipped().samples : Listed(), kSkipped, snapshot, name);
}

std::int64_t count_skipped(const SavedState& saved) {
  std::int64_t sum = 0;
  if (!saved.has(kCounts)) return sum;
  for (const std::int64_t count : saved.numbers(kCounts, 0)) {
    saved.require(count >= 0 && !__builtin_add_overflow(sum, count, &sum), kCounts,
                  "has a number that cannot be");
  }
  return sum;
}

// What was skipped in the run: nothing where the checkpoint does not say.
SkippedSamples read_skipped(const SavedState& saved, World world, std::int64_t size) {
  SkippedSamples skips{.count = count_skipped(saved)};
  if (saved.has(kCounts)) skips.samples = read_list(saved, kSkipped, world, size, skips.count);
  return skips;
}

// All that could be refused was looked at.
void go_to(Loader& loader, internal::SavedRun saved, SkippedSamples skipped) {
  Behind::of(loader).delivered = saved.run;
  Behind::of(loader).moved("a restore");
  Behind::of(loader).settling.ledger()->restore(std::move(saved.dropped));
  Behind::of(loader).counter.restore(std::move(skipped));
}

// The state of all ranks, where they save together.
std::string whole_state(const Loader& loader, const Snapshot& snapshot) {
  const Communicator& comm = Behind::of(loader).counter.comm();
  const bool is_together = loader.world().size > 1 && comm.world().size == loader.world().size &&
                           !SnapshotAccess::data(snapshot).is_alone();
  if (!is_together) return state(loader);
  std::string own;
  comm.together("save loaders", [&] { own = internal::own_state(loader); });  // which may read samples
  return internal::whole_state(comm, own, loader.world());
}

internal::AskContent content_of(const Loader& loader) {
  if (!loader.options().evaluation) return [&]() -> auto& {
      return Behind::of(loader).content();
    };
  throw Error(ErrorCode::invalid_argument,
              "save or restore a loader: one for evaluation has no state, for it begins anew; leave it out");
}

}  // namespace

namespace internal {

SavedRun as_saved(const Run& run, const Settling& settling, const std::function<std::string()>& whole_state,
                  const AskContent& ask_content) {
  SavedRun saved{run, settling.ledger()->dropped()};  // before they are counted: no more are listed
  if (!settling.is_by_hand()) return saved;
  const SavedState whole(kLoaderKind, whole_state());
  saved.run = moved_to(whole, run, ask_content);
  saved.dropped.counts = drops_in(whole.object());
  return saved;
}

void save_run(const SavedRun& saved, World world, const AskContent& ask_content, const std::string& described,
              Snapshot& snapshot, std::string_view name) {
  checkpoint::SnapshotData& data = SnapshotAccess::data(snapshot);
  if (data.is_alone() && world.rank > 0) {
    throw failure(
        ErrorCode::invalid_argument,
        "save a loader of rank {} of {} into a directory of this process alone: rank 0 saves for all of "
        "them, or all save together into one that they open over their communicator",
        world.rank, world.size);
  }
  const World place = data.is_alone() ? World{} : world;
  RowRange rows = cursor_rows(saved.run, place);
  if (place.replica > 0) rows.count = 0;
  // Named by their numbers, so that two that take themselves for one place are an error and not a longer
  // tensor.
  snapshot.tensor(part_of_loader(name, kCursors), DType::int64, {2}, std::span(&rows, 1),
                  bytes_of(cursors_of(saved.run, rows)));
  OrderedJson json = state_of(saved.run, {}, world.size);
  put_drops(saved.dropped.counts, json);
  if (place.rank == 0) add_content(ask_content(), json);  // the other blobs are not saved
  snapshot.blob(part_of_loader(name, kState), json.dump());
  snapshot.same(fmt::format("loader/{}", name), described + fmt::format("a world of {}", world.size));
  data.share_out(place.size);
  if (saved.dropped.counts.empty()) return;  // on all ranks alike
  save_list(writes_list(world, data.is_alone()) ? saved.dropped.samples : Listed(), kDropped, snapshot, name);
}

SavedRun restored(const SavedState& saved, const Checkpoint& checkpoint, const Run& run, World world,
                  const AskContent& ask_content, std::int64_t added) {
  SavedRun all{moved_to(saved, run, ask_content), {.counts = drops_in(saved.object())}};
  check_cursors(all.run, world, checkpoint, saved, added);
  std::int64_t counted = 0;
  for (const auto& [reason, count] : all.dropped.counts) counted += count;
  if (saved.has(kDropped))  // older ones have counts alone
    all.dropped.samples = read_list(saved, kDropped, world, run.samples(), counted);
  return all;
}

}  // namespace internal

void save(const Loader& loader, Snapshot& snapshot, std::string_view name) {
  const auto& impl = Behind::of(loader);
  const internal::AskContent ask_content = content_of(loader);
  const internal::SavedRun saved = internal::as_saved(
      impl.delivered, impl.settling, [&] { return whole_state(loader, snapshot); }, ask_content);
  internal::save_run(saved, impl.world, ask_content, impl.described(saved.run), snapshot, name);
  save_skipped(loader, snapshot, name, SnapshotAccess::data(snapshot).is_alone());
}

void restore(Loader& loader, const Checkpoint& checkpoint, std::string_view name) {
  const SavedState saved(internal::kLoaderKind, checkpoint, name);
  internal::Renewal renewal(loader, saved);
  auto place = internal::restored(renewal.saved(), checkpoint, renewal.run(), loader.world(),
                                  renewal.ask_content(content_of(loader)), renewal.added());
  auto skipped = read_skipped(saved, loader.world(), renewal.run().samples());
  renewal.take();
  go_to(loader, std::move(place), std::move(skipped));
}

std::string internal::own_state(const Loader& loader) {
  const auto& impl = Behind::of(loader);
  return own_text(impl.delivered, impl.settling, impl.world, impl.counter.known(impl.world),
                  content_of(loader));
}

std::string state(const Loader& loader) {
  return Behind::of(loader).settling.whole_or(internal::own_state(loader));
}

void restore(Loader& loader, std::string_view state) {
  const SavedState saved(internal::kLoaderKind, state);
  const std::int64_t skipped = saved.object().has("skipped") ? saved.object().number("skipped") : 0;
  internal::Renewal renewal(loader, saved);
  Run place = internal::moved_to(renewal.saved(), renewal.run(), renewal.ask_content(content_of(loader)));
  saved.require_digest();
  renewal.take();
  go_to(loader, {place, {.counts = internal::drops_in(saved.object())}}, {.count = skipped});
}

std::string describe_loader(const Checkpoint& checkpoint, std::string_view name) {
  const std::string kind = internal::kind_of_loader(checkpoint, name);
  if (kind == internal::kStreamKind || kind == internal::kDispatchKind) {
    return internal::describe_stream(kind, checkpoint, name);
  }
  const SavedState saved(internal::kLoaderKind, checkpoint, name);
  require_cursors(saved);
  const std::string text = describe(saved.object());
  const std::int64_t skipped = count_skipped(saved);
  return skipped == 0 ? text : fmt::format("{}; bad samples skipped: {}", text, skipped);
}

}  // namespace rota
