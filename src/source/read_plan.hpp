#pragma once

// What a loader is about to read, for sources that get ready for it.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "order/order.hpp"
#include "rota/source.hpp"
#include "source/content.hpp"

namespace rota::internal {

/// What a source has done in this process for all its readers, as LoaderStats has it.
struct ReadCounts {
  std::int64_t files = 0;  ///< fetched into memory of the node: decompressed, or copied
  std::int64_t bytes = 0;  ///< of these, in memory
  std::int64_t decodes = 0;
  double chunks = 0;

  ReadCounts& operator+=(const ReadCounts& other) noexcept {
    files += other.files;
    bytes += other.bytes;
    decodes += other.decodes;
    chunks += other.chunks;
    return *this;
  }
};

/// Where the samples of a range are in files that the ranks of a node share in memory: there are no such
/// files; in few of them; all over them, as those of a split or of a packing.
enum class Sharing { none, in_few, all_over };

/// What one loader will read of a source, which outlives it: the only word about the future. The source
/// brings near, keeps or pins by it what it can. A hint: others may be read, too, and told ones need not be.
/// Once destroyed, what was told is not expected any more. *One thread.*
class ReadPlan {
 public:
  /// That of a source without one of its own.
  explicit ReadPlan(const Source& source) : source_(source) {}
  virtual ~ReadPlan() = default;
  ReadPlan(const ReadPlan&) = delete;
  ReadPlan& operator=(const ReadPlan&) = delete;

  /// How many samples it wants to know ahead, to keep what it decodes until it is read; 0: none, from now on.
  [[nodiscard]] virtual std::int64_t samples_ahead() const { return 0; }
  /// These come after all that were told before.
  virtual void tell(std::span<const SampleId> /*ids*/) {}
  /// No more are told, and what was is not expected any more.
  virtual void stop() noexcept {}

  struct Near {
    std::shared_ptr<const void> pin = {};  ///< of shared files
    std::int64_t bytes = 0;                ///< as Source::will_read returns them
  };
  /// These are read soon, in pieces. Without shared files, as Source::will_read. Shared files of them stay in
  /// memory, once they are there, for as long as `pin` is kept; where this rank `reads` them, they are
  /// fetched in the background, too. Those that all ranks of the node have pinned and let go are dropped.
  /// Does not block. Throws Error{out_of_range} for samples that there are not.
  [[nodiscard]] virtual Near bring(SampleRange samples, bool reads);
  /// A loader takes only orders that need few shared files at a time, and nothing where samples are all over.
  [[nodiscard]] virtual Sharing sharing() const { return Sharing::none; }
  /// Whether a sample has other bytes in another epoch.
  [[nodiscard]] virtual bool changes_by_epoch() const { return false; }

  /// Any thread.
  [[nodiscard]] virtual ReadCounts counts() const { return {}; }

  /// One like this of a process that reads no bytes, alone with its memory: `pass` stands for its reads. Null
  /// where nothing is kept, or that is not known.
  [[nodiscard]] virtual std::unique_ptr<ReadPlan> without_bytes() const { return nullptr; }
  /// As if these samples were read together.
  virtual void pass(std::span<const SampleId> /*ids*/) {}

 protected:
  [[nodiscard]] const Source& source() const noexcept { return source_; }

 private:
  const Source& source_;
};

/// What rota's own sources are asked beside what Source has.
class PlannedSource {
 public:
  virtual ~PlannedSource() = default;

  /// Of a loader that is reading up to `open` samples of those it has told. Null: there is nothing but what
  /// Source has.
  [[nodiscard]] virtual std::unique_ptr<ReadPlan> plan_reads(std::int64_t /*open*/) const { return nullptr; }
  /// What up to `most` of samples `of` hold, by which a loader's state knows its dataset. Empty: nothing is
  /// known. Blocks on storage. Any thread.
  [[nodiscard]] virtual std::vector<SampleContent> content(std::int64_t /*most*/, SampleRange /*of*/) const {
    return {};
  }

