#pragma once

// Lists of files whose names are computed.

#include <memory>
#include <string>

#include "catalog/files.hpp"

namespace rota::internal {

/// **Collective** over `context`. The files of `pattern`. Throws as Catalog::from_pattern does.
FileList generate_files(const std::shared_ptr<const OpenContext>& context, const std::string& pattern,
                        const PatternOptions& options);

}  // namespace rota::internal
