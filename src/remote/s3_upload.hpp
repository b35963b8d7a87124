#pragma once

// Objects of S3 that are written.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "remote/s3_server.hpp"

namespace rota::internal {

/// Puts the bytes from `offset` on.
using Fill = std::function<void(std::uint64_t offset, std::span<std::byte> to)>;

/// As Storage::write. Every request is signed with the SHA-256 of what it brings, which the store checks.
void upload(const HttpClient& client, const S3Server& server, std::string_view name, std::uint64_t bytes,
            const Fill& fill);

/// As Storage::remove.
void remove_object(const HttpClient& client, const S3Server& server, std::string_view name);

}  // namespace rota::internal
