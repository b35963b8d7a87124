#pragma once

// What was handed out, and what became of it.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/mutex.hpp"
#include "rota/loader_options.hpp"
#include "rota/run.hpp"

namespace rota::internal {

/// A sample, by the name that everybody has for it.
struct SampleName {
  SampleId id;
  std::int64_t epoch = 0;
  friend bool operator==(const SampleName&, const SampleName&) = default;
};
using SampleNames = std::span<const SampleName>;

/// Samples in a list of one rank, of those that were skipped or dropped.
inline constexpr std::size_t kMostListed = 1000;
/// A sample of what cannot be read again, with all that it holds.
struct KeptSample {
  SampleName name;
  std::string record;
  [[nodiscard]] std::span<const std::byte> bytes() const { return std::as_bytes(std::span(record)); }
  /// By which they are in the order of the source.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> place() const { return {name.epoch, name.id.value}; }
};
using KeptSamples = std::vector<KeptSample>;

/// The open samples of one rank. They are *out*, with whoever trains on them, or *given up*, and to be handed
/// out again. What is settled or dropped is kept no longer. Any thread; who waits for room holds up nobody.
class Ledger {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::int64_t kAnyBytes = std::numeric_limits<std::int64_t>::max();

  /// At most `limit` samples, and those of a batch, are out; records of so many bytes, and those, are open.
  explicit Ledger(std::int64_t limit, std::int64_t most_bytes = kAnyBytes)
      : limit_(limit), most_bytes_(most_bytes) {}

  // ---- of who hands out ----

  /// Blocks as long as too many are out, up to `deadline`; 0: for ever. Throws Error{timeout} that names the
  /// oldest, and says where none was ever settled.
  void wait_for_room(std::chrono::milliseconds deadline);
  [[nodiscard]] bool has_room() const {
    const MutexLock lock(mutex_);
    return may_hand_out();
  }
  /// Samples of `batch` are out from here on. Where there is no other rank, one of a batch that is handed out
  /// again may have been settled meanwhile: its slot becomes padding. Returns how many were.
  std::int64_t hand_out(RunSlice& batch, bool is_alone);
  /// The same of what cannot be read again: each is kept as long as it is open.
  void hand_out(RunSlice& batch, KeptSamples samples);
  /// What was given up and not taken yet. It stays open.
  /// `forgets`: it is open no more, here.
  [[nodiscard]] std::vector<SampleName> take_given_up(bool forgets = false);
  /// It was taken, and is to be taken again.
  void give_back(SampleNames names);
  /// Those with records, which are open here no more; and back, where they were not taken after all.
  [[nodiscard]] KeptSamples take_items_given_up();
  void give_back(KeptSamples items);
  /// They are open, of before a restart, and will be handed out again; or are known to another ledger.
  void expect(SampleNames names);
  void forget(SampleNames names);
  /// Begins anew, because of what `by` names. Returns how many were open.
  std::size_t restart(std::string_view by);
  /// A state goes back to no place before this one.
  void keep_from(const Position& at);

  // ---- of who writes down what is said ----

  /// Is told of samples before they are settled, or dropped for a reason; where it throws, they are not.
  using Witness = std::function<void(SampleNames names, std::optional<std::string_view> reason)>;
  /// Calls `begin` with what is open, and from there on `witness`, in place of another, until `who` came last
  /// and leaves.
  void admit(const void* who, Witness witness, const std::function<void(SampleNames open)>& begin);
  void dismiss(const void* who);
  /// Calls `write` while nobody is told.
  template <typename Write>
  void between(Write write) const {
    const MutexLock lock(mutex_);
    write();
  }

  // ---- of who trains: for all names or for none; Error{invalid_argument} for a sample that is not out ----

  void settle(SampleNames names);
  /// The same of a whole batch, of which these are the samples of this rank that count, if there are any.
  void settle_batch(SampleNames names, const Position& start, const Position& end);
  /// Throws Error{invalid_argument} for a reason that is no UTF-8, too, as a state cannot have it.
  void drop(SampleNames names, std::string_view reason);
  /// Also what is given up, or with nobody: the same on all ranks, of which one lists it.
  void drop_rest(SampleNames names, std::string_view reason, bool is_listed);
  void again(SampleNames names);
  void again();
  /// Settles what is open of them, out or given up. For each whether it was.
  std::vector<bool> try_settle(SampleNames names);

  // ---- what is asked ----

