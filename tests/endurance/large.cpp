// A tensor of more than 2^31 elements.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

#include "programs.hpp"

namespace rota::test {
namespace {

constexpr std::int64_t kElements = (std::int64_t{1} << 31) + 10;

// One row, or rows of an odd length, of which there are so many that they hold a little more.
struct Shape {
  std::int64_t rows = 1;
  std::int64_t columns = kElements;
};
Shape shape_of(const std::string& rows) {
  if (rows == "one") return {};
  constexpr std::int64_t kColumns = 8191;
  return {.rows = kElements / kColumns + 1, .columns = kColumns};
}

// The eight bytes from `8 * i` on.
std::uint64_t word(std::int64_t i) {
  const auto x = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15U;
  return x ^ (x >> 29);
}

// Bytes [first, first + count).
std::vector<std::byte> make_bytes(std::int64_t first, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  for (std::int64_t at = first; at < first + count;) {
    const std::uint64_t value = word(at / 8);
    const std::int64_t skipped = at % 8;
    const std::int64_t taken = std::min(8 - skipped, first + count - at);
    std::memcpy(bytes.data() + (at - first), reinterpret_cast<const std::byte*>(&value) + skipped,
                static_cast<std::size_t>(taken));
    at += taken;
  }
  return bytes;
}

// All but the last rows are rank 0's; where there is one row, it is. Where rows are to be moved, all but the
// second are rank 1's, and half of them are written by rank 0.
std::vector<rota::RowRange> share_of(const Shape& shape, bool moves, const rota::World& world) {
  if (world.rank > 1) return {};
  if (moves && world.rank == 0) return {{1, 1}};
  if (moves) return {{0, 1}, {2, shape.rows - 2}};
  const std::int64_t others = shape.rows == 1 ? 0 : 7;
  const std::int64_t first = shape.rows - others;
  if (world.rank == 0) return {{0, first}};
  return {{first, others}};
}

void save(rota::CheckpointDirectory& directory, const Shape& shape, bool moves, const rota::World& world) {
  const std::vector<rota::RowRange> share = share_of(shape, moves, world);
  std::vector<std::byte> bytes;
  for (const auto& [first, count] : share) {
    const std::vector<std::byte> part = make_bytes(first * shape.columns, count * shape.columns);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  rota::Snapshot snapshot;
  snapshot.tensor("large", rota::DType::uint8, {shape.columns}, share, std::move(bytes));
  directory.save(1, snapshot);
}

void require_same(const rota::Checkpoint& checkpoint, const Shape& shape, rota::RowRange rows) {
  std::vector<std::byte> found(static_cast<std::size_t>(rows.count * shape.columns));
  checkpoint.read("large", rows, found);
  if (found != make_bytes(rows.first * shape.columns, rows.count * shape.columns)) {
    throw std::runtime_error("rows from " + std::to_string(rows.first) + " on differ");
  }
}

// `latest` verifies all of it, by extents and by rows; here each rank looks at a few rows of its share.
void restore(rota::CheckpointDirectory& directory, const Shape& shape, const rota::World& world) {
  const auto newest = directory.latest();
  if (!newest || newest->tensor("large").shape != std::vector{shape.rows, shape.columns}) {
    throw std::runtime_error("it is not there, or has another shape");
  }
  if (shape.rows == 1) {
    if (world.rank == world.size - 1) require_same(*newest, shape, {0, 1});
    return;
  }
  const std::int64_t first = shape.rows * world.rank / world.size;
  const std::int64_t end = shape.rows * (world.rank + 1) / world.size;
  for (const std::int64_t row : {first, (first + end) / 2, end - 1}) require_same(*newest, shape, {row, 1});
  require_same(*newest, shape, {first, (end - first) / 2});
}

}  // namespace

void run_large(const rota::mpi::Session& session, const Report& report, const Arguments& arguments) {
  const Shape shape = shape_of(arguments.at(3));
  rota::CheckpointDirectory directory(session.comm(), arguments.at(0),
                                      {.writer = writer_of(arguments.at(1))});
  if (arguments.at(2) == "save") {
    save(directory, shape, arguments.at(3) == "moved", session.world());
  } else {
    restore(directory, shape, session.world());
  }
  report.say("ok");
}

}  // namespace rota::test
