#include "formats/merged_reads.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace rota::internal {
namespace {

// What one call reads, piece by piece; each goes to its place, or nowhere.
class OneCall {
 public:
  // NOLINTNEXTLINE(modernize-use-equals-default,cppcoreguidelines-pro-type-member-init): it costs nothing
  OneCall() noexcept {}

  // Whether a gap and what follows it have room.
  [[nodiscard]] bool has_room() const noexcept { return count_ + 2 <= pieces_.size(); }

  void add(std::span<std::byte> to) noexcept {
    if (to.empty()) return;
    bytes_ += to.size();
    if (count_ > 0) {
      iovec& last = pieces_[count_ - 1];
      if (static_cast<std::byte*>(last.iov_base) + last.iov_len == to.data()) {
        last.iov_len += to.size();
        return;
      }
    }
    pieces_[count_++] = {to.data(), to.size()};
  }
  void skip(std::size_t bytes) noexcept {
    if (bytes == 0) return;
    bytes_ += bytes;
    pieces_[count_++] = {dropped_.data(), bytes};
  }

  // False where it cannot be read as a whole.
  [[nodiscard]] bool read(int fd, std::uint64_t offset) const noexcept {
    const ssize_t got = ::preadv(fd, pieces_.data(), static_cast<int>(count_), static_cast<off_t>(offset));
    return got == static_cast<ssize_t>(bytes_);
  }

 private:
  std::array<iovec, 128> pieces_;
  std::array<std::byte, kMostGap> dropped_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

// How many bytes of `next` are the last ones of `before`, which does not begin behind it.
std::size_t overlap(const WantedBytes& before, const WantedBytes& next) noexcept {
  return std::min(before.end(), next.end()) - std::min(next.offset, std::min(before.end(), next.end()));
}

const WantedBytes& further(const WantedBytes& a, const WantedBytes& b) noexcept {
  return b.end() > a.end() ? b : a;
}

// How many of the first ones one call reads.
std::size_t lay_out(std::span<const WantedBytes> wanted, OneCall& call) noexcept {
  call.add(wanted[0].to);
  const WantedBytes* last = wanted.data();  // the one that reaches the furthest
  std::size_t count = 1;
  for (; count < wanted.size() && call.has_room(); ++count) {
    const WantedBytes& next = wanted[count];
    const std::uint64_t gap = next.offset > last->end() ? next.offset - last->end() : 0;
    if (gap > kMostGap) break;
    call.skip(gap);
    call.add(next.to.subspan(overlap(*last, next)));
    last = &further(*last, next);
  }
  return count;
}

// Copies what was read for another one.
void share_out(std::span<const WantedBytes> wanted) noexcept {
  const WantedBytes* last = wanted.data();
  for (const WantedBytes& next : wanted.subspan(1)) {
    const std::size_t shared = overlap(*last, next);
    if (shared > 0) std::memcpy(next.to.data(), last->to.data() + (next.offset - last->offset), shared);
    last = &further(*last, next);
  }
}

}  // namespace

void read_merged(const RecordFile& file, std::span<const WantedBytes> wanted) {
  assert(std::ranges::is_sorted(wanted, {}, &WantedBytes::offset));
  while (!wanted.empty()) {
    OneCall call;
    const auto now = wanted.first(file.memory == nullptr ? lay_out(wanted, call) : 1);
    wanted = wanted.subspan(now.size());
    if (now.size() > 1 && call.read(file.fd, now[0].offset)) {
      share_out(now);
    } else {  // also to find out what is wrong with which of them
      for (const WantedBytes& one : now) file.read(one.offset, one.to);
    }
  }
}

}  // namespace rota::internal
