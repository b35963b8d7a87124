#pragma once

// Datasets whose samples are some of those of another one.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rota/source.hpp"
#include "source/read_plan.hpp"

namespace rota::internal {

/// Its sample i is sample `original(i)` of `whole`.
class MappedSource : public Source, public PlannedSource {
 public:
  MappedSource(std::shared_ptr<const Source> whole, std::vector<Field> fields, std::int64_t size)
      : whole_(std::move(whole)), fields_(std::move(fields)), size_(size) {}

  [[nodiscard]] std::int64_t size() const final { return size_; }
  [[nodiscard]] const std::vector<Field>& fields() const final { return fields_; }
  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const final;
  void read(std::span<const SampleId> ids, const BatchView& out) const final;
  void read_rows(std::span<const SampleRows> wanted, std::size_t field) const final;
  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const final;
  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t open) const final;
  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most) const final;
  [[nodiscard]] std::string where(SampleId id) const final;

 protected:
  [[nodiscard]] const Source& whole() const noexcept { return *whole_; }
  /// Of a sample that there is.
  [[nodiscard]] virtual SampleId original(SampleId id) const noexcept = 0;
  /// The originals of neighbours, where they are neighbours, too.
  [[nodiscard]] virtual std::function<SampleRange(SampleRange)> original_range() const { return {}; }
  /// The same samples of `whole`, an instance of its source for one worker.
  [[nodiscard]] virtual std::unique_ptr<const Source> of(std::shared_ptr<const Source> whole) const = 0;

 private:
  [[nodiscard]] std::vector<SampleId> originals(std::span<const SampleId> ids) const;

  std::shared_ptr<const Source> whole_;
  std::vector<Field> fields_;
  std::int64_t size_;
};

/// As rota::select, of ids in memory that `keep` keeps.
std::shared_ptr<const Source> select(const std::shared_ptr<const Source>& source,
                                     std::shared_ptr<const void> keep, std::span<const SampleId> ids);

}  // namespace rota::internal
