#include "files/dataset_file.hpp"

#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cassert>
#include <cerrno>

#include "core/failure.hpp"
#include "core/read_tally.hpp"
#include "core/wait.hpp"
#include "files/reads.hpp"

namespace rota::internal {
namespace {

// Of windows.
constexpr std::uint64_t kLeastLocal = 4 << 10;
constexpr std::uint64_t kMostStored = 8 << 20;

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
                         std::size_t bytes, bool is_decompressed)
    : path_(std::move(path)),
      number_(number),
      memory_(std::move(memory)),
      bytes_(bytes),
      is_decompressed_(is_decompressed) {
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
  const bool is_small = to.size() < (storage_ != nullptr ? kMostStored : kLeastLocal);  // worth a copy
  if (memory_ == nullptr && (window_ == nullptr || !is_small)) return read_now(offset, to);
  const std::span<const std::byte> bytes = at(offset, to.size());
  std::ranges::copy(bytes, to.begin());
  return bytes.size();
}

void DatasetFile::read_on() {
  constexpr std::uint64_t kWhole = 512 << 10;
  ReadPace::Limits limits{.least = kLeastLocal, .most = 1 << 20};
  if (storage_ != nullptr) {
    limits = {
        .least = bytes_ <= kWhole ? kWhole : 64 << 10, .most = kMostStored, .growth = 4, .may_jump = true};
  }
  window_ = std::make_unique<ReadWindow>(limits);
}

std::span<const std::byte> DatasetFile::at(std::uint64_t offset, std::size_t count) const {
  if (memory_ == nullptr) {
    assert(window_ != nullptr);
    return window_->at(offset, count, bytes_, [this](std::uint64_t from, std::span<std::byte> to) {
      Wait::here().check();  // a file may take hours to be looked through
      return read_now(from, to);
    });
  }
  offset = std::min(offset, bytes_);
  return {memory_.get() + offset, std::min<std::uint64_t>(count, bytes_ - offset)};
}

std::size_t DatasetFile::read_now(std::uint64_t offset, std::span<std::byte> to) const {
  if (storage_ != nullptr) {
    const std::uint64_t begin = std::min(offset, bytes_);
    to = to.first(std::min<std::uint64_t>(to.size(), bytes_ - begin));
    read_from_storage(std::array{WantedBytes{this, begin, to}});
    return to.size();
  }
  const auto begun = ReadClock::now();
  const std::int64_t got = read_at(descriptor_.get(), to, offset);
  if (got < 0) throw not_read(path_);
  ReadTally::here().add(seconds_since(begun), [&] { return path_; });
  return static_cast<std::size_t>(got);
}

bool DatasetFile::read_cached(std::uint64_t offset, std::span<std::byte> to) const noexcept {
  const iovec part{to.data(), to.size()};
  const ssize_t got = ::preadv2(descriptor_.get(), &part, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  return std::cmp_equal(got, to.size());
}

void DatasetFile::will_read(std::uint64_t offset, std::uint64_t count) const noexcept {
  if (memory_ == nullptr && storage_ == nullptr) will_read_at(descriptor_.get(), offset, count);
}

Error DatasetFile::damage(std::uint64_t offset, std::string_view what) const {
  return failure(ErrorCode::corrupt, "read {}: byte {}{}: {}", path_, offset,
                 is_decompressed_ ? " of what it unpacks to" : "", what);
}

}  // namespace rota::internal
