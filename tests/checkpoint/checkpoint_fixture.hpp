#pragma once

// What the tests of checkpoints share: a directory that is removed again, and tensors whose every byte
// depends on their name and row.

#include "source/reading.hpp"

namespace rota::test {

using Bytes = std::vector<std::byte>;

/// Rows [first, first + count) of a tensor: byte j of row i is the same whoever makes it.
inline Bytes make_rows(std::int64_t first, std::int64_t count, std::size_t row_bytes, unsigned salt = 0) {
  Bytes bytes(static_cast<std::size_t>(count) * row_bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto at = static_cast<std::uint64_t>(first) * row_bytes + i + salt;
    bytes[i] = static_cast<std::byte>((at * 0x9E3779B97F4A7C15U) >> 53);
  }
  return bytes;
}

inline Bytes make_rows(const std::vector<RowRange>& ranges, std::size_t row_bytes) {
  Bytes bytes;
  for (const auto& [first, count] : ranges) {
    const Bytes rows = make_rows(first, count, row_bytes);
    bytes.insert(bytes.end(), rows.begin(), rows.end());
  }
  return bytes;
}

inline Bytes read_rows(const Checkpoint& checkpoint, std::string_view name, RowRange rows,
                       std::size_t row_bytes) {
  Bytes bytes(static_cast<std::size_t>(rows.count) * row_bytes);
  checkpoint.read(name, rows, bytes);
  return bytes;
}

/// A test of one process in a directory of its own, without MPI.
class CheckpointTest : public Test {
 protected:
  CheckpointDirectory open(CheckpointPolicy policy = {}) { return {{}, path_, policy}; }

  TemporaryDirectory directory_;
  fs::path path_ = directory_.path();
};

}  // namespace rota::test
