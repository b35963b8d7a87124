#include "catalog/open_context.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "core/enumerators.hpp"
#include "core/option.hpp"
#include "mpi/collectives.hpp"

namespace rota::internal {

OpenContext::OpenContext(const mpi::Communicator& comm, CatalogOptions how)
    : options(std::move(how)), nodes(comm.duplicate()) {
  mpi::together(nodes.all(), "make a catalog", [&] { options.validate(); });
  struct {
    ChangeDetection change_detection;
    bool share_files;
    std::int64_t shared_memory_limit;
  } what{options.change_detection, options.share_files, options.shared_memory_limit};
  what = mpi::broadcast(nodes.all(), what);
  options.change_detection = what.change_detection;
  options.share_files = what.share_files;
  options.shared_memory_limit = what.shared_memory_limit;
  // Other ranks wait for this one, and see that it goes on.
  options.progress = [this, shown = std::move(options.progress)](const Progress& progress) {
    nodes.show_progress();
    if (shown) shown(progress);
  };
}

std::string OpenContext::on_first_rank(std::string_view phase,
                                       const std::function<std::string()>& make) const {
  return mpi::on_first_rank(nodes.all(), phase, make);
}

}  // namespace rota::internal

namespace rota {

void CatalogOptions::validate() const {
  constexpr internal::OptionCheck kCheck("make a catalog");
  kCheck.one_of("change_detection", change_detection, internal::kChangeDetections);
  kCheck.one_of("access", access, internal::kAccesses);
  kCheck.in_range("listing_threads", listing_threads, 1, internal::kMaxThreads);
  kCheck.in_range("indexing_threads", indexing_threads, 1, internal::kMaxThreads);
  kCheck.in_range("max_open_files", max_open_files, 1);
  kCheck.in_range("shared_memory_limit", shared_memory_limit, 0);
  for (const auto& [scheme, storage] : storages) {
    constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyz";
    constexpr std::string_view kAll = "abcdefghijklmnopqrstuvwxyz0123456789+-.";
    const bool is_scheme =
        scheme.find_first_of(kFirst) == 0 && scheme.find_first_not_of(kAll) == std::string::npos;
    if (!is_scheme) kCheck.refuse("storages", scheme, "schemes: lower-case letters, digits, +, - and .");
    if (storage == nullptr) kCheck.refuse("storages", scheme + " without a storage", "one for each scheme");
  }
}

}  // namespace rota
