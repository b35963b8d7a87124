#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace rota::internal {

/// The most threads that any option may ask for.
inline constexpr std::int64_t kMaxThreads = 4096;

/// No upper bound.
inline constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();
inline constexpr std::chrono::milliseconds kUnboundedTime = std::chrono::milliseconds::max();

/// Refuses values that an option cannot have, all in the same words, as in "make a loader: shards is 0; it
/// must be 1 to 2^24": Error{invalid_argument}.
class OptionCheck {
 public:
  /// `task` begins each message.
  explicit constexpr OptionCheck(std::string_view task) noexcept : task_(task) {}

  /// `note` says what a value means, or its unit: "0 = all".
  void in_range(std::string_view option, std::int64_t value, std::int64_t least,
                std::int64_t most = kUnbounded, std::string_view note = {}) const;
  /// From 0 on, shown in seconds, as Python has them.
  void in_range(std::string_view option, std::chrono::milliseconds value, std::chrono::milliseconds most,
                std::string_view note = {}) const;
  /// `names` are those of all enumerators, in order from 0 on.
  template <typename Enum>
  void one_of(std::string_view option, Enum value, std::span<const std::string_view> names) const {
    refuse_unless_one_of(option, static_cast<std::int64_t>(value), names);
  }
  [[noreturn]] void refuse(std::string_view option, std::string_view value, std::string_view range) const;

 private:
  void refuse_unless_one_of(std::string_view option, std::int64_t value,
                            std::span<const std::string_view> names) const;

  std::string_view task_;
};

}  // namespace rota::internal
