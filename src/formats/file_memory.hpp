#pragma once

// Files that are held in memory, decompressed where they are compressed as a whole.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "catalog/file_names.hpp"
#include "catalog/files.hpp"
#include "files/dataset_file.hpp"
#include "files/memory_file.hpp"

namespace rota::internal {

/// How a file is compressed as a whole.
enum class Compression : std::uint32_t { none, gzip, zstd, other };

/// How a file is compressed, and how many bytes it decompresses to; negative where that is not known.
struct FileEncoding {
  Compression compression = Compression::none;
  std::int64_t raw_bytes = -1;
};

/// How `file`, which is open, is compressed, by its first bytes. Throws Error{io}.
Compression compression_of(const DatasetFile& file);

/// Throws Error{unsupported} where what a file decompresses to, `file`, is compressed in its turn.
void refuse_compressed(const DatasetFile& file);

/// The name without an ending of such compression, such as ".gz".
std::string_view without_compression(std::string_view name);

/// Takes bytes that follow those of the call before; false: no more are wanted.
using RawSink = std::function<bool(std::span<const std::byte> raw)>;

inline constexpr std::size_t kBlockBytes = 1 << 18;

/// Gives what `file` decompresses to, piece by piece, to `sink`: all members of gzip (RFC 1952) or zlib, all
/// frames of zstd (RFC 8878) with windows of up to 128 MiB, which is the memory that it takes; what
/// libarchive knows beside them: bzip2, xz, lzip, LZ4, compress; the bytes themselves where it is not
/// compressed. Blocks on storage. Checksums are verified, before the end is reached where there are some
/// inside. Throws Error{corrupt} naming the file and a byte of it, Error{io}. `piece_bytes` of the file are
/// read at a time.
void decompress(const DatasetFile& file, Compression compression, const RawSink& sink,
                std::size_t piece_bytes = kBlockBytes);

/// The first `bytes` bytes of what `file` decompresses to, or all where it is shorter. Throws as `decompress`
/// does.
std::string decompress_head(const DatasetFile& file, Compression compression, std::size_t bytes);

/// Of files that are not compressed.
std::vector<FileEncoding> as_they_are(const FileList& files);

/// What a file decompresses to, or a copy of it, in memory that nobody can change and other processes can
/// open. *Immutable*, any thread.
class FileMemory {
 public:
  /// Its pages are there. Throws Error{io}.
  explicit FileMemory(MemoryFile file)
      : file_(std::move(file)), bytes_(file_.bytes()), memory_(file_.map(true)) {}
  /// Of another process's, which takes no descriptor.
  explicit FileMemory(const MemoryFile::Address& address) : FileMemory(MemoryFile(address)) { file_.close(); }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {memory_.get(), bytes_}; }
  /// For other processes. Throws Error{io}.
  [[nodiscard]] MemoryFile::Address address() const { return file_.address(); }

 private:
  MemoryFile file_;
  std::size_t bytes_;
  std::shared_ptr<const std::byte> memory_;
};

/// File `i`, decompressed or copied. Blocks on storage. Memory is taken as data come. Throws Error{corrupt}
/// naming the file and a byte of it where it cannot be decompressed, decompresses to other than
/// `as.raw_bytes`, or has changed its size since it was listed; Error{io}, Error{not_found}. `on_piece` is
/// called now and then, while pieces of it come.
std::shared_ptr<const FileMemory> fetch_file(
    const FileList& files, std::size_t i, const FileEncoding& as,
    const std::function<void()>& on_piece = [] {});

/// File `i`, read from `memory`: what it decompresses to, where it `is_decompressed`, or a copy.
DatasetFile file_in_memory(const FileList& files, std::size_t i, std::shared_ptr<const FileMemory> memory,
                           bool is_decompressed);
/// What file `i` decompresses to. Throws as `fetch_file` does.
DatasetFile decompress_file(const FileList& files, std::size_t i, const FileEncoding& as);

}  // namespace rota::internal
