#include "source/source_facts.hpp"

#include <algorithm>

#include "core/failure.hpp"
#include "source/field_check.hpp"

namespace rota::internal {
namespace {

// `what` are the `lengths`, that `method` has answered.
void require_sum(std::span<const std::int64_t> lengths, std::int64_t size, std::string_view task,
                 std::string_view what, std::string_view method) {
  std::int64_t sum = 0;
  const auto is_wrong = [&](std::int64_t length) {
    if (length < 0 || length > size - sum) return true;
    sum += length;
    return false;
  };
  const auto wrong = std::ranges::find_if(lengths, is_wrong);
  if (wrong == lengths.end() && sum == size) return;
  throw failure(ErrorCode::callback,
                "{}: the source says that its {} samples are in {} {}, of which {}; mend its {}()", task,
                size, lengths.size(), what,
                wrong == lengths.end() ? fmt::format("all together have {}", sum)
                                       : fmt::format("one has {}, behind {}", *wrong, sum),
                method);
}

}  // namespace

void require_source(const std::shared_ptr<const Source>& source, std::string_view task) {
  if (source != nullptr) return;
  throw failure(ErrorCode::invalid_argument, "{}: there is no source (a null pointer)", task);
}

SourceFacts ask_facts(const Source& source, std::string_view task) {
  SourceFacts facts{.size = ask(task, "size", [&] { return source.size(); }),
                    .fields = ask(task, "fields", [&] { return source.fields(); })};
  if (facts.size < 0 || facts.size > kMaxCount) {
    throw failure(ErrorCode::callback,
                  "{}: the source says that it has {} samples; its size() must be 0 to 2^62", task,
                  facts.size);
  }
  check_fields(facts.fields, task, "the source");
  return facts;
}

std::vector<std::int64_t> ask_part_sizes(const Source& source, std::int64_t size, std::string_view task) {
  auto sizes = ask(task, "parts", [&] { return source.part_sizes(); });
  if (!sizes.empty()) require_sum(sizes, size, task, "parts", "part_sizes");
  return sizes;
}

std::vector<std::int64_t> ask_unit_sizes(const Source& source, std::int64_t size, std::string_view task) {
  auto sizes = ask(task, "units of compression", [&] { return source.unit_sizes(); });
  if (!sizes.empty()) require_sum(sizes, size, task, "units", "unit_sizes");
  return sizes;
}

std::vector<std::int64_t> ask_shard_lengths(const Source& source, std::int64_t size, std::int64_t shards,
                                            std::string_view task) {
  auto lengths = ask(task, "shards", [&] { return source.shard_lengths(shards); });
  if (lengths.empty()) return lengths;
  if (std::ssize(lengths) != shards) {
    throw failure(
        ErrorCode::callback,
        "{}: the source splits its samples into {} shards; it was asked for {}; mend its shard_lengths()",
        task, lengths.size(), shards);
  }
  require_sum(lengths, size, task, "shards", "shard_lengths");
  return lengths;
}

std::shared_ptr<const Source> instance_of(const Source& source, const WorkerInfo& worker) {
  std::shared_ptr<const Source> own = source.for_worker(worker);
  if (!own || (own->size() == source.size() && own->fields() == source.fields())) return own;
  throw failure(
      ErrorCode::callback,
      "the source has {} samples of {}; what its for_worker() makes has {} of {}; let both have the same",
      source.size(), describe(source.fields()), own->size(), describe(own->fields()));
}

}  // namespace rota::internal
