#pragma once

// A source that makes an instance for each worker, and what is seen of them.

#include "source/told_source.hpp"

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
  std::vector<WorkerInfo> told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  int live() const {
    const std::lock_guard lock(mutex_);
    return live_;
  }
  /// What was not as it should be.
  std::vector<std::string> complaints() const {
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

/// `source`, of which samples are read through instances alone. Sample i is of shard_of(i).
inline std::shared_ptr<ToldSource> affine(const std::shared_ptr<Instances>& instances,
                                          std::shared_ptr<ToldSource> source,
                                          const std::function<ShardId(SampleId)>& shard_of = {}) {
  source->on_worker = [=, size = source->size(), fields = source->fields(),
                       told = Told(*source)](const WorkerInfo& worker) {
    auto own = std::make_unique<ToldSource>(size, fields);
    static_cast<Told&>(*own) = told;
    const auto one = std::make_shared<InstanceOfOne>(instances, worker);
    own->on_rows =
        own->on_read = [=](SampleId id) { shard_of ? one->look("used", shard_of(id)) : one->look("used"); };
    return own;
  };
  source->on_rows = [=](SampleId) { instances->complain("sized in common"); };
  source->on_read = [=](SampleId) { instances->complain("read in common"); };
  return source;
}

}  // namespace rota::test
