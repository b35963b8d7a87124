#include "core/option.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

// As people write it where it is a bound: "4096", "2^31 - 1".
std::string bound_text(std::int64_t bound) {
  constexpr std::int64_t kLong = std::int64_t{1} << 20;
  const auto power = static_cast<std::uint64_t>(bound);
  if (bound >= kLong && std::has_single_bit(power)) return fmt::format("2^{}", std::countr_zero(power));
  if (bound >= kLong && std::has_single_bit(power + 1))
    return fmt::format("2^{} - 1", std::countr_one(power));
  return std::to_string(bound);
}

}  // namespace

void OptionCheck::in_range(std::string_view option, std::int64_t value, std::int64_t least, std::int64_t most,
                           std::string_view note) const {
  if (value >= least && value <= most) return;
  const std::string last = most == kUnbounded ? "or more" : "to " + bound_text(most);
  refuse(option, std::to_string(value),
         fmt::format("{} {}{}", least, last, note.empty() ? "" : fmt::format(" ({})", note)));
}

void OptionCheck::in_range(std::string_view option, std::chrono::milliseconds value,
                           std::chrono::milliseconds most, std::string_view note) const {
  if (value.count() >= 0 && value <= most) return;
  const auto seconds = [](std::chrono::milliseconds time) {
    return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
  };
  refuse(option, seconds(value),
         (most == kUnboundedTime ? "0 s or more" : "0 to " + seconds(most)) +
             (note.empty() ? "" : fmt::format(" ({})", note)));
}

void OptionCheck::refuse_unless_one_of(std::string_view option, std::int64_t value,
                                       std::span<const std::string_view> names) const {
  if (value >= 0 && value < std::ssize(names)) return;
  refuse(option, fmt::format("number {}", value), fmt::format("one of {}", fmt::join(names, ", ")));
}

void OptionCheck::refuse(std::string_view option, std::string_view value, std::string_view range) const {
  throw failure(ErrorCode::invalid_argument, "{}: {} is {}; it must be {}", task_, option, value, range);
}

}  // namespace rota::internal
