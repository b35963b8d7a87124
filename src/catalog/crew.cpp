#include "catalog/crew.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "values/option.hpp"

namespace rota::internal {

Crew::Crew(const CatalogOptions& how) : options(how) {
  if (how.comm != nullptr) nodes = mpi::Nodes(*how.comm);
  options.comm = nullptr;
  mpi::together(nodes.all(), "make a catalog", [&] { options.validate(); });
  struct {
    Evidence evidence;
    bool share_files;
    std::int64_t shared_bytes;
  } what{options.evidence, options.share_files, options.shared_bytes};
  mpi::broadcast(nodes.all(), std::as_writable_bytes(std::span(&what, 1)));
  options.evidence = what.evidence;
  options.share_files = what.share_files;
  options.shared_bytes = what.shared_bytes;
}

std::string Crew::on_first_rank(std::string_view phase, const std::function<std::string()>& make) const {
  const mpi::Communicator& all = nodes.all();
  std::string made;
  mpi::together(all, phase, [&] {
    if (all.rank() == 0) made = make();
  });
  return mpi::broadcast(all, std::move(made));
}

}  // namespace rota::internal

namespace rota {

void CatalogOptions::validate() const {
  constexpr internal::OptionCheck kCheck("make a catalog");
  kCheck.one_of("evidence", evidence, {"sizes", "names"});
  kCheck.in_range("listing_threads", listing_threads, 1, internal::kMaxThreads);
  kCheck.in_range("indexing_threads", indexing_threads, 1, internal::kMaxThreads);
  kCheck.in_range("max_open_files", max_open_files, 1);
  kCheck.in_range("shared_bytes", shared_bytes, 0);
}

}  // namespace rota
