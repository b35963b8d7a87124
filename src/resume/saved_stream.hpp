#pragma once

// What stream loaders of all kinds have in common where their state is saved: a head, as JSON, and tensors
// beside it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "resume/json.hpp"
#include "resume/refusal.hpp"
#include "rota/checkpoint.hpp"
#include "rota/stream_loader.hpp"
#include "stream/stream_state.hpp"

namespace rota::internal {

/// What the state of each kind begins with.
struct StreamHead {
  std::string dataset;  // its fingerprint
  std::int64_t shards = 0;
  std::int64_t cursor_numbers = 0;
  StreamRun run;
  std::int64_t world_size = 0;
  std::int64_t global_batch_size = 0;  // from now on for people; the new program's count
  std::string epochs;
};

[[nodiscard]] StreamHead head_of(const StreamLoader& loader);
/// In a line for people.
[[nodiscard]] std::string describe(const StreamHead& head);
[[nodiscard]] OrderedJson to_json(std::string_view kind, const StreamHead& head);
/// Rows of `columns` numbers each.
[[nodiscard]] OrderedJson to_json(std::span<const std::int64_t> numbers, std::size_t columns);

/// A state as it was saved, of which nothing is believed. Tensors have the names that they have in a
/// checkpoint.
class SavedStream {
 public:
  virtual ~SavedStream() = default;
  SavedStream(const SavedStream&) = delete;
  SavedStream& operator=(const SavedStream&) = delete;

  [[nodiscard]] const Refusal& refusal() const noexcept { return refusal_; }
  [[nodiscard]] StateObject state() const { return {json_, refusal_}; }
  /// Throws Error{corrupt}.
  [[nodiscard]] StreamHead head() const;
  /// Throws Error{mismatch} unless it is of the same source as `loader`.
  void require_same_source(const StreamLoader& loader) const;

  /// All of a tensor int64 [n, columns]. Throws Error{corrupt} where it is another one.
  [[nodiscard]] virtual std::vector<std::int64_t> rows(const std::string& tensor,
                                                       std::size_t columns) const = 0;
  /// Bytes of a tensor uint8.
  [[nodiscard]] virtual std::int64_t bytes(const std::string& tensor) const = 0;
  virtual void read(const std::string& tensor, std::int64_t first, std::span<std::byte> out) const = 0;

 protected:
  /// Throws as `parse_state`.
  SavedStream(std::string_view kind, std::string_view state, std::string from, std::string_view saved);
  [[nodiscard]] const Json& json() const noexcept { return json_; }

 private:
  Refusal refusal_;
  Json json_;
};

class StreamInCheckpoint final : public SavedStream {
 public:
  StreamInCheckpoint(std::string_view kind, const Checkpoint& checkpoint, const std::string& state);
  [[nodiscard]] std::vector<std::int64_t> rows(const std::string& tensor, std::size_t columns) const override;
  [[nodiscard]] std::int64_t bytes(const std::string& tensor) const override;
  void read(const std::string& tensor, std::int64_t first, std::span<std::byte> out) const override;

 private:
  const Checkpoint& checkpoint_;
};

/// Its tensors are in object "tensors", by the last part of their names; those of bytes are base64.
class StreamInText final : public SavedStream {
 public:
  StreamInText(std::string_view kind, std::string_view text);
  [[nodiscard]] std::vector<std::int64_t> rows(const std::string& tensor, std::size_t columns) const override;
  [[nodiscard]] std::int64_t bytes(const std::string& tensor) const override;
  void read(const std::string& tensor, std::int64_t first, std::span<std::byte> out) const override;

 private:
  [[nodiscard]] const std::string& decoded(const std::string& tensor) const;
  mutable std::map<std::string, std::string> decoded_;
};

}  // namespace rota::internal
