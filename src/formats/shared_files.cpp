#include "formats/shared_files.hpp"

#include <algorithm>
#include <utility>

#include "core/failure.hpp"
#include "core/scarce.hpp"
#include "core/wait.hpp"

namespace rota::internal {

std::shared_ptr<SharedFiles> SharedFiles::make(const FileList& files, std::vector<FileEncoding> encodings,
                                               std::chrono::milliseconds patience) {
  const bool is_any_compressed = std::ranges::any_of(
      encodings, [](const FileEncoding& as) { return as.compression != Compression::none; });
  if (!is_any_compressed && !files.context().options.share_files) return nullptr;
  files.context().nodes.all().together(
      "share files", [&] { static_cast<void>(MemoryFile::in(files.context().options.shared_directory)); });
  return std::make_shared<SharedFiles>(files, std::move(encodings), patience);
}

SharedFiles::SharedFiles(FileList files, std::vector<FileEncoding> encodings,
                         std::chrono::milliseconds patience)
    : files_(std::move(files)),
      encodings_(std::move(encodings)),
      shares_all_(files_.context().options.share_files),
      table_(files_.context().nodes, files_.size(), files_.context().options.shared_memory_limit, patience),
      slots_(files_.size()) {}

// Nobody reads or pins any more. What is here is gone with this process's descriptor.
SharedFiles::~SharedFiles() {
  for (auto& thread : threads_) thread.request_stop();
  table_.wake();
  threads_.clear();
  try {
    for (const std::size_t file : open_) {
      if (slots_[file].is_own) table_.forget(file, slots_[file].version);
    }
  } catch (const Error&) {
    // Another process has been stopped with the table's lock: others find that nobody has it open.
  }
}

std::shared_ptr<const FileMemory> SharedFiles::open(std::size_t file) {
  if (Memory memory = find(file)) return memory;
  std::optional<std::uint32_t> waited_at;  // with nothing changing since `start`
  auto start = DeadlineClock::now();
  for (;;) {
    const std::uint32_t seen = table_.changes();
    const SharedTable::Found found = claim(file);
    if (found.state == SharedTable::State::absent) return fetch(file, found.version, true);
    if (Memory memory = find(file)) return memory;
    if (found.state == SharedTable::State::ready) {
      if (Memory memory = open_other(file, found)) return memory;
      table_.forget(file, found.version);
      continue;
    }
    if (std::exchange(waited_at, seen) != seen) start = DeadlineClock::now();
    if (DeadlineClock::now() - start > table_.patience()) throw not_fetched(file);
    table_.wait(seen);
    Wait::here().check();
  }
}

// Of one that was killed it would be this process's to fetch.
Error SharedFiles::not_fetched(std::size_t file) const {
  return failure(ErrorCode::timeout,
                 "read {}: another process of this node has begun to fetch it, and nothing has come for {} "
                 "s; it was stopped, or waits; let it go on, or end the job",
                 files_.path(file), std::chrono::duration<double>(table_.patience()).count());
}

// Whatever has become of it since: its bytes are the same.
SharedFiles::Memory SharedFiles::find(std::size_t file) {
  const MutexLock lock(mutex_);
  if (slots_[file].memory != nullptr) table_.touch(file);
  return slots_[file].memory;
}

// What this process has claimed.
SharedFiles::Memory SharedFiles::fetch(std::size_t file, std::uint32_t version, bool reads) {
  Memory memory;
  SharedTable::Address address;
  try {
    free_what_was_let_go();
    // A minute's sign of life for those who wait for it.
    auto told = DeadlineClock::now();
    memory = fetch_file(files_, file, encodings_[file], [&] {
      const auto now = DeadlineClock::now();
      if (now - told < table_.patience() / 10) return;
      told = now;
      table_.wake();
    });
    address = memory->address();
  } catch (...) {
    table_.forget(file, version);
    throw;
  }
  {
    const MutexLock lock(mutex_);
    ++fetched_.files;
    fetched_.bytes += std::ssize(memory->bytes());
    table_.publish(file, address, version, reads);
    keep(file, memory, version, true);
  }
  free_what_was_let_go();
  return memory;
}

// Null where its process has let it go, or does not let this one open it.
SharedFiles::Memory SharedFiles::open_other(std::size_t file, const SharedTable::Found& found) {
  Memory memory;
  try {
    memory = std::make_shared<const FileMemory>(found.address);
  } catch (const Error&) {
    return nullptr;
  }
  const MutexLock lock(mutex_);
  table_.touch(file);
  if (slots_[file].memory != nullptr) return slots_[file].memory;
  keep(file, memory, found.version, false);
  return memory;
}

void SharedFiles::keep(std::size_t file, Memory memory, std::uint32_t version, bool is_own) {
  if (files_.context().nodes.node().size() > 1) start();  // others may drop it
  Slot& slot = slots_[file];
  let_go(file);
  open_.reserve(open_.size() + 1);
  let_go_.reserve(let_go_.size() + open_.size() + 1);
  slot.memory = std::move(memory);
  slot.version = version;
  slot.is_own = is_own;
  open_.push_back(file);
  let_dropped_go();
}

void SharedFiles::let_go(std::size_t file) {
  if (slots_[file].memory == nullptr) return;
  let_go_.push_back(std::exchange(slots_[file].memory, nullptr));
  std::erase(open_, file);
}

// What is held here stays: nobody else needs to have it.
void SharedFiles::let_dropped_go() {
  const std::vector<std::size_t> open = open_;
  for (const std::size_t file : open) {
    const Slot& slot = slots_[file];
    if (slot.pins == 0 && slot.version != table_.version(file)) let_go(file);
  }
}

// Whoever fetches more waits for whoever frees.
void SharedFiles::free_what_was_let_go() {
  const MutexLock freeing(freeing_);
  std::vector<Memory> garbage;
  const MutexLock lock(mutex_);
  let_dropped_go();
  garbage.reserve(open_.size());
  std::swap(garbage, let_go_);
}

std::shared_ptr<const void> SharedFiles::pin(const FileRange& files, bool reads) {
  begin_use(files, reads);
  return {this, [owner = shared_from_this(), files](const void* /*this*/) { owner->end_use(files); }};
}

void SharedFiles::begin_use(const FileRange& files, bool reads) {
  const MutexLock lock(mutex_);
  start();
  for (std::size_t file = files.first; file < files.last && reads; ++file) {
    if (has(file) && slots_[file].memory == nullptr) to_fetch_.push_back(file);
  }
  for (std::size_t file = files.first; file < files.last; ++file) {  // nothing throws from here on
    Slot& slot = slots_[file];
    if (has(file) && slot.pins++ == 0) table_.begin_use(file, slot.round);
  }
  if (!to_fetch_.empty()) table_.wake();
}

void SharedFiles::end_use(const FileRange& files) noexcept try {
  const MutexLock lock(mutex_);
  for (std::size_t file = files.first; file < files.last; ++file) {
    if (!has(file)) continue;
    Slot& slot = slots_[file];
    if (--slot.pins > 0) continue;
    const bool had_all =
        (file != files.first || files.has_all_of_first) && (file + 1 != files.last || files.has_all_of_last);
    slot.round = table_.end_use(file, had_all);
    if (!slot.is_own || slot.version != table_.version(file)) let_go(file);
  }
  table_.wake();
} catch (const Error&) {
  // Another process has been stopped with the table's lock: what this one uses stays until it has ended.
}

ReadCounts SharedFiles::fetched() const {
  const MutexLock lock(mutex_);
  return fetched_;
}

// A file of a storage is long on its way, with little to do meanwhile.
void SharedFiles::start() {
  const std::size_t threads = files_.location().is_stored() ? 4 : 1;
  while (threads_.size() < threads) {
    threads_.push_back(
        start_thread("fetch shared files", [this](const std::stop_token& stop) { work(stop); }));
  }
}

// A thread.
void SharedFiles::work(const std::stop_token& stop) {
  const WaitScope scope{Wait(stop)};
  for (;;) {
    const std::uint32_t seen = table_.changes();
    if (stop.stop_requested()) return;
    try {
      free_what_was_let_go();
      if (const auto claimed = claim_next()) {
        fetch(claimed->file, claimed->version, false);  // who wanted it may have ended meanwhile
        continue;
      }
    } catch (...) {
      // It is an error for those who read the file.
    }
    table_.wait(seen);
  }
}

// While somebody pins it here, lest it comes when all have passed.
std::optional<SharedFiles::Claimed> SharedFiles::claim_next() {
  const MutexLock lock(mutex_);
  while (!to_fetch_.empty()) {
    const std::size_t file = to_fetch_.front();
    to_fetch_.pop_front();
    const bool is_wanted = slots_[file].pins > 0 && slots_[file].memory == nullptr;
    if (!is_wanted) continue;
    const SharedTable::Found found = claim(file);
    if (found.state == SharedTable::State::absent) return Claimed{.file = file, .version = found.version};
  }
  return std::nullopt;
}

}  // namespace rota::internal
