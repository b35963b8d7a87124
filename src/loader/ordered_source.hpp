#pragma once

#include <memory>
#include <vector>

#include "rota/loader_options.hpp"
#include "rota/run.hpp"
#include "rota/source.hpp"

namespace rota::internal {

/// What a loader reads, and in which order.
struct OrderedSource {
  std::shared_ptr<const Source> source;
  std::vector<Field> fields;  // that it said it has
  Run run;
};

/// Asks a source for what its order needs to know; `options` get the number of shards. Throws as
/// internal::ask_facts and ask_shard_lengths do.
[[nodiscard]] OrderedSource put_in_order(std::shared_ptr<const Source> source, LoaderOptions& options);
/// The same for a mixture.
[[nodiscard]] OrderedSource put_in_order(const Mixture& mixture, LoaderOptions& options);

}  // namespace rota::internal
