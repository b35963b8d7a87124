#include "source/window_shape.hpp"

#include <fmt/format.h>

#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "core/option.hpp"
#include "order/permutation.hpp"
#include "rota/types.hpp"

namespace rota::internal {

std::int64_t WindowShape::own_in(std::int64_t epoch, std::int64_t id, std::int64_t window,
                                 std::int64_t rows_of_part) const noexcept {
  if (!moves()) return own(window);
  __extension__ using u128 = unsigned __int128;
  const Reach within = reach(window, rows_of_part);
  const auto rows = static_cast<std::uint64_t>(within.last - within.first + 1);
  const std::uint64_t drawn = derive_key(options_.seed, epoch, Purpose::jitter, id).low;
  return within.first + static_cast<std::int64_t>(u128{drawn} * rows >> 64U);
}

double WindowShape::rows_around() const noexcept {
  const double moves = 2 * static_cast<double>(options_.jitter) + 1;
  const double span = static_cast<double>(offset(rows() - 1)) - static_cast<double>(offset(0));
  return std::min(span + moves, static_cast<double>(rows()) * moves);
}

}  // namespace rota::internal

namespace rota {

void WindowOptions::validate() const {
  constexpr internal::OptionCheck kCheck(internal::kMakingWindows);
  if (offsets.empty()) kCheck.in_range("length", length, 1, internal::kUnbounded, "rows");
  kCheck.in_range("stride", stride, 1, internal::kUnbounded, "rows");
  kCheck.one_of("edges", edges, internal::kEdges);
  if (!offsets.empty() && length != 0) {
    throw internal::failure(ErrorCode::invalid_argument,
                            "make windows: length is {}, and there are offsets, which alone say what rows a "
                            "window has; give one of both",
                            length);
  }
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    kCheck.in_range("offsets", offsets[i], -kMaxCount, kMaxCount);
    if (i == 0 || offsets[i - 1] < offsets[i]) continue;
    kCheck.refuse("offsets", fmt::format("{} behind {}", offsets[i], offsets[i - 1]), "rising, each once");
  }
  kCheck.in_range("jitter", jitter, 0, std::int64_t{1} << 31, "rows");
  for (const std::int64_t episode : episodes) kCheck.in_range("episodes", episode, 0, kMaxCount, "rows each");
  if (across_files && !episodes.empty()) {
    throw internal::failure(ErrorCode::invalid_argument,
                            "make windows: there are episodes, which no window crosses, and across_files is "
                            "set; give one of both");
  }
}

}  // namespace rota
