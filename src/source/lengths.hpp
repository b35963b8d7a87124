#pragma once

// How long the samples of a source are, known before any is read.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "ranks/node_buffer.hpp"
#include "ranks/nodes.hpp"
#include "rota/balance.hpp"
#include "rota/fingerprint.hpp"
#include "rota/source.hpp"

namespace rota::internal {

/// What is asked for, and how messages call it.
struct LengthQuestion {
  static constexpr std::int64_t kMost = std::int64_t{1} << 62;  ///< rows of a sample

  std::string_view task;                    ///< begins messages: "pack documents"
  std::string_view sample = "sample";       ///< what a sample is called there
  std::string_view rows = "rows";           ///< and its rows
  std::span<const std::size_t> alike = {};  ///< more ragged fields, with as many rows in each sample
  int threads = 1;                          ///< of each rank
};

/// The rows of ragged field `field` of the `size` samples of `source`, once on each node. All ranks and
/// threads share the work: each sample is asked for once, for each field. **Collective** over `nodes`. Throws
/// on all ranks what it throws on one: as Source::rows does, Error{callback} for a number of rows that cannot
/// be, Error{mismatch} where a field of `alike` has another number, Error{io} without memory.
Lengths ask_lengths(const Source& source, std::int64_t size, std::size_t field,
                    const LengthQuestion& question, const ranks::Nodes& nodes);

/// **Collective.** Asks for the lengths that a balance takes of fields of `source`. Throws as lengths_of
/// does, and Error{not_found} for lengths of a field that there is not.
void find_lengths(const Communicator& comm, const Source& source, int threads, Balance& balance);

}  // namespace rota::internal
