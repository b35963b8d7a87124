#pragma once

// A source that is what a test tells it to be, and two that are told already.

#include "source/read_plan.hpp"
#include "test.hpp"

namespace rota::test {

using Fields = std::vector<Field>;

inline const Fields kOneNumber{{.name = "x", .dtype = DType::int64}};

inline const BadSamples kSkip{.policy = BadSamples::Policy::skip};

/// Batches of samples in the order of their ids.
inline LoaderOptions in_order(std::int64_t batch, int workers = LoaderOptions().workers,
                              BadSamples bad = {}) {
  return {.global_batch_size = batch, .shuffle = Shuffle::none, .workers = workers, .bad_samples = bad};
}

/// What a source is told to be.
struct Told {
  // What it has.
  std::function<std::int64_t(SampleId id, std::size_t field)> rows_of;
  std::int64_t row_count = 1;  ///< where there is no rows_of
  std::function<void(SampleId id, std::size_t field, std::int64_t first_row, std::span<std::byte> to)> fill;
  bool reads_parts = false;  ///< by itself
  std::string place;         ///< of a sample, before its id
  std::vector<std::int64_t> parts;
  std::vector<std::int64_t> lengths;  ///< of shards

  // Who hears what it is asked, and may throw.
  std::function<std::int64_t(int time)> on_size;
  std::function<void(SampleId)> on_rows;
  std::function<void(SampleId)> on_read;
  std::function<std::int64_t(SampleId first, std::int64_t count)> on_will_read;
  std::function<std::unique_ptr<const Source>(const WorkerInfo&)> on_worker;
  std::function<std::unique_ptr<ReadPlan>(std::int64_t open)> on_plan;
  std::function<Fingerprint(Fingerprint usual)> on_fingerprint;

  // What fails.
  std::set<std::int64_t> corrupt;           ///< in read
  std::set<std::int64_t> corrupt_sizes;     ///< in rows
  std::map<std::int64_t, int> io_failures;  ///< the first so many reads of a sample
};

/// It is told before it is read. As it comes, its samples are bytes of 1.
class ToldSource : public Source, public PlannedSource, public Told {
 public:
  explicit ToldSource(std::int64_t size, Fields fields = kOneNumber)
      : size_(size), fields_(std::move(fields)) {}

  std::int64_t size() const override { return on_size ? on_size(times_asked++) : size_; }
  const Fields& fields() const override { return fields_; }
  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    check(ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      out[i] = -7;  // what is left behind by one that fails
      if (on_rows) on_rows(ids[i]);
      if (corrupt_sizes.contains(ids[i].value)) throw Error(ErrorCode::corrupt, "the length is wrong");
      out[i] = rows_of ? rows_of(ids[i], field) : row_count;
    }
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check(ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (on_read) on_read(ids[i]);
      for (std::size_t f = 0; f < fields_.size(); ++f) put(ids[i], f, 0, out.bytes(f, i));
      if (!corrupt.empty() || !io_failures.empty()) fail_as_told(ids[i].value);
    }
    reads += std::ssize(ids);
  }
  void read_rows(std::span<const SampleRows> wanted, std::size_t field) const override {
    if (!reads_parts) return Source::read_rows(wanted, field);
    check(wanted);
    for (const SampleRows& part : wanted) {
      check_rows(part, rows_of(part.id, field));
      if (on_read) on_read(part.id);
      put(part.id, field, part.first,
          {part.to, static_cast<std::size_t>(part.count) * fields_[field].row_bytes()});
    }
  }
  std::string where(SampleId id) const override {
    return place.empty() ? "" : place + std::to_string(id.value);
  }
  Numbers part_sizes() const override { return parts; }
  Numbers shard_lengths(std::int64_t /*shards*/) const override { return lengths; }
  std::int64_t will_read(SampleId first, std::int64_t count) const override {
    return on_will_read ? on_will_read(first, count) : 0;
  }
  std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override {
    return on_worker ? on_worker(worker) : nullptr;
  }
  Fingerprint fingerprint() const override {
    return on_fingerprint ? on_fingerprint(Source::fingerprint()) : Source::fingerprint();
  }
  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t open) const override {
    return on_plan ? on_plan(open) : nullptr;
  }

  /// Whether this sample is bad as it lies there.
  bool is_corrupt(std::int64_t id) const {
    return corrupt.contains(id) || (fields_.size() > 1 && corrupt_sizes.contains(id));
  }
  /// How often reading this sample was tried, where any is to fail.
  int tries(std::int64_t id) const {
    const std::scoped_lock lock(mutex_);
    const auto found = tries_.find(id);
    return found == tries_.end() ? 0 : found->second;
  }

  mutable std::atomic<int> times_asked = 0;         ///< for the size
  mutable std::atomic<std::int64_t> reads = 0;      ///< of samples
  mutable std::atomic<std::int64_t> rows_read = 0;  ///< of ragged fields

 private:
  void check(const auto& wanted) const {
    if (!on_size) check_ids(*this, wanted);
  }
  void put(SampleId id, std::size_t field, std::int64_t first_row, std::span<std::byte> to) const {
    if (!fill) {
      std::ranges::fill(to, std::byte{1});
    } else {
      fill(id, field, first_row, to);
    }
    const std::size_t row_bytes = fields_[field].row_bytes();
    if (fields_[field].ragged && row_bytes > 0) rows_read += static_cast<std::int64_t>(to.size() / row_bytes);
  }
  void fail_as_told(std::int64_t id) const {
    const std::scoped_lock lock(mutex_);
    const int before = tries_[id]++;
    if (corrupt.contains(id)) throw Error(ErrorCode::corrupt, "the bytes are wrong");
    const auto found = io_failures.find(id);
    if (found != io_failures.end() && before < found->second) throw Error(ErrorCode::io, "no answer");
  }

  std::int64_t size_;
  Fields fields_;
  mutable std::mutex mutex_;
  mutable std::map<std::int64_t, int> tries_;
};

