#pragma once

// What stream loaders of all kinds have in common where their state is saved: a head, as JSON, and tensors
// beside it. Tensors go here by the last part of the names that they have in a checkpoint.

#include <algorithm>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "resume/json.hpp"
#include "rota/checkpoint.hpp"
#include "rota/snapshot.hpp"
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
void save(const StreamParts& parts, Snapshot& snapshot, std::string_view name);
/// **Collective.** What `make` makes on all ranks, as a text. Throws as StreamLoader::Impl::gather.
[[nodiscard]] std::string gather_text(const StreamLoader& loader, const std::function<StreamParts()>& make);

/// A state as it was saved, of which nothing is believed.
class SavedStream {
 public:
  /// In a checkpoint, which must outlive it. Throws as `parse_state`.
  SavedStream(std::string_view kind, const Checkpoint& checkpoint, std::string_view name);
  /// In a text, where tensors are in object "tensors", those of bytes as base64. The same, and
  /// Error{corrupt} for a wrong digest.
  SavedStream(std::string_view kind, std::string_view text);
  SavedStream(const SavedStream&) = delete;
  SavedStream& operator=(const SavedStream&) = delete;

  [[nodiscard]] const Refusal& refusal() const noexcept { return refusal_; }
  [[nodiscard]] StateObject state() const { return {json_, refusal_}; }
  /// Throws Error{corrupt}.
  [[nodiscard]] StreamHead head() const;
  /// Throws Error{mismatch} unless it is of the same source as `loader`.
  void require_same_source(const StreamLoader& loader) const;

  /// All of a tensor int64 [n, columns]. Throws Error{corrupt} where it is another one.
  [[nodiscard]] std::vector<std::int64_t> numbers(std::string_view tensor, std::size_t columns) const;
  /// The same as a struct of numbers for each row.
  template <typename Row>
  [[nodiscard]] std::vector<Row> rows(std::string_view tensor) const {
    const auto all = numbers(tensor, sizeof(Row) / sizeof(std::int64_t));
    std::vector<Row> rows(all.size() * sizeof(std::int64_t) / sizeof(Row));
    std::ranges::copy(std::as_bytes(std::span(all)), std::as_writable_bytes(std::span(rows)).begin());
    return rows;
  }
  /// Bytes of a tensor uint8.
  [[nodiscard]] std::int64_t bytes(std::string_view tensor) const;
  void read(std::string_view tensor, std::int64_t first, std::span<std::byte> out) const;

 private:
  [[nodiscard]] const std::string& decoded(std::string_view tensor) const;

  const Checkpoint* checkpoint_ = nullptr;  // null: it is a text
  std::string name_;
  Refusal refusal_;
  Json json_;
  mutable std::map<std::string, std::string, std::less<>> decoded_;  // tensors of bytes, of a text
};

/// What `describe_loader` says of one of this kind.
[[nodiscard]] std::string describe_stream(std::string_view kind, const Checkpoint& checkpoint,
                                          std::string_view name);

/// What this rank saves of a loader that is dispatched to.
[[nodiscard]] StreamParts parts_of_dispatch(const StreamLoader& loader);
/// Throws Error{mismatch} where it is of another source than `loader`'s, Error{corrupt}; moves nothing then.
void restore_dispatch(StreamLoader& loader, const SavedStream& saved);

}  // namespace rota::internal
