#pragma once

// What a source says of itself: asked once, and checked before anything is reckoned with it.

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/caught.hpp"
#include "rota/error.hpp"
#include "rota/source.hpp"

namespace rota::internal {

struct SourceFacts {
  std::int64_t size = 0;
  std::vector<Field> fields;
};

/// Throws Error{invalid_argument} for a null source; `task` begins the message.
void require_source(const std::shared_ptr<const Source>& source, std::string_view task);

/// Throws what the source throws, as an Error, and Error{callback} for a size or fields that cannot be.
/// `task` begins each message.
SourceFacts ask_facts(const Source& source, std::string_view task);

/// Source::part_sizes, Source::unit_sizes and Source::shard_lengths of a source of `size` samples. They throw
/// Error{callback} for lengths that do not add up to these.
std::vector<std::int64_t> ask_part_sizes(const Source& source, std::int64_t size, std::string_view task);
std::vector<std::int64_t> ask_unit_sizes(const Source& source, std::int64_t size, std::string_view task);
std::vector<std::int64_t> ask_shard_lengths(const Source& source, std::int64_t size, std::int64_t shards,
                                            std::string_view task);

/// Its own fingerprint, where `known_as` has it known by another one.
std::optional<Fingerprint> own_fingerprint(const Source& source);

/// What `source` makes for a worker alone; null where it makes nothing. Throws what it throws, and
/// Error{callback} for an instance that has other samples or fields.
std::shared_ptr<const Source> instance_of(const Source& source, const WorkerInfo& worker);

/// What method `method` of a user's source answers. What it throws is thrown as an Error.
template <typename Method>
auto ask(std::string_view task, std::string_view method, const Method& answer) {
  try {
    return answer();
  } catch (const Error&) {
    throw;
  } catch (...) {
    throw caught().as_error(fmt::format("{}: ask the source for its {}", task, method));
  }
}

}  // namespace rota::internal
