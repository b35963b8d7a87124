#include "saved_state.hpp"

namespace rota::test {
namespace {

struct Tensor {
  std::string_view name;
  DType dtype;
  bool is_dealt;  // round robin
  std::int64_t columns = 0;
  std::int64_t rows = 0;
  std::int64_t row_bytes() const { return columns * static_cast<std::int64_t>(size_of(dtype)); }
};

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9U;
  return x ^ (x >> 32);
}

// A number below `end` that belongs to `step` and `index`.
std::int64_t drawn(std::int64_t step, std::size_t index, std::int64_t end) {
  const std::uint64_t x = mixed(static_cast<std::uint64_t>(step) * 31 + index + 1);
  return static_cast<std::int64_t>(x % static_cast<std::uint64_t>(end));
}

// The tensors of a step, of shapes of its own.
std::array<Tensor, 4> tensors_of(std::int64_t step, std::int64_t bytes) {
  std::array<Tensor, 4> tensors{Tensor{"model/weight", DType::float64, false},
                                {"loader/main/cursors", DType::int32, true},
                                {"model/wide", DType::uint8, false},
                                {"model/none", DType::int16, true, 7, 0}};
  const std::array most_columns{19, 5, 9000};
  for (std::size_t i = 0; i < most_columns.size(); ++i) {
    tensors.at(i).columns = 1 + drawn(step, i, most_columns.at(i));
    const std::int64_t most_rows = 1 + bytes / 3 / tensors.at(i).row_bytes();
    tensors.at(i).rows = most_rows - drawn(step, i + tensors.size(), 1 + most_rows / 8);
  }
  return tensors;
}

std::vector<std::byte> bytes_of(std::int64_t step, std::size_t index, std::int64_t row_bytes,
                                const std::vector<RowRange>& ranges) {
  std::vector<std::byte> bytes;
  for (const auto& [first, count] : ranges) {
    for (std::int64_t i = 0; i < count * row_bytes; ++i) {
      bytes.push_back(byte_at(step, index, first * row_bytes + i));
    }
  }
  return bytes;
}

// Ranks 0, 1, 2, 3 ... share rows as 3, 0, 1, 2, 3 ... do.
std::int64_t first_row(std::int64_t rows, int rank, int size) {
  const auto weight_before = [](int r) {
    return r / 4 * 6 + std::array{0, 3, 3, 4}.at(static_cast<std::size_t>(r % 4));
  };
  return rows * weight_before(rank) / weight_before(size);
}

std::vector<RowRange> ranges_of(const Tensor& tensor, const World& world) {
  std::vector<RowRange> ranges;
  if (tensor.is_dealt) {
    for (std::int64_t row = world.rank; row < tensor.rows; row += world.size) ranges.push_back({row, 1});
  } else {
    const std::int64_t first = first_row(tensor.rows, world.rank, world.size);
    ranges.push_back({first, first_row(tensor.rows, world.rank + 1, world.size) - first});
  }
  return ranges;
}

std::string blob_of(std::int64_t step) {
  std::string blob = fmt::format("step {}", step);
  for (std::int64_t i = 0; i < 3000; ++i) blob += static_cast<char>(byte_at(step, 9, i));
  return blob;
}

std::string rank_blob_of(std::int64_t step, int rank) {
  return fmt::format("rank {} at step {}", rank, step);
}

}  // namespace

std::byte byte_at(std::int64_t step, std::size_t index, std::int64_t at) {
  return static_cast<std::byte>(mixed(static_cast<std::uint64_t>(at) +
                                      (static_cast<std::uint64_t>(index) << 36) +
                                      (static_cast<std::uint64_t>(step) << 40)) >>
                                24);
}

void add_state(Snapshot& snapshot, std::int64_t step, const World& world, std::int64_t bytes) {
  const auto tensors = tensors_of(step, bytes);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors.at(i);
    const std::vector<RowRange> ranges = ranges_of(tensor, world);
    std::vector<std::byte> data = bytes_of(step, i, tensor.row_bytes(), ranges);
    if (tensor.is_dealt) {
      snapshot.tensor(tensor.name, tensor.dtype, {tensor.columns}, ranges, std::move(data));
    } else {
      snapshot.tensor(tensor.name, tensor.dtype, {tensor.columns}, ranges.front().count, std::move(data));
    }
  }
  snapshot.blob("state", blob_of(step));
  snapshot.rank_blob("rng", rank_blob_of(step, world.rank));
}

Snapshot make_state(std::int64_t step, const World& world, std::int64_t bytes) {
  Snapshot snapshot;
  add_state(snapshot, step, world, bytes);
  return snapshot;
}

std::string difference(const Checkpoint& checkpoint, std::int64_t bytes) {
  const auto& info = checkpoint.info();
  const auto tensors = tensors_of(info.step, bytes);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, dtype, is_dealt, columns, rows] = tensors.at(i);
    if (checkpoint.tensor(name).shape != std::vector{rows, columns})
      return fmt::format("{} has another shape", name);
    const RowRange all{0, rows};
    std::vector<std::byte> found(static_cast<std::size_t>(rows * tensors.at(i).row_bytes()));
    checkpoint.read(name, all, found);
    if (found != bytes_of(info.step, i, tensors.at(i).row_bytes(), {all}))
      return fmt::format("{} differs", name);
  }
  if (checkpoint.blob("state") != blob_of(info.step)) return "the blob of the job differs";
  for (int rank = 0; rank < info.world_size; ++rank) {
    const auto blob = checkpoint.rank_blob("rng", {.rank = rank, .size = info.world_size});
    if (blob != rank_blob_of(info.step, rank)) return fmt::format("the blob of rank {} differs", rank);
  }
  return {};
}

}  // namespace rota::test
