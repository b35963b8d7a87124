#include "rota/types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "core/option.hpp"
#include "rota/worker.hpp"

namespace rota {
namespace {

using internal::kShuffles;
using internal::kSplits;
using internal::kTails;

template <typename Enum>
std::string_view name_of(std::span<const std::string_view> names, Enum value) noexcept {
  const auto i = static_cast<std::size_t>(value);
  return i < names.size() ? names[i] : "unknown";
}

std::size_t find(std::string_view what, std::span<const std::string_view> names, std::string_view text) {
  const auto found = std::ranges::find(names, text);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  throw internal::failure(ErrorCode::invalid_argument, "read {} \"{}\": it must be one of {}", what, text,
                          fmt::join(names, ", "));
}

}  // namespace

std::string to_string(const StreamId& id) {
  return fmt::format("{}:{}:{}", id.shard.value, id.input, id.output);
}

StreamId parse_stream_id(std::string_view text) {
  std::array<std::int64_t, 3> numbers{};
  const char* at = text.data();
  const char* const last = text.data() + text.size();
  bool is_good = true;
  for (std::size_t i = 0; i < numbers.size() && is_good; ++i) {
    if (i > 0) is_good = at != last && *at++ == ':';
    const auto [end, error] = std::from_chars(at, last, numbers[i]);
    is_good = is_good && error == std::errc() && numbers[i] >= 0;
    at = end;
  }
  if (is_good && at == last) return {.shard = {numbers[0]}, .input = numbers[1], .output = numbers[2]};
  throw internal::failure(
      ErrorCode::invalid_argument,
      "read a stream id \"{}\": it must be \"shard:input:output\", three numbers from 0 on", text);
}

std::string_view to_string(ErrorCode code) noexcept { return name_of(internal::kErrorCodes, code); }
std::string_view to_string(Shuffle shuffle) noexcept { return name_of(kShuffles, shuffle); }
std::string_view to_string(Tail tail) noexcept { return name_of(kTails, tail); }
std::string_view to_string(Split split) noexcept { return name_of(kSplits, split); }

Shuffle parse_shuffle(std::string_view text) {
  return static_cast<Shuffle>(find("shuffle", kShuffles, text));
}
Tail parse_tail(std::string_view text) { return static_cast<Tail>(find("tail", kTails, text)); }
Split parse_split(std::string_view text) { return static_cast<Split>(find("split", kSplits, text)); }

ShardList::ShardList(std::vector<ShardId> shards) : listed_(std::move(shards)), size_(std::ssize(listed_)) {
  std::ranges::sort(listed_);
}

ShardList ShardList::every(std::int64_t stride, std::int64_t first, std::int64_t total) {
  internal::OptionCheck("list shards").in_range("stride", stride, 1);
  ShardList list;
  list.first_ = first;
  list.stride_ = stride;
  list.size_ = first < total ? (total - first - 1) / stride + 1 : 0;
  return list;
}

bool ShardList::contains(ShardId shard) const noexcept {
  if (!listed_.empty()) return std::ranges::binary_search(listed_, shard);
  const std::int64_t past = shard.value - first_;
  return past >= 0 && past % stride_ == 0 && past / stride_ < size_;
}

bool operator==(const ShardList& a, const ShardList& b) noexcept {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

}  // namespace rota
