#pragma once

// Whether generated files are there, and no more, as far as probes tell.

#include <string>

#include "catalog/open_context.hpp"
#include "catalog/probes.hpp"

namespace rota::internal {

/// **Collective** over `context`, whose ranks and threads share the work. Asks for the names of `probes` by
/// `look`, in the directory `shown`: empty, or ending in a slash. Throws on all ranks Error{not_found} where
/// some are missing, else Error{invalid_argument} where there are more files, else Error{io} where some are
/// forbidden or unreachable, naming the first three, and what is in the directory of the first.
void validate_files(const OpenContext& context, const Probes& probes, const LookForName& look,
                    const std::string& shown);

}  // namespace rota::internal
