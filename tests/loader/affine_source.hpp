#pragma once

// A source that makes an instance for each worker, and what is seen of them.

#include "source/told_source.hpp"
#include "test.hpp"

namespace rota::test {

/// What the instances of a source did. Any thread.
class Instances {
 public:
  void begin(const WorkerInfo& worker) {
    const std::lock_guard lock(mutex_);
    told_.push_back(worker);
    ++live_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    --live_;
  }
  void complain(const std::string& what) {
    const std::lock_guard lock(mutex_);
    complaints_.push_back(what);
  }
  /// What each was told, in the order in which they were made.
  [[nodiscard]] std::vector<WorkerInfo> told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  [[nodiscard]] int live() const {
    const std::lock_guard lock(mutex_);
    return live_;
  }
  /// What was not as it should be.
  [[nodiscard]] std::vector<std::string> complaints() const {
    const std::lock_guard lock(mutex_);
    return complaints_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<WorkerInfo> told_;
  std::vector<std::string> complaints_;
  int live_ = 0;
};

/// An instance: used by one thread from its beginning to its end.
class InstanceOfOne {
 public:
  InstanceOfOne(std::shared_ptr<Instances> all, WorkerInfo worker)
      : all_(std::move(all)), worker_(std::move(worker)) {
    all_->begin(worker_);
  }
  ~InstanceOfOne() {
    look("ended");
    all_->end();
  }
  InstanceOfOne(const InstanceOfOne&) = delete;
  InstanceOfOne& operator=(const InstanceOfOne&) = delete;

  void look(const char* what) const {
    if (std::this_thread::get_id() != thread_) all_->complain(std::string(what) + " by another thread");
  }
  void look(const char* what, ShardId shard) const {
    look(what);
    if (!worker_.shards.contains(shard)) all_->complain(std::string(what) + " in a shard of another worker");
  }

 private:
  std::shared_ptr<Instances> all_;
  WorkerInfo worker_;
  std::thread::id thread_ = std::this_thread::get_id();
};

/// `inner`, of which samples are read through instances alone. Sample i is of shard_of(i).
class AffineSource : public Source {
 public:
  using ShardOf = std::function<ShardId(SampleId)>;
  explicit AffineSource(std::shared_ptr<const Source> inner, ShardOf shard_of = {})
      : inner_(std::move(inner)), shard_of_(std::move(shard_of)) {}
  explicit AffineSource(std::int64_t size, ShardOf shard_of = {})
      : AffineSource(counting(size), std::move(shard_of)) {}

  [[nodiscard]] std::int64_t size() const override { return inner_->size(); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return inner_->fields(); }
  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    if (!may_be_sized) instances->complain("sized in common");
    inner_->rows(ids, field, out);
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    instances->complain("read in common");
    inner_->read(ids, out);
  }
  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override {
    if (on_make) on_make(worker);
    return std::make_unique<Own>(other ? other : inner_, worker, *this);
  }

  std::shared_ptr<Instances> instances = std::make_shared<Instances>();
  std::function<void(const WorkerInfo&)> on_make;
  std::shared_ptr<const Source> other;  ///< what instances read in its place
  bool may_be_sized = false;            ///< rows may be asked of this one, too

 private:
  class Own : public Source {
   public:
    Own(std::shared_ptr<const Source> inner, const WorkerInfo& worker, const AffineSource& whole)
        : inner_(std::move(inner)), shard_of_(whole.shard_of_), one_(whole.instances, worker) {}
    [[nodiscard]] std::int64_t size() const override { return inner_->size(); }
    [[nodiscard]] const std::vector<Field>& fields() const override { return inner_->fields(); }
    void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
      look("sized", ids);
      inner_->rows(ids, field, out);
    }
    void read(std::span<const SampleId> ids, const BatchView& out) const override {
      look("read", ids);
      inner_->read(ids, out);
    }
    void read_rows(std::span<const SampleRows> wanted, std::size_t field) const override {
      one_.look("read in part");
      inner_->read_rows(wanted, field);
    }

   private:
    void look(const char* what, std::span<const SampleId> ids) const {
      one_.look(what);
      for (const SampleId id : ids) {
        if (shard_of_) one_.look(what, shard_of_(id));
      }
    }
    std::shared_ptr<const Source> inner_;
    ShardOf shard_of_;
    InstanceOfOne one_;
  };
  std::shared_ptr<const Source> inner_;
  ShardOf shard_of_;
};

}  // namespace rota::test
