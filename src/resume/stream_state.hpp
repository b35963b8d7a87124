#pragma once

// What stream loaders of all kinds have in common where their state is saved: a head, as JSON, and tensors
// beside it.

#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "resume/saved_state.hpp"
#include "rota/checkpoint.hpp"
#include "rota/stream_loader.hpp"
#include "stream/stream_loader_impl.hpp"

namespace rota::internal {

/// What the state of each kind begins with: source, position and run.
[[nodiscard]] OrderedJson new_stream_state(std::string_view kind, const StreamLoader& loader);
/// The numbers of it that are reckoned with.
struct StreamHead {
  std::int64_t shards = 0;
  std::int64_t cursor_numbers = 0;
  StreamRun run;
  std::int64_t world_size = 0;
};

/// What a rank adds to a tensor.
struct TensorPart {
  std::string name;
  std::int64_t columns = 0;  // int64 [rows, columns]; 0: uint8 [bytes]
  bool has_rows = false;     // else its rows follow those of the ranks before it
  std::vector<std::int64_t> rows = {};
  std::string data = {};

  [[nodiscard]] std::int64_t row_bytes() const noexcept { return columns == 0 ? 1 : columns * 8; }
  void append(std::span<const std::byte> bytes) {
    data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(name, columns, has_rows, rows, data);
  }
};

/// What a rank saves: the same tensors on all ranks. The head is rank 0's.
struct StreamParts {
  std::string head;
  std::vector<TensorPart> tensors;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(head, tensors);
  }
};

/// Throws Error{corrupt}.
[[nodiscard]] StreamHead head_of(const SavedState& saved);
/// Throws Error{mismatch} unless it is of the same source as `loader`.
void require_same_source(const SavedState& saved, const StreamLoader& loader);

/// What `describe_loader` says of one of this kind.
[[nodiscard]] std::string describe_stream(std::string_view kind, const Checkpoint& checkpoint,
                                          std::string_view name);

/// What this rank saves of a loader that is dispatched to.
[[nodiscard]] StreamParts parts_of_dispatch(const StreamLoader& loader);
/// Throws Error{mismatch} where it is of another source than `loader`'s, Error{corrupt}; moves nothing then.
void restore_dispatch(StreamLoader& loader, const SavedState& saved);

}  // namespace rota::internal
