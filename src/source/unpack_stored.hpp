#pragma once

// What elements of files become: fields of numbers and of text.

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "source/stored_type.hpp"

namespace rota::internal {

/// How a source reads what of its fields its `read` does not give.
struct StoredReads {
  /// Fixed field f alone, of all samples, side by side; empty: `read` is as good.
  std::function<void(std::span<const SampleId>, std::size_t, std::span<std::byte>)> field = {};
  /// For each sample, what kReferenceBytes of field f say to be elsewhere, into its memory.
  std::function<void(std::span<const SampleId>, std::size_t, std::span<const std::byte>,
                     std::span<const std::span<std::byte>>)>
      heap = {};
};

/// `source`, whose field f holds elements of types[f], with fields of what these are: "NAME", or
/// "NAME.MEMBER" for each member. Text becomes bytes of UTF-8, ragged. The source itself where nothing is to
/// be done. Throws Error{unsupported}, headed by `task`, for more than one text in a sample.
std::shared_ptr<const Source> unpack_stored(std::shared_ptr<const Source> source,
                                            const std::vector<StoredType>& types, std::string_view task,
                                            StoredReads reads = {});

}  // namespace rota::internal
