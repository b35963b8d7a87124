#pragma once

// Whether all ranks have the same.

#include <string>
#include <string_view>

#include "rota/mpi.hpp"

namespace rota::mpi {

/// **Collective.** Whether all ranks give the same bytes, by their digest.
[[nodiscard]] bool is_same(const Communicator& comm, std::string_view bytes);

/// **Collective.** Throws Error{mismatch} on all ranks, with both values, unless all give the same text.
/// `phase` begins the message.
void require_same(const Communicator& comm, std::string_view phase, const std::string& mine);

}  // namespace rota::mpi
