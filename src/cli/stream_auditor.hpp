#pragma once

// The audit of streams. Internal to auditor.cpp.

#include <cstdint>
#include <map>

#include "cli/auditor.hpp"
#include "cli/stream_ledger.hpp"

namespace rota::trace {

/// Ticks off the samples of each shard, which come in the order of its stream. An epoch is over with the
/// first step of the next one, or when the run has ended.
class StreamAuditor : public Auditor {
 public:
  StreamAuditor(const AuditOptions& options, const TraceStart& first, Problems& problems)
      : Auditor(options, first, problems), ledger_(first.shards, problems) {}

 protected:
  [[nodiscard]] bool follows(const Position& start) const override;
  [[nodiscard]] Position after(const Step& step) const override;
  void move_to(const Position& to, bool is_gap) override;
  void check(const Step& step, bool counts, bool moves) override;
  void close() override;

 private:
  void check_owner(const Step& step, const Slice& slice);
  void check_samples();
  void check_samples(std::int64_t first_epoch, std::int64_t last_epoch, std::int64_t samples);

  StreamLedger ledger_;
  std::map<std::int64_t, int> owners_;  // of the shards of the epoch and phase at hand
  std::int64_t owned_in_ = -1;          // that phase
};

}  // namespace rota::trace
