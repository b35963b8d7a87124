#pragma once

// Lists of the objects of S3.

#include <cstddef>
#include <functional>
#include <string_view>

#include "remote/http.hpp"
#include "remote/s3_server.hpp"
#include "rota/storage.hpp"

namespace rota::internal {

/// As Storage::list. Where the first page is full, and lies in few directories, these are listed beside each
/// other, with up to `at_once` requests under way.
void list_objects(const HttpClient& client, const S3Server& server, std::string_view prefix,
                  std::size_t at_once, const std::function<void(const StoredFile&)>& visit);

}  // namespace rota::internal
