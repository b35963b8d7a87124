#include "formats/open_files.hpp"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <iterator>

#include "core/failure.hpp"
#include "rota/types.hpp"

namespace rota::internal {
namespace {

// What sources of this process keep open: half of the descriptors that it may have, so that others find some.
std::atomic<std::size_t> kept_descriptors{0};

// So many of those that are wanted are left; a few in any case.
std::size_t take_descriptors(std::size_t wanted) {
  constexpr std::size_t kLeast = 8;
  struct rlimit limit {};
  const bool is_known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const std::size_t most = is_known ? limit.rlim_cur / 2 : wanted;
  const std::size_t kept = kept_descriptors.load();
  const std::size_t taken = std::min(wanted, std::max(most - std::min(kept, most), kLeast));
  kept_descriptors += taken;
  return taken;
}

}  // namespace

double memory_bytes() {
  double bytes = static_cast<double>(::get_phys_pages()) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  // As a container sees them, of versions 2 and 1. Where there is no limit, there is no number, or a large
  // one.
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    double limit = 0;
    if (std::ifstream(path) >> limit) bytes = std::min(bytes, limit);
  }
  return bytes;
}

namespace {

// How files are best read on this machine: past the page cache, where they are larger than half of the memory
// and most of them is not in there; else through it. Throws Error{io}, Error{not_found}.
Access choose_access(const FileList& files) {
  if (files.location().is_stored()) return Access::cached;
  double bytes = 0;
  for (std::size_t i = 0; i < files.size(); ++i) bytes += static_cast<double>(files.bytes(i));
  if (bytes <= memory_bytes() / 2) return Access::cached;
  constexpr std::int64_t kLooks = 64;
  std::int64_t cached = 0;
  std::array<std::byte, 1> one{};
  for (std::int64_t look = 0; look < kLooks; ++look) {
    const auto i = static_cast<std::size_t>(share(std::ssize(files), look, kLooks));
    const auto offset = static_cast<std::uint64_t>(files.bytes(i) / kLooks * look);
    cached += files.open(i).read_cached(offset, one) ? 1 : 0;
  }
  return 2 * cached > kLooks ? Access::cached : Access::direct;
}

}  // namespace

void require_expected(const FileSamples& samples, const FileList& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::int64_t expected = files.expected_samples(i);
    if (expected < 0 || expected == samples.count(i)) continue;
    throw failure(
        ErrorCode::mismatch,
        "open {}: it has {} samples, and the manifest says {}; restore the file, or mend the manifest",
        files.path(i), samples.count(i), expected);
  }
}

OpenFiles::OpenFiles(FileList files, std::shared_ptr<SharedFiles> shared)
    : files_(std::move(files)),
      shared_(std::move(shared)),
      access_(files_.context().options.access),
      most_kept_(static_cast<std::size_t>(files_.context().options.max_open_files)) {
  if (is_shared() && access_ != Access::mapped) access_ = Access::cached;
  if (access_ == Access::automatic) access_ = choose_access(files_);
  if (access_ == Access::direct) direct_ = std::make_unique<const DirectReads>();
  if (!is_shared() && !files_.location().is_stored()) {
    const std::size_t each = access_ == Access::direct ? 2 : 1;
    taken_ = take_descriptors(std::min(files_.size(), most_kept_) * each);
    most_kept_ = std::min(most_kept_, std::max<std::size_t>(taken_ / each, 1));
  }
  if (files_.size() > most_kept_) return;
  all_.resize(files_.size());
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (!is_shared() || !shared_->has(i))
      all_[i] = std::make_shared<const DatasetFile>(files_.open_unchanged(i, access_));
  }
}

OpenFiles::~OpenFiles() { kept_descriptors -= taken_; }

OpenFiles::SharedFile OpenFiles::open(std::size_t i) const {
  if (is_shared() && shared_->has(i)) {
    return std::make_shared<const DatasetFile>(
        file_in_memory(files_, i, shared_->open(i), shared_->decompresses(i)));
  }
  return all_.empty() ? open_one_of_many(i) : all_[i];
}

void OpenFiles::read(std::span<const WantedBytes> wanted) const {
  if (are_mapped()) {
    for (const WantedBytes& one : wanted) one.file->read(one.offset, one.to);
    return;
  }
  if (direct_ == nullptr) return read_at_once(wanted);
  direct_->read(wanted);
}

std::int64_t OpenFiles::will_read(std::size_t i, std::uint64_t begin, std::uint64_t end) const {
  const bool is_through_cache = access_ == Access::cached && !is_shared() && !files_.location().is_stored();
  if (!is_through_cache || begin >= end) return 0;
  open(i)->will_read(begin, end - begin);
  return static_cast<std::int64_t>(end - begin);
}

OpenFiles::SharedFile OpenFiles::open_one_of_many(std::size_t i) const {
  SharedFile own;  // this and the next close files, after the lock is given back
  Kept surplus;
  const MutexLock lock(mutex_);
  Slot& slot = slots_[i];
  SharedFile file = slot.file.lock();
  if (file == nullptr) {
    {
      const MutexUnlock unlocked(mutex_);
      own = std::make_shared<const DatasetFile>(files_.open_unchanged(i, access_));
    }
    file = slot.file.lock();  // another thread may have opened it, too
    if (file == nullptr) slot.file = file = own;
  }
  if (slot.kept) {
    kept_.splice(kept_.begin(), kept_, *slot.kept);
  } else {
    kept_.emplace_front(i, file);
    slot.kept = kept_.begin();
  }
  while (kept_.size() > most_kept_) {
    slots_[kept_.back().first].kept.reset();
    surplus.splice(surplus.end(), kept_, std::prev(kept_.end()));
  }
  return file;
}

FileSource::FileSource(FileList files, std::shared_ptr<SharedFiles> shared, std::vector<Field> fields,
                       const std::function<std::int64_t(std::size_t)>& count_of, bool reads_parts)
    : files_(std::move(files), std::move(shared)), fields_(std::move(fields)), reads_parts_(reads_parts) {
  for (std::size_t i = 0; i < files_.list().size(); ++i) samples_.add(count_of(i));
  require_expected(samples_, files_.list());
}

ReadPlan::Near FileSource::Plan::bring(SampleRange samples, bool reads) {
  if (!source_.files_.is_shared()) return ReadPlan::bring(samples, reads);
  check_range(samples, source_.size());
  if (samples.begin == samples.end) return {};
  const auto [first, skipped] = source_.samples_.find(samples.begin);
  const auto [last, sample] = source_.samples_.find(samples.end - 1);
  return {.pin = source_.files_.shared()->pin({.first = first,
                                               .last = last + 1,
                                               .has_all_of_first = skipped == 0,
                                               .has_all_of_last = sample + 1 == source_.samples_.count(last)},
                                              reads)};
}

std::int64_t FileSource::will_read(SampleId first, std::int64_t count) const {
  check_range({.begin = first.value, .end = first.value + count}, size());
  std::int64_t bytes = 0;
  while (count > 0) {
    const auto [file, sample] = samples_.find(first.value);
    const std::int64_t here = std::min(count, samples_.count(file) - sample);
    bytes += will_read_in(file, sample, here);
    first.value += here;
    count -= here;
  }
  return bytes;
}

}  // namespace rota::internal
