#include "source/unpacked_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "rota/error.hpp"

namespace rota {
namespace {

constexpr std::size_t kMostKept = 256;  // so that small files do not use up the process's descriptors
// A block takes 4 bytes or more, and holds 128 KiB or less (RFC 8878, 3.1.1.2).
constexpr std::uint64_t kMostRatio = (std::uint64_t{128} << 10) / 4;

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
};

// Memory with a descriptor, which is written once and then sealed.
class Memory {
 public:
  explicit Memory(const RecordFile& file)
      : file_(file), memory_(::memfd_create("rota", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    if (!memory_.is_open()) throw failure();
  }

  void append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(memory_.get(), bytes.data(), bytes.size());
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) throw failure();
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
  }

  [[nodiscard]] Descriptor seal() && {
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    if (::fcntl(memory_.get(), F_ADD_SEALS, kSeals) != 0) throw failure();
    return std::move(memory_);
  }

 private:
  [[nodiscard]] Error failure() const {
    const int error = errno;
    return {ErrorCode::io,
            fmt::format("unpack {} into memory: {}; have less kept there, or unpack it beside with zstd -d",
                        file_.path(), std::generic_category().message(error))};
  }

  const RecordFile& file_;
  Descriptor memory_;
};

// Unpacks one file from its beginning to its end.
class Unpacking {
 public:
  Unpacking(const RecordFile& file, std::uint64_t raw_bytes)
      : file_(file),
        raw_bytes_(raw_bytes),
        context_(ZSTD_createDCtx()),
        packed_(ZSTD_DStreamInSize()),
        raw_(ZSTD_DStreamOutSize()),
        memory_(file) {
    if (context_ == nullptr) throw std::bad_alloc();
  }

  Descriptor run() && {
    check_sizes();
    while (packed_done_ < file_.bytes()) {
      const auto packed =
          std::span(packed_).first(std::min<std::uint64_t>(packed_.size(), file_.bytes() - packed_done_));
      file_.read(packed_done_, packed);
      take(packed);
    }
    if (is_inside_frame_) throw file_.damage(packed_done_, "it ends inside a zstd frame; restore it");
    if (raw_done_ == raw_bytes_) return std::move(memory_).seal();
    throw file_.damage(packed_done_, fmt::format("it unpacks to {} bytes, and {} were to come; restore it",
                                                 raw_done_, raw_bytes_));
  }

 private:
  void check_sizes() const {
    if (const std::int64_t now = size_of_open(file_.fd); now != file_.files.bytes(file_.index)) {
      throw file_.damage(0, fmt::format("it has {} bytes now and had {} when it was listed; restore it, or "
                                        "open the dataset anew as another one",
                                        now, file_.bytes()));
    }
    if (raw_bytes_ / kMostRatio <= file_.bytes()) return;
    throw file_.damage(0, fmt::format("its {} bytes cannot unpack to the {} that were to come; restore it",
                                      file_.bytes(), raw_bytes_));
  }

  void take(std::span<const std::byte> packed) {
    ZSTD_inBuffer in{packed.data(), packed.size(), 0};
    for (bool has_more = true; has_more;) {
      ZSTD_outBuffer out{raw_.data(), raw_.size(), 0};
      const std::size_t status = ZSTD_decompressStream(context_.get(), &out, &in);
      if (ZSTD_getErrorCode(status) == ZSTD_error_memory_allocation) throw std::bad_alloc();
      if (ZSTD_isError(status) != 0) {
        throw file_.damage(packed_done_ + in.pos,
                           fmt::format("from here it cannot be unpacked as zstd ({}); restore it",
                                       ZSTD_getErrorName(status)));
      }
      raw_done_ += out.pos;
      if (raw_done_ > raw_bytes_) {
        throw file_.damage(
            packed_done_ + in.pos,
            fmt::format("it unpacks to more than the {} bytes that were to come; restore it", raw_bytes_));
      }
      memory_.append(std::span(raw_).first(out.pos));
      is_inside_frame_ = status != 0;
      has_more = in.pos < in.size || (is_inside_frame_ && out.pos == out.size);
    }
    packed_done_ += packed.size();
  }

  const RecordFile& file_;
  const std::uint64_t raw_bytes_;
  std::unique_ptr<ZSTD_DCtx, FreeContext> context_;
  std::vector<std::byte> packed_;
  std::vector<std::byte> raw_;
  Memory memory_;
  std::uint64_t packed_done_ = 0;
  std::uint64_t raw_done_ = 0;
  bool is_inside_frame_ = false;
};

}  // namespace

Unpacked UnpackedFiles::open(const RecordFile& file, std::uint64_t raw_bytes) {
  KeptFiles surplus;  // is freed after the lock
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[file.index];
  unpacked_.wait(lock, [&] { return !slot.is_being_unpacked; });
  Unpacked memory = slot.memory.lock();
  if (memory == nullptr) memory = unpack(file, raw_bytes, lock);
  keep(file.index, memory, raw_bytes);
  surplus = take_surplus(1);
  return memory;
}

// The lock is given back meanwhile.
Unpacked UnpackedFiles::unpack(const RecordFile& file, std::uint64_t raw_bytes,
                               std::unique_lock<std::mutex>& lock) {
  Slot& slot = slots_[file.index];
  slot.is_being_unpacked = true;
  coming_bytes_ += raw_bytes;
  KeptFiles surplus = take_surplus(0);
  lock.unlock();
  Unpacked memory;
  std::exception_ptr error;
  try {
    surplus.clear();
    memory = std::make_shared<const Descriptor>(Unpacking(file, raw_bytes).run());
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  coming_bytes_ -= raw_bytes;
  slot.is_being_unpacked = false;
  slot.memory = memory;
  unpacked_.notify_all();
  if (error) std::rethrow_exception(error);
  return memory;
}

void UnpackedFiles::keep(std::size_t file, const Unpacked& memory, std::uint64_t bytes) {
  Slot& slot = slots_[file];
  if (slot.kept) {
    kept_.splice(kept_.begin(), kept_, *slot.kept);
    return;
  }
  kept_.push_front({file, bytes, memory});
  slot.kept = kept_.begin();
  kept_bytes_ += bytes;
}

UnpackedFiles::KeptFiles UnpackedFiles::take_surplus(std::size_t least_kept) {
  KeptFiles surplus;
  while (kept_.size() > least_kept &&
         (kept_.size() > kMostKept || kept_bytes_ + coming_bytes_ > most_bytes_)) {
    kept_bytes_ -= kept_.back().bytes;
    slots_[kept_.back().file].kept.reset();
    surplus.splice(surplus.end(), kept_, std::prev(kept_.end()));
  }
  return surplus;
}

}  // namespace rota
