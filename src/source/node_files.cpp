#include "source/node_files.hpp"

#include <fmt/format.h>

#include "rota/error.hpp"

namespace rota::internal {

void check_range(SampleRange samples, std::int64_t size) {
  if (samples.begin >= 0 && samples.begin <= samples.end && samples.end <= size) return;
  throw Error(ErrorCode::out_of_range, fmt::format("bring samples [{}, {}): the dataset has {} samples",
                                                   samples.begin, samples.end, size));
}

Fetched fetched_by(const Source& source) {
  const NodeFiles* files = source.node_files();
  return files == nullptr ? Fetched() : files->fetched();
}

std::shared_ptr<const void> ScatteredNodeFiles::pin(SampleRange /*samples*/, bool /*reads*/) const {
  throw Error(ErrorCode::unsupported,
              "pin files of a dataset: they are shared in memory, because they are compressed, or because "
              "the option share_files says so, and the samples of a range lie all over them, as those of a "
              "split or of a packing do; unpack the files beside, or do not share them");
}

}  // namespace rota::internal
