#include "resume/skipped.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "loader/access.hpp"
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

void require(bool holds, const Checkpoint& checkpoint, std::string_view tensor, std::string_view what) {
  if (holds) return;
  throw Error(ErrorCode::corrupt,
              fmt::format("restore a loader from {}: tensor \"{}\" of what was skipped {}; take another "
                          "checkpoint",
                          checkpoint.info().path.string(), tensor, what));
}

void require_tensor(const Checkpoint& checkpoint, std::string_view tensor, DType dtype,
                    const std::vector<std::int64_t>& row_shape) {
  require(checkpoint.has_tensor(tensor), checkpoint, tensor, "is missing");
  const TensorInfo& info = checkpoint.tensor(tensor);
  require(info.dtype == dtype && std::ranges::equal(std::span(info.shape).subspan(1), row_shape), checkpoint,
          tensor, "is of another type or shape");
}

/// The listed samples, of which the texts are only read where they are wanted.
class List {
 public:
  List(const Checkpoint& checkpoint, std::string_view name, std::int64_t samples)
      : checkpoint_(checkpoint), list_(list_name(name)), text_(text_name(name)) {
    require_tensor(checkpoint, list_, DType::int64, {kSkippedColumns});
    require_tensor(checkpoint, text_, DType::uint8, {});
    rows_ = checkpoint.read<std::int64_t>(list_);
    const std::int64_t bytes = checkpoint.tensor(text_).rows();
    ends_.push_back(0);
    for (std::int64_t i = 0; i < size(); ++i) {
      const auto row = this->row(i);
      require(row[0] >= 0 && row[1] >= 0 && row[1] < samples, checkpoint, list_,
              "names a sample that is not");
      for (const std::int64_t length : row.subspan(2)) {
        require(length >= 0 && length <= bytes - ends_.back(), checkpoint, list_, "has texts that are not");
        ends_.push_back(ends_.back() + length);
      }
    }
    require(ends_.back() == bytes, checkpoint, text_, "is longer than what is listed");
  }

  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(rows_) / kSkippedColumns; }
  [[nodiscard]] SkippedSample sample(std::int64_t i) const {
    return {.epoch = row(i)[0], .id = {row(i)[1]}, .where = text(2 * i), .error = text(2 * i + 1)};
  }

 private:
  [[nodiscard]] std::span<const std::int64_t> row(std::int64_t i) const noexcept {
    return std::span(rows_).subspan(static_cast<std::size_t>(i * kSkippedColumns), kSkippedColumns);
  }
  [[nodiscard]] std::string text(std::int64_t i) const {
    const std::int64_t begin = ends_[static_cast<std::size_t>(i)];
    std::string text(static_cast<std::size_t>(ends_[static_cast<std::size_t>(i) + 1] - begin), '\0');
    checkpoint_.read(text_, {begin, std::ssize(text)}, std::as_writable_bytes(std::span(text)));
    return text;
  }

  const Checkpoint& checkpoint_;
  std::string list_;
  std::string text_;
  std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> ends_;  // of text after text
};

}  // namespace

void save_skipped(const Loader& loader, Snapshot& snapshot, std::string_view name) {
  const SkipCounter& counter = LoaderAccess::counter(loader);
  if (!counter.skips() && counter.before() == 0) return;  // on all ranks alike
  const World world = loader.world();
  const bool writes = world.replica == 0;
  std::vector<std::int64_t> rows;
  std::string text;
  for (const SkippedSample& sample : counter.skipped().samples) {
    if (!writes) break;
    rows.insert(rows.end(),
                {sample.epoch, sample.id.value, std::ssize(sample.where), std::ssize(sample.error)});
    text += sample.where;
    text += sample.error;
  }
  const std::int64_t count = counter.since() + (world.rank == 0 ? counter.before() : 0);
  const RowRange mine{world.rank, writes ? 1 : 0};
  snapshot.tensor(counts_name(name), DType::int64, {}, std::span(&mine, 1),
                  bytes_of(std::span(&count, static_cast<std::size_t>(mine.count))));
  snapshot.tensor(list_name(name), DType::int64, {kSkippedColumns}, std::ssize(rows) / kSkippedColumns,
                  bytes_of(rows));
  snapshot.tensor(text_name(name), DType::uint8, {}, std::ssize(text), bytes_of(text));
}

std::int64_t count_skipped(const Checkpoint& checkpoint, std::string_view name) {
  const std::string tensor = counts_name(name);
  if (!checkpoint.has_tensor(tensor)) return 0;
  require_tensor(checkpoint, tensor, DType::int64, {});
  std::int64_t sum = 0;
  for (const std::int64_t count : checkpoint.read<std::int64_t>(tensor)) {
    require(count >= 0 && !__builtin_add_overflow(sum, count, &sum), checkpoint, tensor,
            "has a number that cannot be");
  }
  return sum;
}

SavedSkips read_skipped(const Checkpoint& checkpoint, std::string_view name, World world, std::int64_t size) {
  SavedSkips saved{.count = count_skipped(checkpoint, name), .samples = {}};
  if (!checkpoint.has_tensor(counts_name(name))) return saved;
  const List list(checkpoint, name, size);
  require(list.size() <= saved.count, checkpoint, list_name(name), "lists more than were counted");
  const std::int64_t end = share(list.size(), world.rank + 1, world.size);
  for (std::int64_t i = share(list.size(), world.rank, world.size); i < end; ++i) {
    saved.samples.push_back(list.sample(i));
  }
  return saved;
}

}  // namespace rota::internal
