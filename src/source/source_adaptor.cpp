#include <utility>

#include "rota/error.hpp"
#include "rota/source.hpp"
#include "source/content.hpp"
#include "source/node_files.hpp"
#include "source/source_facts.hpp"

namespace rota {

SourceAdaptor::SourceAdaptor(std::shared_ptr<const Source> inner) : inner_(std::move(inner)) {
  if (!inner_) {
    throw Error(ErrorCode::invalid_argument, "make a source of another one: there is none (a null pointer)");
  }
  scattered_ = std::make_unique<internal::ScatteredNodeFiles>(*inner_);
}
SourceAdaptor::~SourceAdaptor() = default;

void SourceAdaptor::rows(std::span<const SampleId> ids, std::size_t field,
                         std::span<std::int64_t> out) const {
  inner_->rows(ids, field, out);
}

std::unique_ptr<const Source> SourceAdaptor::for_worker(const WorkerInfo& worker) const {
  auto own = internal::instance_of(*inner_, worker);
  if (!own) return nullptr;
  auto wrapped = wrap(std::move(own));
  if (wrapped) return wrapped;
  throw Error(ErrorCode::callback,
              "adapt what a source makes for a worker: wrap() returned null; return an adaptor of `inner`");
}

std::vector<std::int64_t> SourceAdaptor::part_sizes() const {
  return size() == inner_->size() ? inner_->part_sizes() : Source::part_sizes();
}

std::vector<std::int64_t> SourceAdaptor::shard_lengths(std::int64_t shards) const {
  return size() == inner_->size() ? inner_->shard_lengths(shards) : Source::shard_lengths(shards);
}

std::int64_t SourceAdaptor::will_read(SampleId first, std::int64_t count) const {
  return size() == inner_->size() ? inner_->will_read(first, count) : Source::will_read(first, count);
}

std::vector<internal::SampleContent> SourceAdaptor::content(std::int64_t most) const {
  return inner_->content(most);
}

const internal::NodeFiles* SourceAdaptor::node_files() const {
  const internal::NodeFiles* files = inner_->node_files();
  return files == nullptr || size() == inner_->size() ? files : scattered_.get();
}

}  // namespace rota
