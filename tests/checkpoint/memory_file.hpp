#pragma once

// A checkpoint as bytes in memory, and all that reading it touches.

#include "files/file.hpp"
#include "reader.hpp"
#include "test.hpp"

namespace rota::test {

/// A file system in which every path is the same file, that can only be read.
class MemoryFile : public internal::FileSystem {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  int open(const char* /*path*/, int /*flags*/, mode_t /*mode*/) const override { return 0; }
  int close(int /*fd*/) const override { return 0; }
  ssize_t pread(int /*fd*/, void* out, std::size_t bytes, off_t at) const override {
    const auto begin = std::min(static_cast<std::size_t>(at), bytes_.size());
    const auto part = bytes_.subspan(begin, std::min(bytes, bytes_.size() - begin));
    if (!part.empty()) std::memcpy(out, part.data(), part.size());
    return static_cast<ssize_t>(part.size());
  }
  std::int64_t size(int /*fd*/) const override { return static_cast<std::int64_t>(bytes_.size()); }
  mode_t type(int /*fd*/) const override { return S_IFREG; }

 private:
  std::span<const std::byte> bytes_;
};

/// Opens as `open_checkpoint` does.
inline Checkpoint open_bytes(const MemoryFile& file) {
  CheckpointReader reader(file, "bytes in memory");
  reader.require_row_digests(reader.verify_extents({}));
  return std::move(reader).finish();
}

inline Verification verify_bytes(std::span<const std::byte> bytes) {
  return checkpoint::verify(MemoryFile(bytes), "bytes in memory");
}

/// Opens it and reads every tensor and every blob. Returns how many bytes these are.
inline std::size_t read_all(std::span<const std::byte> bytes) {
  const MemoryFile file(bytes);
  const Checkpoint checkpoint = open_bytes(file);
  std::size_t total = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    std::size_t count = size_of(tensor.dtype);
    for (const std::int64_t length : tensor.shape) count *= static_cast<std::size_t>(length);
    std::vector<std::byte> out(count);
    checkpoint.read(tensor.name, {0, tensor.rows()}, out);
    total += count;
  }
  const int size = checkpoint.info().world_size;
  for (const BlobInfo& blob : checkpoint.blobs()) {
    total += blob.rank < 0 ? checkpoint.blob(blob.name).size()
                           : checkpoint.rank_blob(blob.name, {.rank = blob.rank, .size = size})->size();
  }
  return total;
}

/// What happens by chance, and is the same for the same seed.
class Chance {
 protected:
  explicit Chance(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  template <typename T>
  T any(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  void one_of(std::initializer_list<std::function<void()>> works) { works.begin()[below(works.size())](); }

 private:
  std::mt19937_64 random_;
};

}  // namespace rota::test