  using Drops = std::map<std::string, std::int64_t>;  ///< how many, by reason
  struct Open {
    Position place;  ///< all before it was handed out, but for whole batches that nobody touched
    std::vector<SampleName> names;  ///< before it; maybe some behind
    bool is_in_order = true;        ///< nothing but whole batches was settled, always the oldest one
    Drops dropped_before;           ///< those that all ranks know
    Drops dropped;                  ///< by this rank since the last restore
  };
  /// Of a run that has handed out all before `at`.
  [[nodiscard]] Open open(const Position& at) const;
  [[nodiscard]] KeptSamples open_items() const;
  /// Those of `names` that are.
  [[nodiscard]] std::vector<SampleName> open_of(SampleNames names) const;
  struct Counts {
    std::int64_t out = 0;
    std::int64_t given_up = 0;
    double oldest_seconds = 0;
    std::int64_t again = 0;
    std::int64_t dropped = 0;
  };
  [[nodiscard]] Counts counts() const;
  /// How often anything was said of samples.
  [[nodiscard]] std::int64_t changes() const {
    const MutexLock lock(mutex_);
    return changes_;
  }
  [[nodiscard]] DroppedSamples dropped() const;
  /// All ranks know of these, with this rank's part of the list, and there are none since.
  void restore(DroppedSamples before);

 private:
  /// A batch of which something is open; or one without samples, of which nobody has said that it is done
  /// with.
  struct Entry {
    Position start;
    Position end;
    Clock::time_point since = Clock::now();
    std::int64_t open = 0;  ///< of the samples that came with it first
    std::int64_t out = 0;   ///< with it
    bool is_touched = false;
    [[nodiscard]] bool is_again() const noexcept { return start == end; }
    [[nodiscard]] bool is_empty() const noexcept { return open == 0 && out == 0; }
  };
  using Entries = std::list<Entry>;
  struct Sample {
    Entries::iterator first;  ///< that it came with; the end of entries where that is long ago
    Entries::iterator by;     ///< that it is out with; the end of entries where it is given up
    bool is_named = false;    ///< in the call at hand
    std::string record = {};
  };
  struct Hash {
    std::size_t operator()(const SampleName& name) const noexcept {
      const auto hash =
          (static_cast<std::uint64_t>(name.id.value) ^ static_cast<std::uint64_t>(name.epoch) << 40) *
          0x9E3779B97F4A7C15U;
      return hash ^ hash >> 32;
    }
  };
  using Samples = std::unordered_map<SampleName, Sample, Hash>;

  std::int64_t enter(RunSlice& batch, bool is_expected, Entries::iterator entry) ROTA_REQUIRES(mutex_);
  void drop_if_empty(Entries::iterator entry) ROTA_REQUIRES(mutex_);
  void find(std::string_view verb, SampleNames names) ROTA_REQUIRES(mutex_);
  void changed(bool is_in_order) ROTA_REQUIRES(mutex_);
  void close_all(std::string_view verb, SampleNames names, bool is_in_order,
                 std::optional<std::string_view> reason = {}) ROTA_REQUIRES(mutex_);
  void bear_witness(SampleNames names, std::optional<std::string_view> reason = {}) const
      ROTA_REQUIRES(mutex_);
  void close(Samples::iterator sample) ROTA_REQUIRES(mutex_);
  void take_back(Sample& sample) ROTA_REQUIRES(mutex_);
  void touch(Entries::iterator entry) ROTA_REQUIRES(mutex_);
  void list(SampleNames names, std::string_view reason) ROTA_REQUIRES(mutex_);
  [[nodiscard]] bool may_hand_out() const ROTA_REQUIRES(mutex_) {
    return out_ == 0 || (out_ < limit_ && bytes_ < most_bytes_);  // with none out, nobody makes room
  }
  [[nodiscard]] std::string full(std::string_view conjunction) const ROTA_REQUIRES(mutex_);
  [[nodiscard]] std::string oldest() const ROTA_REQUIRES(mutex_);

  const std::int64_t limit_;
  const std::int64_t most_bytes_;
  mutable Mutex mutex_;
  std::condition_variable has_room_;
  Entries entries_ ROTA_GUARDED_BY(mutex_);
  Samples samples_ ROTA_GUARDED_BY(mutex_);
  std::vector<Samples::iterator> found_ ROTA_GUARDED_BY(mutex_);  // of the call at hand
  std::vector<SampleName> given_up_ ROTA_GUARDED_BY(mutex_);      // and not taken; some may be settled since
  std::int64_t out_ ROTA_GUARDED_BY(mutex_) = 0;
  std::int64_t bytes_ ROTA_GUARDED_BY(mutex_) = 0;  // of records
  std::int64_t empty_ ROTA_GUARDED_BY(mutex_) = 0;  // entries
  std::int64_t again_ ROTA_GUARDED_BY(mutex_) = 0;
  Drops dropped_before_ ROTA_GUARDED_BY(mutex_);
  DroppedSamples dropped_ ROTA_GUARDED_BY(mutex_);  // since; and its list
  Position floor_ ROTA_GUARDED_BY(mutex_);
  std::int64_t changes_ ROTA_GUARDED_BY(mutex_) = 0;
  bool has_settled_ ROTA_GUARDED_BY(mutex_) = false;
  bool is_in_order_ ROTA_GUARDED_BY(mutex_) = true;
  std::string restarted_by_ ROTA_GUARDED_BY(mutex_);
  const void* who_ ROTA_GUARDED_BY(mutex_) = nullptr;
  Witness witness_ ROTA_GUARDED_BY(mutex_);
};

}  // namespace rota::internal
