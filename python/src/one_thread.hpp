#pragma once

// Objects of rota for one thread at a time, which Python's threads need not be.

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <atomic>
#include <memory>
#include <utility>

#include "communicator.hpp"
#include "errors.hpp"
#include "rota/error.hpp"
#include "source.hpp"

namespace rota::python {

/// An object that works without the GIL, and dies without it.
template <typename T>
class OneThread {
 public:
  /// `name` is what errors call it; `needs_mpi`, whether it is of several processes.
  OneThread(const char* name, std::shared_ptr<T> object, bool needs_mpi)
      : name_(name), object_(dies_without_gil(std::move(object))), needs_mpi_(needs_mpi) {}

  /// What `work` makes of the object, without the GIL. Throws Error{busy} while another call is under way: of
  /// another thread, or of a signal handler or callback inside of that call.
  template <typename Work>
  auto use(const Work& work) {
    const Use use(*this);
    if (!object_) throw Error(ErrorCode::invalid_argument, fmt::format("use {}: it was closed", name_));
    if (needs_mpi_) require_no_end(fmt::format("use {}", name_));
    const Unlocked unlocked;
    bury_the_dead();
    return work(*object_);
  }

  void close() {
    const Use use(*this);
    object_.reset();
  }
  /// Closes, and leaves the object to the end of the process.
  void abandon() {
    const Use use(*this);
    static_cast<void>(new std::shared_ptr<T>(std::move(object_)));
  }
  [[nodiscard]] bool is_closed() const noexcept { return !object_; }

 private:
  class Use {
   public:
    explicit Use(OneThread& owner) : owner_(owner) {
      if (!owner.in_use_.exchange(true)) return;
      throw Error(
          ErrorCode::busy,
          fmt::format("use {}: a call of it is under way, in another thread, or around this signal handler "
                      "or callback; one thread at a time uses it",
                      owner.name_));
    }
    ~Use() { owner_.in_use_ = false; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    OneThread& owner_;
  };

  const char* name_;
  std::shared_ptr<T> object_;
  bool needs_mpi_;
  std::atomic<bool> in_use_ = false;
};

/// A method of T as one of OneThread<T>.
template <typename T, typename Result, typename... Arguments>
auto in_turn(Result (T::*method)(Arguments...)) {
  return [method](OneThread<T>& self, Arguments... arguments) {
    return self.use([&](T& object) { return (object.*method)(arguments...); });
  };
}
template <typename T, typename Result, typename... Arguments>
auto in_turn(Result (T::*method)(Arguments...) const) {
  return [method](OneThread<T>& self, Arguments... arguments) {
    return self.use([&](const T& object) { return (object.*method)(arguments...); });
  };
}

}  // namespace rota::python
