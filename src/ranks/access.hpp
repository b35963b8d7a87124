#pragma once

// How communicators are made, for those who make one of something new.

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "ranks/exchange.hpp"
#include "ranks/transport.hpp"
#include "rota/communicator.hpp"

namespace rota {

struct CommunicatorAccess {
  static Communicator of(std::unique_ptr<ranks::Exchange> exchange) {
    return Communicator(std::move(exchange));
  }
  static ranks::Exchange* exchange(const Communicator& comm) noexcept { return comm.exchange_.get(); }
};

namespace ranks {

/// Throws Error{invalid_argument} for a negative one.
void require_deadline(std::chrono::milliseconds deadline);
/// A `deadline` of 0 is none.
[[nodiscard]] Communicator make_communicator(std::unique_ptr<Transport> transport,
                                             std::chrono::milliseconds deadline);
/// **Collective.** Another transport among the ranks of `meeting`, by its deadline.
[[nodiscard]] std::unique_ptr<Transport> duplicate(Exchange& meeting);
/// **Collective** over `all`, by its deadline. One among `members` of it; see Transport::split.
[[nodiscard]] std::unique_ptr<Transport> split(Exchange& all, const std::vector<int>& members);

}  // namespace ranks

}  // namespace rota
