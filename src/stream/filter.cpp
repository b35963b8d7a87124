#include <utility>

#include "rota/error.hpp"
#include "stream/adaptor.hpp"
#include "stream/instance.hpp"

namespace rota {
namespace {

class FilteredStream final : public ShardStream {
 public:
  FilteredStream(std::unique_ptr<ShardStream> inner, const KeepFunction& keep, std::int64_t epoch)
      : inner_(std::move(inner)), keep_(keep), epoch_(epoch) {}

  bool next(StreamSample& out) override {
    while (inner_->next(out)) {
      if (keep_(epoch_, out)) return true;
    }
    return false;
  }
  // What was passed over since the last sample is not known of: it will be passed over again.
  void cursor(StreamCursor& out) const override { inner_->cursor(out); }

 private:
  std::unique_ptr<ShardStream> inner_;
  const KeepFunction& keep_;
  std::int64_t epoch_;
};

class Filter final : public internal::StreamAdaptor {
 public:
  Filter(std::shared_ptr<const StreamSource> source, KeepFunction keep, std::string name)
      : StreamAdaptor(std::move(source), 0, "filter a stream"),
        keep_(std::move(keep)),
        name_(std::move(name)) {
    if (keep_) return;
    throw Error(ErrorCode::invalid_argument,
                "filter a stream: there is no function that says what to keep (it is empty)");
  }

  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                  const StreamCursor& cursor) const override {
    return std::make_unique<FilteredStream>(open_inner(shard, epoch, cursor), keep_, epoch);
  }
  [[nodiscard]] std::unique_ptr<const StreamSource> for_worker(const WorkerInfo& worker) const override {
    auto own = internal::instance_of(inner(), worker);
    return own ? std::make_unique<Filter>(std::move(own), keep_, name_) : nullptr;
  }
  [[nodiscard]] Fingerprint fingerprint() const override {
    return FingerprintBuilder().add("filter").add(to_string(inner().fingerprint())).add(name_).finish();
  }

 private:
  KeepFunction keep_;
  std::string name_;
};

}  // namespace

std::shared_ptr<const StreamSource> filter(std::shared_ptr<const StreamSource> source, KeepFunction keep,
                                           std::string name) {
  return std::make_shared<Filter>(std::move(source), std::move(keep), std::move(name));
}

}  // namespace rota
