#pragma once

// What a loader is about to read, for sources that decode several samples together.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "rota/source.hpp"

namespace rota::internal {

/// As LoaderStats has them.
struct DecodeCounts {
  std::int64_t decodes = 0;
  double chunks = 0;
};

/// The samples that one loader will read, told ahead in the order of reading. By it a source keeps what it
/// has decoded until it is read. A hint: others may be read, too, and told ones need not be. Once destroyed,
/// what is open is not expected any more. *One thread.*
class ReadPlan {
 public:
  ReadPlan() = default;
  virtual ~ReadPlan() = default;
  ReadPlan(const ReadPlan&) = delete;
  ReadPlan& operator=(const ReadPlan&) = delete;

  /// How many samples it wants to know ahead; 0: none, from now on.
  [[nodiscard]] virtual std::int64_t samples_ahead() const = 0;
  /// These come after all that were told before.
  virtual void tell(std::span<const SampleId> ids) = 0;
  /// What the source has decoded for all its readers. Any thread.
  [[nodiscard]] virtual DecodeCounts decoded() const = 0;

  /// One like this of a process that reads no bytes, alone with its memory: `pass` stands for its reads. Null
  /// where that is not known.
  [[nodiscard]] virtual std::shared_ptr<ReadPlan> without_bytes() const { return nullptr; }
  /// As if these samples were read together.
  virtual void pass(std::span<const SampleId> /*ids*/) {}
};

/// What `source` has decoded.
[[nodiscard]] DecodeCounts decoded_by(const Source& source);

/// The plan of a source that reads each of its samples as some of another one.
class MappedPlan final : public ReadPlan {
 public:
  using Map = std::function<std::vector<SampleId>(std::span<const SampleId>)>;
  /// Null where `inner` is. `map` makes about `count` of each.
  static std::shared_ptr<ReadPlan> of(std::shared_ptr<ReadPlan> inner, std::int64_t count, Map map);

  MappedPlan(std::shared_ptr<ReadPlan> inner, std::int64_t count, Map map)
      : inner_(std::move(inner)), count_(count), map_(std::move(map)) {}
  [[nodiscard]] std::int64_t samples_ahead() const override {
    return (inner_->samples_ahead() + count_ - 1) / count_;
  }
  void tell(std::span<const SampleId> ids) override { inner_->tell(map_(ids)); }
  [[nodiscard]] DecodeCounts decoded() const override { return inner_->decoded(); }

 private:
  std::shared_ptr<ReadPlan> inner_;
  std::int64_t count_;
  Map map_;
};

}  // namespace rota::internal
