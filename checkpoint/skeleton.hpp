#pragma once

// The HDF5 part of a checkpoint without its data: groups, datasets that are allotted but not written, and
// attributes.

#include "commit_page.hpp"
#include "contents.hpp"
#include "sparse_image.hpp"

namespace rota::checkpoint {

/// Makes it under HDF5's lock, and sets where everything lies in `contents`, which says all else. Of `page`
/// only what the caller knows by now is used. Throws Error{io} where HDF5 fails.
[[nodiscard]] SparseImage make_skeleton(Contents& contents, const CommitPage& page);

}  // namespace rota::checkpoint
