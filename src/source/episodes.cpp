#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <unordered_set>

#include "core/failure.hpp"
#include "core/scarce.hpp"
#include "core/wait.hpp"
#include "rota/types.hpp"
#include "rota/windows.hpp"
#include "source/field_check.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kFindingEpisodes = "find episodes";

// The field that numbers them.
std::size_t find_numbers(const std::vector<Field>& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  if (found == fields.end()) {
    throw failure(ErrorCode::not_found, "{}: no field \"{}\"; there are {}", kFindingEpisodes, name,
                  describe(fields));
  }
  const bool is_integer = found->dtype >= DType::int8 && found->dtype <= DType::uint64;
  if (found->ragged || !found->shape.empty() || !is_integer) {
    throw failure(ErrorCode::invalid_argument,
                  "{}: field {} is no integer in each row; name one that is, or give the lengths of episodes",
                  kFindingEpisodes, describe({*found}));
  }
  const auto ragged = std::ranges::find(fields, true, &Field::ragged);
  if (ragged != fields.end()) {
    throw failure(ErrorCode::invalid_argument,
                  "{}: field \"{}\" is ragged, and windows have none that is; leave it out", kFindingEpisodes,
                  ragged->name);
  }
  return static_cast<std::size_t>(found - fields.begin());
}

// Runs of equal numbers.
class Runs {
 public:
  // The number of the next row.
  void add(std::uint64_t number) {
    if (lengths_.empty() || number != number_) {
      if (!seen_.insert(number).second) {
        throw failure(ErrorCode::invalid_argument,
                      "{}: row {} is of an episode that ended before the one at row {}; sort the rows by "
                      "episode, or give the lengths of episodes",
                      kFindingEpisodes, row_, row_ - lengths_.back());
      }
      number_ = number;
      lengths_.push_back(0);
    }
    ++lengths_.back();
    ++row_;
  }
  [[nodiscard]] std::vector<std::int64_t> take() { return std::move(lengths_); }

 private:
  std::int64_t row_ = 0;
  std::uint64_t number_ = 0;  // its bits
  std::vector<std::int64_t> lengths_;
  std::unordered_set<std::uint64_t> seen_;
};

}  // namespace

}  // namespace rota::internal

namespace rota {

std::vector<std::int64_t> episode_lengths(const Source& rows, std::string_view field) {
  using internal::kFindingEpisodes;
  constexpr std::int64_t kMostBytes = std::int64_t{32} << 20;
  constexpr std::int64_t kMostRows = 1 << 16;
  const internal::SourceFacts facts = internal::ask_facts(rows, kFindingEpisodes);
  const std::int64_t size = facts.size;
  const std::vector<Field>& fields = facts.fields;
  const std::size_t f = internal::find_numbers(fields, field);
  const std::int64_t most =
      std::min({size, kMostRows, std::max<std::int64_t>(kMostBytes / internal::fixed_bytes(fields, 1), 1)});
  const auto reach = static_cast<std::size_t>(most);
  std::vector<std::vector<std::byte>> data(fields.size());
  std::vector<BatchView::FieldMemory> memory;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    internal::with_memory([&] { data[i].resize(reach * fields[i].row_bytes()); },
                          [] { return std::string(kFindingEpisodes); });
    memory.push_back({.data = data[i].data(), .row_bytes = fields[i].row_bytes(), .offsets = nullptr});
  }
  internal::Runs runs;
  std::vector<SampleId> ids(reach);
  for (std::int64_t first = 0; first < size; first += most) {
    internal::Wait::here().check();
    ids.resize(static_cast<std::size_t>(std::min(most, size - first)));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = {first + static_cast<std::int64_t>(i)};
    rows.read(ids, BatchView(memory, 0, ids.size()));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::uint64_t number = 0;
      std::memcpy(&number, &data[f][i * fields[f].row_bytes()], fields[f].row_bytes());
      runs.add(number);
    }
  }
  return runs.take();
}

}  // namespace rota