  /// Source::rows of samples that are read in these epochs, or, for none, where nobody says; false where they
  /// are as long in each. Any thread.
  virtual bool rows_in(std::span<const std::int64_t> /*epochs*/, std::span<const SampleId> /*ids*/,
                       std::size_t /*field*/, std::span<std::int64_t> /*out*/) const {
    return false;
  }
  /// Whether its samples stay what they are when more come behind those that it is made of.
  [[nodiscard]] virtual bool keeps_samples() const { return true; }

  /// The same of any source. Throws as Source::rows.
  static void ask_rows(const Source& source, std::span<const std::int64_t> epochs,
                       std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out);
  /// ... of a user's adaptor, by the source inside. Never null.
  static std::unique_ptr<ReadPlan> plan_of(const Source& source, std::int64_t open = 0);
  static std::vector<SampleContent> content_of(const Source& source, std::int64_t most) {
    return content_of(source, most, {.begin = 0, .end = source.size()});
  }
  static std::vector<SampleContent> content_of(const Source& source, std::int64_t most, SampleRange of);
  static bool keeps_samples_of(const Source& source);
  /// Source::will_read of a source made of others.
  static std::int64_t will_read_by_plan(const Source& source, SampleId first, std::int64_t count) {
    return plan_of(source)->bring({.begin = first.value, .end = first.value + count}, false).bytes;
  }

  /// The source that a user's adaptor is around, or null.
  static const Source* inner_of(const Source& source);
};

/// An adaptor of rota's own, whose samples have as many rows as those inside, and are known by the same
/// content.
class PlannedAdaptor : public SourceAdaptor, public PlannedSource {
 public:
  using SourceAdaptor::SourceAdaptor;
  bool rows_in(std::span<const std::int64_t> epochs, std::span<const SampleId> ids, std::size_t field,
               std::span<std::int64_t> out) const final {
    ask_rows(inner(), epochs, ids, field, out);
    return true;
  }
  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most, SampleRange of) const final {
    return content_of(inner(), most, of);
  }
  [[nodiscard]] bool keeps_samples() const final { return keeps_samples_of(inner()); }
};

/// The plan of a source whose samples are made of those of another one.
class MappedPlan : public ReadPlan {
 public:
  struct Map {
    std::int64_t count = 1;  ///< it makes about so many of each
    std::function<std::vector<SampleId>(std::span<const SampleId>)> ids = {};  ///< none: nothing is told
    std::function<SampleRange(SampleRange)> range = {};  ///< none: they lie all over the other one
    bool changes_by_epoch = false;
  };
  MappedPlan(const Source& source, const Source& other, std::int64_t open, Map map);
  MappedPlan(const Source& source, std::unique_ptr<ReadPlan> other, Map map)
      : ReadPlan(source), map_(std::move(map)), other_(std::move(other)) {}

  [[nodiscard]] std::int64_t samples_ahead() const override;
  void tell(std::span<const SampleId> ids) override;
  void stop() noexcept override { other_->stop(); }
  [[nodiscard]] std::unique_ptr<ReadPlan> without_bytes() const override;
  void pass(std::span<const SampleId> ids) override { other_->pass(map_.ids(ids)); }
  [[nodiscard]] Near bring(SampleRange samples, bool reads) override;
  [[nodiscard]] Sharing sharing() const override;
  [[nodiscard]] bool changes_by_epoch() const override {
    return map_.changes_by_epoch || other_->changes_by_epoch();
  }
  [[nodiscard]] ReadCounts counts() const override { return other_->counts(); }

 private:
  Map map_;
  std::unique_ptr<ReadPlan> other_;
};

/// Throws Error{out_of_range} unless it is a range of `size` samples.
void check_range(SampleRange samples, std::int64_t size);

}  // namespace rota::internal
