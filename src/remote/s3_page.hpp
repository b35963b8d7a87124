#pragma once

// Lists of objects, as S3 answers them.

#include <string>
#include <string_view>
#include <vector>

#include "rota/storage.hpp"

namespace rota::internal {

/// A page of a list of objects.
struct S3Page {
  std::vector<StoredFile> files = {};
  std::vector<std::string> directories = {};  ///< "bucket/a/", where files in them are left out
  std::string next = {};                      ///< what asks for the next page; empty: there is none
};

/// The page in an answer to ListObjectsV2 for `bucket`. What is wrong with it is put into `trouble`, and
/// nothing else is then of use. `token` has asked for it.
S3Page parse_page(std::string_view xml, std::string_view bucket, std::string_view token,
                  std::string& trouble);

}  // namespace rota::internal
