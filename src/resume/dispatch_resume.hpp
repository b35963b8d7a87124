#pragma once

#include "resume/saved_stream.hpp"

namespace rota::internal {

/// What this rank saves of a loader that is dispatched to.
[[nodiscard]] StreamParts parts_of_dispatch(const StreamLoader& loader);
/// Throws Error{mismatch} where it is of another source than `loader`'s, Error{corrupt}; moves nothing then.
void restore_dispatch(StreamLoader& loader, const SavedStream& saved);

}  // namespace rota::internal
