#include "resume/skipped.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "loader/loader_impl.hpp"
#include "resume/json.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kSkippedColumns = 4;  // epoch, id, bytes of the place, bytes of the error

std::string counts_name(std::string_view name) { return part_of_loader(name, "skipped_counts"); }
std::string list_name(std::string_view name) { return part_of_loader(name, "skipped"); }
std::string text_name(std::string_view name) { return part_of_loader(name, "skipped_text"); }

template <typename T>
std::vector<std::byte> bytes_of(const T& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// The rows of all listed samples, and where their texts end, one after the other.
struct List {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> ends{0};
  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(rows) / kSkippedColumns; }
};

// Of a dataset of so many samples.
List read_list(const Checkpoint& checkpoint, std::string_view name, std::int64_t samples,
               const Refusal& refusal) {
  const std::string tensor = list_name(name);
  const std::string texts = text_name(name);
  refusal.require_tensor(checkpoint, tensor, DType::int64, {kSkippedColumns});
  refusal.require_tensor(checkpoint, texts, DType::uint8, {});
  const std::int64_t bytes = checkpoint.tensor(texts).rows();
  List list{.rows = checkpoint.read<std::int64_t>(tensor)};
  for (auto row = std::span(list.rows); !row.empty(); row = row.subspan(kSkippedColumns)) {
    refusal.require(row[0] >= 0 && row[1] >= 0 && row[1] < samples, tensor, "names a sample that is not");
    for (const std::int64_t length : row.subspan(2, 2)) {
      refusal.require(length >= 0 && length <= bytes - list.ends.back(), tensor, "has texts that are not");
      list.ends.push_back(list.ends.back() + length);
    }
  }
  refusal.require(list.ends.back() == bytes, texts, "is longer than what is listed");
  return list;
}

}  // namespace

void save_skipped(const Loader& loader, Snapshot& snapshot, std::string_view name, bool is_alone) {
  const SkipCounter& counter = loader.impl().counter;
  if (!counter.skips() && counter.before() == 0) return;  // on all ranks alike
  const World own = loader.world();
  const World world = is_alone ? World{} : own;
  const bool knows_all = world.size == own.size;  // with those who save, too
  const bool writes = world.replica == 0;
  std::vector<std::int64_t> rows;
  std::string text;
  for (const SkippedSamples::Sample& sample : counter.skipped().samples) {
    if (!writes || !knows_all) break;
    rows.insert(rows.end(),
                {sample.epoch, sample.id.value, std::ssize(sample.where), std::ssize(sample.error)});
    text += sample.where;
    text += sample.error;
  }
  const std::int64_t count =
      knows_all ? counter.since() + (world.rank == 0 ? counter.before() : 0) : counter.known(own);
  const RowRange mine{world.rank, writes ? 1 : 0};
  snapshot.tensor(counts_name(name), DType::int64, {}, std::span(&mine, 1),
                  bytes_of(std::span(&count, static_cast<std::size_t>(mine.count))));
  snapshot.tensor(list_name(name), DType::int64, {kSkippedColumns}, std::ssize(rows) / kSkippedColumns,
                  bytes_of(rows));
  snapshot.tensor(text_name(name), DType::uint8, {}, std::ssize(text), bytes_of(text));
}

std::int64_t count_skipped(const Checkpoint& checkpoint, std::string_view name, const Refusal& refusal) {
  const std::string tensor = counts_name(name);
  if (!checkpoint.has_tensor(tensor)) return 0;
  refusal.require_tensor(checkpoint, tensor, DType::int64, {});
  std::int64_t sum = 0;
  for (const std::int64_t count : checkpoint.read<std::int64_t>(tensor)) {
    refusal.require(count >= 0 && !__builtin_add_overflow(sum, count, &sum), tensor,
                    "has a number that cannot be");
  }
  return sum;
}

SavedSkips read_skipped(const Checkpoint& checkpoint, std::string_view name, World world, std::int64_t size,
                        const Refusal& refusal) {
  SavedSkips saved{.count = count_skipped(checkpoint, name, refusal), .samples = {}};
  if (!checkpoint.has_tensor(counts_name(name))) return saved;
  const List list = read_list(checkpoint, name, size, refusal);
  refusal.require(list.size() <= saved.count, list_name(name), "lists more than were counted");
  const auto first = static_cast<std::size_t>(share(list.size(), world.rank, world.size));
  const auto end = static_cast<std::size_t>(share(list.size(), world.rank + 1, world.size));
  const std::int64_t begin = list.ends[2 * first];
  std::string texts(static_cast<std::size_t>(list.ends[2 * end] - begin), '\0');
  checkpoint.read(text_name(name), {begin, std::ssize(texts)}, std::as_writable_bytes(std::span(texts)));
  const auto text = [&](std::size_t i) {
    return texts.substr(static_cast<std::size_t>(list.ends[i] - begin),
                        static_cast<std::size_t>(list.ends[i + 1] - list.ends[i]));
  };
  for (std::size_t i = first; i < end; ++i) {
    const std::int64_t* const row = &list.rows[i * kSkippedColumns];
    saved.samples.push_back(
        {.epoch = row[0], .id = {row[1]}, .where = text(2 * i), .error = text(2 * i + 1)});
  }
  return saved;
}

}  // namespace rota::internal
