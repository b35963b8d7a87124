#include "formats/shared_files.hpp"

#include <fmt/format.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>
#include <fstream>
#include <sstream>
#include <utility>

#include "core/wait.hpp"
#include "ranks/backoff.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kMostIdle = 256;  // so that small files do not use up a process's descriptors
constexpr std::int64_t kWaitNanoseconds = 100'000'000;

}  // namespace

/// Which process it is, lest another one has its number later. All zeros: none.
struct SharedTable::Process {
  std::int64_t number;
  std::uint64_t started;  // by the machine's clock

  static Process here() noexcept {
    const pid_t number = ::getpid();
    Process process{.number = number, .started = 0};
    look(process.number, process.started);
    return process;
  }
  [[nodiscard]] bool is_dead() const noexcept {
    if (number == 0) return false;
    std::uint64_t since = started;
    if (!look(number, since)) return true;
    return started != 0 && since != 0 && since != started;  // where both are told
  }

 private:
  // False where there is no such process, or nothing of it but its exit code. What is not told stays.
  static bool look(std::int64_t number, std::uint64_t& started) noexcept try {
    if (::kill(static_cast<pid_t>(number), 0) != 0 && errno == ESRCH) return false;
    std::string text;
    if (!std::getline(std::ifstream(fmt::format("/proc/{}/stat", number)), text)) return true;
    std::istringstream behind_name(text.substr(text.rfind(')') + 1));
    char state = 'R';
    std::string skipped;
    behind_name >> state;
    for (int i = 0; i < 18; ++i) behind_name >> skipped;
    behind_name >> started;
    return state != 'Z' && state != 'X';
  } catch (const std::exception&) {
    return true;
  }
};

struct SharedTable::Head {
  pthread_mutex_t mutex;  // of all but what is atomic
  std::atomic<std::uint32_t> changes;
  std::atomic<std::uint64_t> clock;
  std::int64_t looked_at;  // for the dead, in seconds
  std::int32_t ranks;      // that live
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
  Process maker;  // of one that is coming
  Address address;
  std::atomic<std::uint64_t> read_at;  // by the head's clock
};

namespace {

/// What a rank does with a file in its round.
enum Use : std::uint8_t { kUnused, kUses, kHasUsed };

}  // namespace

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
    for (int error = ::pthread_mutex_trylock(&mutex_); error != 0; error = ::pthread_mutex_trylock(&mutex_)) {
      if (error == EOWNERDEAD) {
        table.count_anew();
        ::pthread_mutex_consistent(&mutex_);
        return;
      }
      if (DeadlineClock::now() > end) {
        throw Error(ErrorCode::timeout,
                    "share files of a node: another process has not let go of the table that says where they "
                    "are; it was stopped; let it go on, or end the job");
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
    : rank_(static_cast<std::size_t>(nodes.node().rank())), most_bytes_(most_bytes), patience_(patience) {
  static_assert(sizeof(Head) % alignof(Process) == 0 && sizeof(Process) % alignof(Entry) == 0 &&
                std::atomic<std::uint64_t>::is_always_lock_free);
  const auto ranks = static_cast<std::size_t>(nodes.node().size());
  const std::size_t entries_at = sizeof(Head) + ranks * sizeof(Process);
  const std::size_t uses_at = entries_at + files * sizeof(Entry);
  room_ = make_node_memory(nodes, uses_at + files * ranks);
  std::byte* const begin = room_.memory.get();
  head_ = reinterpret_cast<Head*>(begin);
  ranks_ = {reinterpret_cast<Process*>(begin + sizeof(Head)), ranks};
  entries_ = {reinterpret_cast<Entry*>(begin + entries_at), files};
  uses_ = reinterpret_cast<std::uint8_t*>(begin + uses_at);
  ranks_[rank_] = Process::here();
  nodes.all().together("share files", [&] {
    if (!room_.is_first) return;
    head_->ranks = room_.ranks;
    pthread_mutexattr_t attributes;
    ::pthread_mutexattr_init(&attributes);
    ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    const int error = ::pthread_mutex_init(&head_->mutex, &attributes);
    ::pthread_mutexattr_destroy(&attributes);
    if (error != 0) throw sharing_failed("make a mutex", error);
  });
}

SharedTable::Found SharedTable::claim(std::size_t file, std::int64_t bytes) {
  const Lock lock(*this);
  Entry& entry = entries_[file];
  if (entry.state == State::coming && entry.maker.is_dead()) drop(entry);
  const Found found{.state = entry.state, .address = entry.address, .version = entry.version};
  if (entry.state != State::absent) return found;
  entry.bytes = bytes;
  entry.maker = Process::here();
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
  look_for_the_dead();
  Entry& entry = entries_[file];
  if (entry.state == State::ready && entry.users == 0) count_idle(entry, -1);
  entry.is_passed = false;
  ++entry.users;
  if (round == entry.round) --entry.done;
  uses_of(entry)[rank_] = kUses;
}

std::uint32_t SharedTable::end_use(std::size_t file, bool was_all) {
  const Lock lock(*this);
  Entry& entry = entries_[file];
  const std::uint32_t round = entry.round;
  --entry.users;
  ++entry.done;
  uses_of(entry)[rank_] = kHasUsed;
  if (entry.users > 0) return round;
  if (entry.state == State::ready) count_idle(entry, 1);
  end_round_if_all_had_it(entry, was_all);
  drop_surplus(nullptr, 0);
  return round;
}

void SharedTable::end_round_if_all_had_it(Entry& entry, bool was_all) noexcept {
  if (entry.users > 0 || entry.done == 0 || entry.done < head_->ranks) return;
  entry.done = 0;
  ++entry.round;
  entry.is_passed = was_all;
  std::ranges::fill(uses_of(entry), kUnused);
}

std::span<std::uint8_t> SharedTable::uses_of(const Entry& entry) const noexcept {
  return {uses_ + static_cast<std::size_t>(&entry - entries_.data()) * ranks_.size(), ranks_.size()};
}

// ---- who has died ----

// Once a second.
void SharedTable::look_for_the_dead() noexcept {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(DeadlineClock::now().time_since_epoch());
  if (std::exchange(head_->looked_at, now.count()) == now.count()) return;
  if (std::ranges::any_of(ranks_, [](const Process& rank) { return rank.is_dead(); })) count_anew();
}

// By what each rank and each file says of itself, of which a store is there or not, without the dead.
void SharedTable::count_anew() noexcept {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].is_dead()) continue;
    ranks_[rank] = {};
    --head_->ranks;
    for (const Entry& entry : entries_) uses_of(entry)[rank] = kUnused;
  }
  head_->usage.bytes = head_->idle = head_->idle_bytes = 0;
  for (Entry& entry : entries_) {
    entry.users = static_cast<std::int32_t>(std::ranges::count(uses_of(entry), kUses));
    entry.done = static_cast<std::int32_t>(std::ranges::count(uses_of(entry), kHasUsed));
    if (entry.state != State::absent) head_->usage.bytes += entry.bytes;
    if (entry.state == State::ready && entry.users == 0) count_idle(entry, 1);
    end_round_if_all_had_it(entry, false);
  }
  wake();
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
