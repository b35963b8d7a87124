#pragma once

// What objects of Python hold: sources, communicators, checkpoints, and what is for one thread at a time.

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "lifetime.hpp"
#include "ranks/collectives.hpp"
#include "rota/checkpoint.hpp"
#include "rota/snapshot.hpp"
#include "rota/source.hpp"
#include "rota/stream.hpp"
#include "rota/world.hpp"

namespace rota::python {

namespace py = pybind11;

/// A source, and how to make it again in another process, which Python sets. That is no attribute of a
/// dictionary: pybind11 2.10 does not hide objects with one from the collector while they die.
struct PySource {
  explicit PySource(std::shared_ptr<const Source> made) : source(dies_without_gil(std::move(made))) {}
  std::shared_ptr<const Source> source;
  Shared recipe = {};  // of none, where it is made without the GIL
};

/// A source of streams: a user's own, or one that is made of others.
struct PyStreamSource {
  explicit PyStreamSource(std::shared_ptr<const StreamSource> made)
      : source(dies_without_gil(std::move(made))) {}
  std::shared_ptr<const StreamSource> source;
};

/// What the communicator or group of a user was duplicated to, or a world of one. Collective calls take it.
class PyCommunicator {
 public:
  explicit PyCommunicator(Communicator comm)
      : comm_(dies_without_gil(std::make_shared<const Communicator>(std::move(comm)))) {}

  /// Throws Error{invalid_argument} where it was closed, or what it runs on has ended.
  [[nodiscard]] std::shared_ptr<const Communicator> get() const;
  void close() { comm_.reset(); }

 private:
  std::shared_ptr<const Communicator> comm_;
};

/// That of `comm`; where there is none, this process alone.
[[nodiscard]] std::shared_ptr<const Communicator> ranks_of(const PyCommunicator* comm);

/// Throws Error{invalid_argument} where what ranks run on has ended; `what` begins the message.
using HasEnded = ranks::Transport::HasEnded;
void require_no_end(HasEnded has_ended, std::string_view what);

/// What a dataset of `size` samples is known by: `given` itself, where it is a fingerprint's 32 digits.
std::optional<Fingerprint> to_fingerprint(const std::optional<std::string>& given, std::int64_t size);

/// The text in what `state_dict` returned. Throws Error{invalid_argument} for anything else.
std::string state_text(py::handle state);

/// A checkpoint that was opened to be read, as loaders of any kind do by `_restore_from`.
struct PyCheckpoint {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::optional<World> world = {};  ///< of those that opened it together
};

/// An object for one thread at a time, which Python's threads need not be. It works without the GIL, and dies
/// without it.
template <typename T>
class OneThread {
 public:
  /// `name` is what errors call it; `has_ended`, of its communicator.
  OneThread(const char* name, std::shared_ptr<T> object, HasEnded has_ended)
      : name_(name), object_(dies_without_gil(std::move(object))), has_ended_(has_ended) {}

  /// One that `make` makes, with the GIL, when it is used first.
  OneThread(const char* name, std::function<std::unique_ptr<OneThread>()> make)
      : name_(name), has_ended_(nullptr), make_(std::move(make)) {}

  /// What `work` makes of the object, without the GIL. Throws Error{busy} while another call is under way: of
  /// another thread, or of a signal handler or callback inside of that call. Other threads' calls that are
  /// `brief` wait for their turn, and are waited for: so that one may ask for a state while another reads.
  template <typename Work>
  auto use(const Work& work, bool is_brief = false) {
    const Use use(*this, is_brief);
    const TurnGivenUp others;
    if (make_) take(*make_());
    if (!object_) throw internal::failure(ErrorCode::invalid_argument, "use {}: it was closed", name_);
    require_no_end(has_ended_, fmt::format("use {}", name_));
    const Unlocked unlocked;
    bury_the_dead();
    return work(*object_);
  }

