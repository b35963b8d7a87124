#include "stream/instance.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/caught.hpp"
#include "rota/error.hpp"
#include "source/field_check.hpp"

namespace rota::internal {
namespace {

std::string text_of(const StreamSource& source) {
  return fmt::format("{} shards of {}, and cursors of {} numbers", source.shards(), describe(source.fields()),
                     source.cursor_numbers());
}

}  // namespace

std::shared_ptr<const StreamSource> instance_of(const StreamSource& source, const WorkerInfo& worker) {
  std::shared_ptr<const StreamSource> own = source.for_worker(worker);
  if (!own || (own->shards() == source.shards() && own->cursor_numbers() == source.cursor_numbers() &&
               own->fields() == source.fields())) {
    return own;
  }
  throw Error(ErrorCode::callback,
              fmt::format("the source has {}; what its for_worker() makes has {}; let both have the same",
                          text_of(source), text_of(*own)));
}

void WorkerInstances::assign(std::vector<ShardId> shards) {
  if (shards == shards_) return;
  shards_ = std::move(shards);
  ++assignment_;
}

WorkerInfo WorkerInstances::describe(std::size_t worker) const {
  std::vector<ShardId> shards;
  for (std::size_t i = worker; i < shards_.size(); i += own_.size()) shards.push_back(shards_[i]);
  return {.world = world_,
          .worker = static_cast<int>(worker),
          .workers = static_cast<int>(own_.size()),
          .shards = ShardList(std::move(shards))};
}

const StreamSource& WorkerInstances::source(std::size_t worker) {
  Own& own = own_[worker];
  if (own.made_for != assignment_) {
    own.source.reset();
    try {
      own.source = instance_of(source_, describe(worker));
      own.made_for = assignment_;
    } catch (...) {
      throw caught().as_error(fmt::format("make a source for worker {} of {}", worker, own_.size()));
    }
  }
  return own.source ? *own.source : source_;
}

}  // namespace rota::internal
