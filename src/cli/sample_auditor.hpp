#pragma once

// The audit of samples with ids. Internal to auditor.cpp.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/auditor.hpp"
#include "cli/coverage.hpp"

namespace rota::trace {

/// Ticks off the samples of one dataset, or of each of a mixture: there, an epoch is a dataset's own, and the
/// run's place counts samples of the run.
class SampleAuditor : public Auditor {
 public:
  SampleAuditor(const AuditOptions& options, const TraceStart& first, Problems& problems);

 protected:
  [[nodiscard]] bool follows(const Position& start) const override;
  [[nodiscard]] Position after(const Step& step) const override;
  void move_to(const Position& to, bool is_gap) override;
  void check(const Step& step, bool counts, bool moves) override;
  void close() override;

 private:
  // One rank's part of a global batch that was rolled back.
  struct Piece {
    std::int64_t phase = 0;
    int rank = 0;
    std::vector<std::int64_t> slots;
    std::vector<std::int64_t> ids;
  };
  // Epoch, samples consumed, slots, and the tail where it matters.
  using PieceKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, int>;

  // A global batch in canonical order.
  struct Canonical {
    std::vector<std::int64_t> ids;
    std::vector<SlotKind> kinds;
    std::vector<std::uint64_t> digests;
  };

  // A dataset, and what was seen of it.
  struct Dataset {
    std::int64_t first_id = 0;
    std::int64_t samples = 0;
    Coverage coverage;
    std::int64_t epoch = 0;  // of a mixture: the highest seen
  };

  void check_size(const Step& step);
  void check_share(const Step& step, const Slice& slice);
  void check_turns(const Step& step, const Slice& slice);
  void check_slot(const Step& step, const Slice& slice, std::size_t i, bool counts);
  void check_padding(const Step& step, const Slice& slice, std::size_t i, bool counts);
  void check_content(const Step& step, const Slice& slice, std::size_t i);
  void check_rerun(const Step& step);
  void keep_rolled_back(const Step& step);
  void assemble(const Step& step);
  void close_epochs(Dataset& dataset, std::int64_t before, std::int64_t dropped);
  void close_mixture();
  void close_run();

  [[nodiscard]] bool is_mixture() const noexcept { return datasets_.size() > 1; }
  [[nodiscard]] bool drops_to(const Position& place) const;
  // Samples of the epoch at hand that are still to come.
  [[nodiscard]] std::int64_t left() const noexcept { return samples_ - at_.consumed; }
  [[nodiscard]] std::int64_t epoch_of(const Step& step, const Slice& slice, std::size_t i) const;
  [[nodiscard]] Dataset* dataset_of(std::int64_t id);
  [[nodiscard]] PieceKey key_of(const Step& step) const;

  std::vector<Dataset> datasets_;
  std::int64_t samples_ = 0;  // of an epoch; of a mixture, which has none, more than will ever be
  Contents contents_;
  std::int64_t dropped_ = 0;  // that Tail::drop may leave out behind the step at hand
  std::optional<std::pair<std::int64_t, Position>>
      short_batch_;  // its phase; only the last there may be short
  Canonical canonical_;
  std::map<PieceKey, std::vector<Piece>> rolled_back_;
};

}  // namespace rota::trace
