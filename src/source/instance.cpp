#include "source/instance.hpp"

#include <fmt/format.h>

#include "rota/error.hpp"
#include "source/field_text.hpp"

namespace rota::internal {

std::shared_ptr<const Source> instance_of(const Source& source, const WorkerInfo& worker) {
  std::shared_ptr<const Source> own = source.for_worker(worker);
  if (!own || (own->size() == source.size() && own->fields() == source.fields())) return own;
  throw Error(ErrorCode::callback,
              fmt::format("the source has {} samples of {}; what its for_worker() makes has {} of {}; let "
                          "both have the same",
                          source.size(), describe(source.fields()), own->size(), describe(own->fields())));
}

}  // namespace rota::internal
