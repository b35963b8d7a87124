#include "files/dataset_file.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "files/reads.hpp"

namespace rota::internal {
namespace {

Error not_read(std::string_view path) { return {ErrorCode::io, system_error("read", path, errno).what()}; }

}  // namespace

DatasetFile::DatasetFile(std::string path, std::size_t number, Descriptor descriptor, Descriptor direct)
    : path_(std::move(path)),
      number_(number),
      descriptor_(std::move(descriptor)),
      direct_(std::move(direct)) {
  const std::int64_t bytes = size_of_open(descriptor_.get());
  if (bytes < 0) throw not_read(path_);
  bytes_ = static_cast<std::uint64_t>(bytes);
}

DatasetFile::DatasetFile(std::string path, std::size_t number, std::shared_ptr<const std::byte> memory,
                         std::size_t bytes, bool is_unpacked)
    : path_(std::move(path)),
      number_(number),
      memory_(std::move(memory)),
      bytes_(bytes),
      is_unpacked_(is_unpacked) {
  static constexpr std::byte kNothing{};
  if (memory_ == nullptr)
    memory_ = {std::shared_ptr<void>(), &kNothing};  // of no bytes; it is in memory, too
}

DatasetFile::DatasetFile(std::string path, std::size_t number, std::shared_ptr<const Storage> storage,
                         StoredFile stored)
    : path_(std::move(path)),
      number_(number),
      storage_(std::move(storage)),
      stored_(std::move(stored)),
      bytes_(stored_.bytes) {}

DatasetFile DatasetFile::map(std::string path, std::size_t number, Descriptor descriptor) {
  DatasetFile file(std::move(path), number, std::move(descriptor));
  const std::size_t bytes = file.bytes_;
  if (bytes == 0) return file;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (mapped == MAP_FAILED) throw Error(ErrorCode::io, system_error("map", file.path_, errno).what());
  file.memory_ = {static_cast<const std::byte*>(mapped),
                  [mapped, bytes](const std::byte*) { ::munmap(mapped, bytes); }};
  file.descriptor_ = Descriptor();
  return file;
}

void DatasetFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  const std::size_t got = read_up_to_end(offset, to);
  if (got == to.size()) return;
  throw damage(
      offset + got,
      fmt::format("the file ends here, and {} more bytes were to follow; it was cut short: restore it",
                  to.size() - got));
}

std::size_t DatasetFile::read_up_to_end(std::uint64_t offset, std::span<std::byte> to) const {
  if (memory_ != nullptr) {
    const std::uint64_t begin = std::min(offset, bytes_);
    const std::size_t count = std::min<std::uint64_t>(to.size(), bytes_ - begin);
    std::copy_n(memory_.get() + begin, count, to.begin());
    return count;
  }
  if (storage_ != nullptr) {
    const std::uint64_t begin = std::min(offset, bytes_);
    const std::size_t count = std::min<std::uint64_t>(to.size(), bytes_ - begin);
    read_stored(begin, to.first(count));
    return count;
  }
  const std::int64_t got = read_at(descriptor_.get(), to, offset);
  if (got < 0) throw not_read(path_);
  return static_cast<std::size_t>(got);
}

void DatasetFile::read_on() {
  if (storage_ != nullptr) piece_ = std::make_unique<Piece>();
}

void DatasetFile::read_stored(std::uint64_t offset, std::span<std::byte> to) const {
  while (piece_ != nullptr && !to.empty()) {
    const std::uint64_t end = piece_->begin + piece_->bytes.size();
    if (offset < piece_->begin || offset >= end) {
      read_piece(offset, to.size());
      continue;
    }
    const std::size_t count = std::min<std::uint64_t>(to.size(), end - offset);
    std::copy_n(piece_->bytes.begin() + static_cast<std::ptrdiff_t>(offset - piece_->begin), count,
                to.begin());
    offset += count;
    to = to.subspan(count);
  }
  if (!to.empty()) read_from_storage(std::array{WantedBytes{this, offset, to}});
}

// The one that begins at `offset`, which is in the file.
void DatasetFile::read_piece(std::uint64_t offset, std::uint64_t least) const {
  constexpr std::uint64_t kLeast = std::uint64_t{64} << 10;
  constexpr std::uint64_t kWhole = std::uint64_t{512} << 10;
  constexpr std::uint64_t kMost = std::uint64_t{8} << 20;
  const std::uint64_t end = piece_->begin + piece_->bytes.size();
  const bool goes_on = offset >= end && offset - end <= piece_->wanted;
  const std::uint64_t first = bytes_ <= kWhole ? kWhole : kLeast;
  piece_->wanted = std::clamp(goes_on ? 4 * piece_->wanted : 0, first, kMost);
  piece_->begin = offset;
  std::vector<std::byte> bytes(std::min(std::max(piece_->wanted, least), bytes_ - offset));
  piece_->bytes.clear();
  read_from_storage(std::array{WantedBytes{this, offset, bytes}});
  piece_->bytes = std::move(bytes);
}

void DatasetFile::will_read(std::uint64_t offset, std::uint64_t count) const noexcept {
  if (memory_ == nullptr && storage_ == nullptr) will_read_at(descriptor_.get(), offset, count);
}

Error DatasetFile::damage(std::uint64_t offset, std::string_view what) const {
  return {ErrorCode::corrupt, fmt::format("read {}: byte {}{}: {}", path_, offset,
                                          is_unpacked_ ? " of what it unpacks to" : "", what)};
}

}  // namespace rota::internal
