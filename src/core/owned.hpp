#pragma once

// What objects that can be moved own, and are without once they were moved from.

#include <memory>
#include <string_view>

#include "core/failure.hpp"
#include "rota/world.hpp"

namespace rota::internal {

/// Throws Error{invalid_argument}: `what` is empty, or was moved from.
[[noreturn]] inline void refuse_empty(std::string_view what) {
  throw failure(ErrorCode::invalid_argument,
                "use {}: it is empty, or was moved from; use the one that it was moved to", what);
}

/// Frees what a C library made, for std::unique_ptr.
template <auto release>
struct FreeBy {
  void operator()(auto* made) const noexcept { release(made); }
};

/// What `owner` points to, on behalf of `what`. Throws Error{invalid_argument} naming it where that is
/// nothing.
template <typename Pointer>
auto& owned(const Pointer& owner, std::string_view what) {
  if (!owner) refuse_empty(what);
  return *owner;
}
/// Throws Error{unsupported} in a forked child of the process that made `what`.
inline void require_here(const DeleteWhereMade& made, std::string_view what) {
  if (made.is_here()) return;
  throw failure(ErrorCode::unsupported,
                "use {} in process {}, which was forked of process {} that made it: its threads and files "
                "are that one's; make another one in this process",
                what, this_process(), made.maker);
}
/// As `owned`, of what has threads, locks or files of its own: throws as `require_here`, too.
template <typename T>
T& owned(const std::unique_ptr<T, DeleteWhereMade>& owner, std::string_view what) {
  if (!owner) refuse_empty(what);
  require_here(owner.get_deleter(), what);
  return *owner;
}

struct Behind {
  template <typename T>
  [[nodiscard]] static auto& of(const T& loader) {
    return loader.impl();
  }
  template <typename T>
  [[nodiscard]] static auto& owner(T& loader) noexcept {
    return loader.impl_;
  }
};

}  // namespace rota::internal
