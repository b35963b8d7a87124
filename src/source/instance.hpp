#pragma once

// The instances of sources that a worker has for itself.

#include <memory>

#include "rota/source.hpp"

namespace rota::internal {

/// What `source` makes for a worker alone; null where it makes nothing. Throws what it throws, and
/// Error{callback} for an instance that has other samples or fields.
std::shared_ptr<const Source> instance_of(const Source& source, const WorkerInfo& worker);

}  // namespace rota::internal
