#pragma once

// Files that are compressed as a whole, from their beginning to their end.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "formats/records.hpp"

namespace rota::internal {

/// How a file that begins as `head`, 4 bytes or more where it has so many, is compressed.
Compression compression_of(std::span<const std::byte> head) noexcept;
/// The same of an open file. Throws Error{io}.
Compression compression_of(const RecordFile& file);

/// Takes bytes that follow those of the call before; false: no more are wanted.
using RawSink = std::function<bool(std::span<const std::byte> raw)>;

/// Gives what `file` unpacks to, piece by piece, to `sink`: all members of gzip (RFC 1952), all frames of
/// zstd (RFC 8878) with windows of up to 128 MiB, which is the memory that it takes, the bytes themselves
/// where it is not packed. Blocks on storage. Checksums are verified, before the end is reached where there
/// are some inside. Throws Error{corrupt} naming the file and a byte of it, Error{io}.
void decompress(const RecordFile& file, Compression compression, const RawSink& sink);

/// The first `bytes` bytes of what `file` unpacks to, or all where it is shorter. Throws as `decompress`
/// does.
std::string decompress_head(const RecordFile& file, Compression compression, std::size_t bytes);

}  // namespace rota::internal
