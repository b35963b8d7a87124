#pragma once

// Catalogs as bytes for other processes, which list no files.

#include <memory>
#include <string>
#include <string_view>

#include "catalog/files.hpp"
#include "catalog/saved.hpp"

namespace rota::internal {

/// All of a catalog.
struct SentCatalog {
  FileList files;
  Origin origin;
  CatalogChanges changes;
};

std::string encode_sent(const SentCatalog& catalog);

/// The other way round, for one process. Throws as Catalog::deserialize does.
SentCatalog parse_sent(const std::shared_ptr<const OpenContext>& context, std::string_view bytes);

}  // namespace rota::internal
