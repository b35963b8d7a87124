#include "formats/shared_files.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <ctime>

#include "core/wait.hpp"
#include "ranks/backoff.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kMostIdle = 256;  // so that small files do not use up a process's descriptors
constexpr std::int64_t kWaitNanoseconds = 100'000'000;

}  // namespace

struct SharedTable::Head {
  pthread_mutex_t mutex;  // of all but what is atomic
  std::atomic<std::uint32_t> changes;
  std::atomic<std::uint64_t> clock;
  std::int32_t ranks;
  Usage usage;
  std::int64_t idle;  // files that are ready, and not used
  std::int64_t idle_bytes;
};

struct SharedTable::Entry {
  State state;
  bool is_passed;  // all ranks have used all of it, and none has begun to again
  std::atomic<std::uint32_t> version;
  std::uint32_t round;  // of uses: changes when all ranks have had it
  std::int32_t users;   // ranks that use it
  std::int32_t done;    // ranks that used it in this round, and do no more
  std::int64_t bytes;
  Address address;
  std::atomic<std::uint64_t> read_at;  // by the head's clock
};

bool SharedTable::is_needed_later(const Entry& a, const Entry& b) noexcept {
  if (a.is_passed != b.is_passed) return a.is_passed;
  return a.is_passed ? a.read_at > b.read_at : a.read_at < b.read_at;
}

/// Holds the table's lock. Throws Error{timeout} where that cannot be had.
class SharedTable::Lock {
 public:
  explicit Lock(SharedTable& table) : mutex_(table.head_->mutex) {
    ranks::Backoff backoff;
    const auto end = DeadlineClock::now() + table.patience_;
    while (::pthread_mutex_trylock(&mutex_) != 0) {
      if (DeadlineClock::now() > end) {
        throw Error(ErrorCode::timeout,
                    "share files of a node: another process has not let go of the table that says where they "
                    "are; it was killed, or stopped; end the job");
      }
      backoff.wait();
    }
  }
  ~Lock() { ::pthread_mutex_unlock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

SharedTable::SharedTable(const ranks::Nodes& nodes, std::size_t files, std::int64_t most_bytes,
                         std::chrono::milliseconds patience)
    : room_(make_node_memory(nodes, sizeof(Head) + files * sizeof(Entry))),
      head_(reinterpret_cast<Head*>(room_.memory.get())),
      entries_(reinterpret_cast<Entry*>(room_.memory.get() + sizeof(Head)), files),
      most_bytes_(most_bytes),
      patience_(patience) {
  static_assert(sizeof(Head) % alignof(Entry) == 0 && std::atomic<std::uint64_t>::is_always_lock_free);
  nodes.all().together("share files", [&] {
    if (!room_.is_first) return;
    head_->ranks = room_.ranks;
    pthread_mutexattr_t attributes;
    ::pthread_mutexattr_init(&attributes);
    ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    const int error = ::pthread_mutex_init(&head_->mutex, &attributes);
    ::pthread_mutexattr_destroy(&attributes);
    if (error != 0) throw sharing_failed("make a mutex", error);
  });
}

SharedTable::Found SharedTable::claim(std::size_t file, std::int64_t bytes) {
  const Lock lock(*this);
  Entry& entry = entries_[file];
  Found found{.state = entry.state, .address = entry.address, .version = entry.version};
  if (entry.state != State::absent) return found;
  entry.bytes = bytes;
  entry.state = State::coming;
  entry.is_passed = false;
  head_->usage.bytes += bytes;
  drop_surplus(&entry, entry.users == 0 ? bytes : 0);
  head_->usage.peak_bytes = std::max(head_->usage.peak_bytes, head_->usage.bytes);
  return found;
}

void SharedTable::publish(std::size_t file, const Address& address, std::uint32_t version, bool reads) {
  const Lock lock(*this);
  Entry& entry = entries_[file];
  if (entry.state != State::coming || entry.version != version) return;
  entry.address = address;
  entry.state = State::ready;
  if (entry.users == 0) count_idle(entry, 1);
  touch(file);
  drop_surplus(reads && !entry.is_passed ? &entry : nullptr, 0);  // nobody may want it any more
  wake();
}

void SharedTable::forget(std::size_t file, std::uint32_t version) {
  const Lock lock(*this);
  if (entries_[file].version == version) drop(entries_[file]);
}

void SharedTable::begin_use(std::size_t file, std::uint32_t round) {
  const Lock lock(*this);
  Entry& entry = entries_[file];
  if (entry.state == State::ready && entry.users == 0) count_idle(entry, -1);
  entry.is_passed = false;
  ++entry.users;
  if (round == entry.round) --entry.done;
}

std::uint32_t SharedTable::end_use(std::size_t file, bool was_all) {
  const Lock lock(*this);
  Entry& entry = entries_[file];
  const std::uint32_t round = entry.round;
  --entry.users;
  ++entry.done;
  if (entry.users > 0) return round;
  if (entry.state == State::ready) count_idle(entry, 1);
  if (entry.done >= head_->ranks) {
    entry.done = 0;
    ++entry.round;
    entry.is_passed = was_all;
  }
  drop_surplus(nullptr, 0);
  return round;
}

// Of one that is coming or ready.
void SharedTable::drop(Entry& entry) noexcept {
  if (entry.state == State::absent) return;
  if (entry.state == State::ready && entry.users == 0) count_idle(entry, -1);
  entry.state = State::absent;
  head_->usage.bytes -= entry.bytes;
  ++entry.version;
  wake();
}

void SharedTable::count_idle(const Entry& entry, int files) noexcept {
  head_->idle += files;
  head_->idle_bytes += files * entry.bytes;
}

// So that `more` bytes can be idle, too.
void SharedTable::drop_surplus(const Entry* kept, std::int64_t more) noexcept {
  while (head_->idle > 0 && (head_->idle_bytes + more > most_bytes_ || head_->idle > kMostIdle)) {
    Entry* last = nullptr;  // to be needed
    for (Entry& entry : entries_) {
      if (entry.state != State::ready || entry.users > 0 || &entry == kept) continue;
      if (last == nullptr || is_needed_later(entry, *last)) last = &entry;
    }
    if (last == nullptr) return;
    drop(*last);
  }
}

void SharedTable::touch(std::size_t file) noexcept {
  entries_[file].read_at.store(head_->clock.fetch_add(1, std::memory_order_relaxed) + 1,
                               std::memory_order_relaxed);
}

std::uint32_t SharedTable::version(std::size_t file) const noexcept { return entries_[file].version; }

SharedTable::Usage SharedTable::usage() {
  const Lock lock(*this);
  return head_->usage;
}

std::uint32_t SharedTable::changes() const noexcept { return head_->changes; }

// No condition variable: those do not outlive a process that is killed while it waits.
void SharedTable::wake() noexcept {
  ++head_->changes;
  ::syscall(SYS_futex, &head_->changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void SharedTable::wait(std::uint32_t seen) const noexcept {
  const timespec most{.tv_sec = 0, .tv_nsec = kWaitNanoseconds};
  ::syscall(SYS_futex, &head_->changes, FUTEX_WAIT, seen, &most, nullptr, 0);
}

}  // namespace rota::internal