inline std::shared_ptr<ToldSource> told(std::int64_t size, Fields fields = kOneNumber) {
  return std::make_shared<ToldSource>(size, std::move(fields));
}

/// Writes down what it is told, of files that ranks share.
struct WritingPlan final : ReadPlan {
  WritingPlan(const Source& source, Numbers& told) : ReadPlan(source), told_(told) {}
  std::int64_t samples_ahead() const override { return 9; }
  void tell(std::span<const SampleId> ids) override {
    for (const SampleId id : ids) told_.push_back(id.value);
  }
  Sharing sharing() const override { return Sharing::in_few; }
  Near bring(SampleRange samples, bool) override { return {.bytes = 100 * samples.begin + samples.end}; }
  Numbers& told_;
};

/// Samples that say who they are: "x" is the id twice, "text" is ragged, the id modulo 7 bytes of it.
inline std::shared_ptr<ToldSource> counting(std::int64_t size, Numbers lengths = {}) {
  auto source = told(size, {{.name = "x", .dtype = DType::int64, .shape = {2}},
                            {.name = "text", .dtype = DType::uint8, .ragged = true}});
  source->place = "place-";
  source->lengths = std::move(lengths);
  source->rows_of = [](SampleId id, std::size_t) { return id.value % 7; };
  source->fill = [](SampleId id, std::size_t field, std::int64_t, std::span<std::byte> to) {
    const std::int64_t x[2] = {id.value, id.value};
    if (field == 0) std::memcpy(to.data(), x, sizeof(x));
    if (field == 1) std::ranges::fill(to, static_cast<std::byte>(id.value));
  };
  return source;
}

/// Samples of which some are to fail: "x" is the id plus 1; "text" is ragged where it is there, 1 to 3 bytes
/// of that.
inline std::shared_ptr<ToldSource> faulty(std::int64_t size, bool is_ragged) {
  Fields fields = kOneNumber;
  if (is_ragged) fields.push_back({.name = "text", .dtype = DType::uint8, .ragged = true});
  auto source = told(size, fields);
  source->place = "place-";
  source->rows_of = [](SampleId id, std::size_t) { return 1 + id.value % 3; };
  source->fill = [](SampleId id, std::size_t field, std::int64_t, std::span<std::byte> to) {
    const std::int64_t x = id.value + 1;
    if (field == 0) std::memcpy(to.data(), &x, sizeof(x));
    if (field == 1) std::ranges::fill(to, static_cast<std::byte>(x));
  };
  return source;
}

}  // namespace rota::test
