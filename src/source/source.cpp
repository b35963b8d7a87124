#include "rota/source.hpp"

#include <fmt/format.h>

#include "rota/error.hpp"

namespace rota {

std::size_t Field::row_bytes() const noexcept {
  std::size_t bytes = size_of(dtype);
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

void Source::rows(std::span<const SampleId> /*ids*/, std::size_t field,
                  std::span<std::int64_t> /*out*/) const {
  throw Error(
      ErrorCode::unsupported,
      fmt::format("ask a source for the rows of field \"{}\": the source does not override rows(); do "
                  "so where a field is ragged",
                  fields()[field].name));
}

std::shared_ptr<const void> Source::bring(std::span<const SampleId> /*ids*/) const { return nullptr; }

Fingerprint Source::fingerprint() const {
  FingerprintBuilder builder;
  builder.add("source").add(size());
  for (const Field& field : fields()) {
    builder.add(field.name).add(to_string(field.dtype)).add(field.shape).add(field.ragged ? 1 : 0);
  }
  return builder.finish();
}

std::string Source::where(SampleId /*id*/) const { return {}; }

std::vector<std::int64_t> Source::part_sizes() const { return {}; }

std::vector<std::int64_t> Source::shard_lengths(std::int64_t /*shards*/) const { return {}; }

void check_ids(const Source& source, std::span<const SampleId> ids) {
  const std::int64_t size = source.size();
  for (const SampleId id : ids) {
    if (id.value >= 0 && id.value < size) continue;
    throw Error(
        ErrorCode::out_of_range,
        fmt::format("read sample {}: the dataset has {} samples; ids go from 0 to one less", id.value, size));
  }
}

}  // namespace rota
