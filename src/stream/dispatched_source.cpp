#include "stream/dispatch_feed.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "core/option.hpp"
#include "mpi/collectives.hpp"
#include "order/shard_plan.hpp"
#include "rota/cereal.hpp"
#include "rota/error.hpp"
#include "stream/stream_facts.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kDispatching = "dispatch a source";

struct FieldText {
  Field field;

  template <typename Archive>
  void serialize(Archive& archive) {
    auto dtype = static_cast<std::int32_t>(field.dtype);
    archive(field.name, dtype, field.shape, field.ragged);
    field.dtype = static_cast<DType>(dtype);
  }
};

/// What rank 0 tells of its source.
struct Description {
  std::vector<FieldText> fields;
  std::int64_t cursor_numbers = 0;
  Fingerprint fingerprint;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(fields, cursor_numbers, fingerprint.high, fingerprint.low);
  }
};

class DispatchedSource final : public StreamSource {
 public:
  DispatchedSource(const Description& description, std::int64_t shards)
      : facts_{.fields = {}, .shards = shards, .cursor_numbers = description.cursor_numbers},
        fingerprint_(FingerprintBuilder()
                         .add("dispatch")
                         .add(rota::to_string(description.fingerprint))
                         .add(shards)
                         .finish()) {
    for (const FieldText& text : description.fields) facts_.fields.push_back(text.field);
  }

  [[nodiscard]] const std::vector<Field>& fields() const override { return facts_.fields; }
  [[nodiscard]] std::int64_t shards() const override { return facts_.shards; }
  [[nodiscard]] std::int64_t cursor_numbers() const override { return facts_.cursor_numbers; }
  [[nodiscard]] Fingerprint fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t /*epoch*/,
                                                  const StreamCursor& /*cursor*/) const override {
    throw Error(ErrorCode::unsupported,
                fmt::format("open shard {} of a dispatch: it is read by the loader on rank 0 alone; ask the "
                            "loader for batches",
                            shard.value));
  }

 private:
  StreamFacts facts_;
  Fingerprint fingerprint_;
};

void require_one_shard(const StreamFacts& facts) {
  if (facts.shards == 1) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{}: it has {} shards, and what is read once has 1; give it to a stream loader as it is",
                  kDispatching, facts.shards));
}

}  // namespace

void check(const Dispatch& dispatch, const World& world) {
  if (world.rank == 0 && dispatch.source == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "dispatch a source: the source is null on rank 0, which reads it; set it there, and "
                "pass the communicator of all ranks that share its samples to the StreamLoader: with a "
                "default-made one each process is rank 0");
  }
  constexpr OptionCheck kCheck(kDispatching);
  kCheck.in_range("shards", dispatch.shards, 1, kMaxShards);
  kCheck.one_of("rank_split", dispatch.rank_split, {"by_sample", "by_shard"});
}

std::shared_ptr<const StreamSource> describe(const Dispatch& dispatch, const mpi::Communicator& comm) {
  const std::string text = mpi::on_first_rank(comm, "ask what a dispatched source is", [&] {
    const StreamFacts facts = ask_facts(*dispatch.source, kDispatching);
    require_one_shard(facts);
    Description description{
        .fields = {}, .cursor_numbers = facts.cursor_numbers, .fingerprint = dispatch.source->fingerprint()};
    for (const Field& field : facts.fields) description.fields.push_back({field});
    return to_blob(description);
  });
  const auto description = from_blob<Description>(text);
  return std::make_shared<DispatchedSource>(description, dispatch.shards);
}

}  // namespace rota::internal
