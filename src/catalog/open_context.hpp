#pragma once

// Who opens a dataset together, which progress they report, and what they send one another, and formats keep
// of its files, as bytes.

#include <atomic>
#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ranks/collectives.hpp"
#include "ranks/nodes.hpp"
#include "rota/catalog.hpp"
#include "rota/cereal.hpp"

namespace rota::internal {

/// One task's progress. Any thread counts; the caller's thread reports.
class ProgressReporter {
 public:
  /// `report` must outlive it; it may be null. `total` 0: not known.
  ProgressReporter(const ProgressFunction& report, std::string_view task, std::int64_t total,
                   std::string_view unit = "files") noexcept
      : report_(report), task_(task), total_(total), unit_(unit) {}

  /// `looks`: as `look`, which other threads must not.
  void add(std::int64_t done, bool looks = true) {
    done_.fetch_add(done, std::memory_order_relaxed);
    if (looks) look();
  }
  /// Reports, if it is time to. Throws what the function does.
  void look() {
    if (report_ && Clock::now() >= next_) send(false);
  }
  void end() {
    if (report_) send(true);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kBetween{100};

  void send(bool is_over) {
    const auto now = Clock::now();
    next_ = now + kBetween;
    report_({.task = task_,
             .done = done_.load(std::memory_order_relaxed),
             .total = total_,
             .seconds = std::chrono::duration<double>(now - start_).count(),
             .is_over = is_over,
             .unit = unit_});
  }

  const ProgressFunction& report_;
  std::string_view task_;
  std::int64_t total_;
  std::string_view unit_;
  std::atomic<std::int64_t> done_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_ + kBetween;
};

/// The ranks that open a dataset together, with how many threads each, and which progress they report.
struct OpenContext {
  /// **Collective.** Throws as how.validate() does.
  OpenContext(const Communicator& comm, CatalogOptions how);

  CatalogOptions options;
  ranks::Nodes nodes;
};

/// **Collective** over `context`. What `make` returns here; throws on all ranks what it throws on one.
template <typename Make>
auto made_together(const OpenContext& context, std::string_view phase, Make&& make) {
  std::optional<decltype(make())> made;
  context.nodes.all().together(phase, [&] { made.emplace(make()); });
  return std::move(*made);
}

template <typename T>
std::vector<std::byte> serialize(const T& value) {
  const std::string blob = to_blob(value);
  const auto bytes = std::as_bytes(std::span(blob));
  return {bytes.begin(), bytes.end()};
}

/// The other way round. Throws as from_blob does.
template <typename T>
T deserialize(std::span<const std::byte> bytes) {
  return from_blob<T>({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// Bytes, filled up to a multiple of eight.
constexpr std::size_t filled_up(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

/// **Collective** over `context`. What `make` returns on rank 0, on all. Throws on all what it throws.
template <typename Make>
auto made_on_first_rank(const OpenContext& context, std::string_view phase, Make&& make) {
  return from_blob<decltype(make())>(
      ranks::on_first_rank(context.nodes.all(), phase, [&] { return to_blob(make()); }));
}

}  // namespace rota::internal