  void close() {
    const Use use(*this);
    make_ = nullptr;
    object_.reset();
  }
  /// The same. What takes longer than `limit` goes on by itself, and nobody waits for it.
  void close_within(std::chrono::milliseconds limit) {
    // MPI may allow no other thread.
    if (has_ended_ != nullptr && has_ended_ != &python_has_ended) return close();
    const Use use(*this);
    make_ = nullptr;
    std::packaged_task<void()> end([object = std::move(object_)]() mutable { object.reset(); });
    const std::future<void> ended = end.get_future();
    std::thread(std::move(end)).detach();
    const py::gil_scoped_release released;
    ended.wait_for(limit);
  }
  /// Closes, and leaves the object to the end of the process.
  void abandon() {
    const Use use(*this);
    static_cast<void>(new std::shared_ptr<T>(std::move(object_)));
  }
  [[nodiscard]] bool is_closed() const noexcept { return !object_ && !make_; }
  [[nodiscard]] bool is_made() const noexcept { return object_ != nullptr; }

  /// This thread of Python took the last batch.
  void draw() noexcept { drawer_ = PyThread_get_thread_ident(); }
  /// As the function.
  void refuse_fed() const { python::refuse_fed(drawer_); }

 private:
  void take(OneThread& made) {
    object_ = std::move(made.object_);
    has_ended_ = made.has_ended_;
    make_ = nullptr;
  }

  class Use {
   public:
    explicit Use(OneThread& owner, bool is_brief = false) : owner_(owner) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      if (owner.waiting_ > 0) rest(2);  // else one who calls again and again would always be before them
      while (owner.user_ != std::thread::id()) {
        if (owner.user_ == std::this_thread::get_id() || !(is_brief || owner.is_brief_) ||
            std::chrono::steady_clock::now() > until) {
          throw internal::failure(
              ErrorCode::busy,
              "use {}: a call of it is under way, in another thread, or around this signal handler or "
              "callback; one thread at a time uses it",
              owner.name_);
        }
        ++owner.waiting_;
        rest(1);
        --owner.waiting_;
      }
      owner.user_ = std::this_thread::get_id();  // under the GIL
      owner.is_brief_ = is_brief;
    }
    ~Use() { owner_.user_ = std::thread::id(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    static void rest(int milliseconds) {
      const Unlocked unlocked;
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    }

    OneThread& owner_;
  };

  const char* name_;
  std::atomic<std::uint64_t> drawer_ = 0;
  std::shared_ptr<T> object_;
  HasEnded has_ended_;
  std::function<std::unique_ptr<OneThread>()> make_;
  std::atomic<std::thread::id> user_ = {};
  std::atomic<bool> is_brief_ = false;  // what that one does
  std::atomic<int> waiting_ = 0;        // other threads
};

/// Of calls that wait for nothing.
inline constexpr bool kBrief = true;

/// A method of T as one of OneThread<T>, or of `Derived`, which derives from that.
template <typename Derived = void, typename T, typename Method>
auto in_turn(Method T::*method, bool is_brief = false) {
  using Self = std::conditional_t<std::is_void_v<Derived>, OneThread<T>, Derived>;
  return [=](Self& self) { return self.use([&](T& object) { return (object.*method)(); }, is_brief); };
}

// ---- the parts of the module ----

void define_options(py::module_& module);
void define_sources(py::module_& module);
/// Of some samples of others, and methods of theirs.
void define_selections(py::module_& module, py::class_<PySource>& source);
py::list numbers_of(const std::vector<SampleId>& ids);
void define_catalogs(py::module_& module);
void define_communicator(py::module_& module);
void define_checkpoint(py::module_& module);
void define_batches(py::module_& module);
void define_indices(py::module_& module);
void define_runs(py::module_& module);
void define_loaders(py::module_& module);
void define_streams(py::module_& module);
void define_settling(py::module_& module);

}  // namespace rota::python
