#include "catalog/crew.hpp"

#include <fmt/format.h>

#include <span>
#include <tuple>
#include <utility>

#include "rota/error.hpp"

namespace rota {

void CatalogOptions::validate() const {
  for (const auto& [name, threads] :
       {std::pair{"listing_threads", listing_threads}, std::pair{"indexing_threads", indexing_threads}}) {
    if (threads >= 1) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("make a catalog: {} is {}; use 1 or more", name, threads));
  }
}

Crew::Crew(const CatalogOptions& how) : options(how) {
  if (how.comm != nullptr) nodes = mpi::Nodes(*how.comm);
  options.comm = nullptr;
  mpi::together(nodes.all(), "make a catalog", [&] { options.validate(); });
  std::pair what{options.evidence, options.placement};
  mpi::broadcast(nodes.all(), std::as_writable_bytes(std::span(&what, 1)));
  std::tie(options.evidence, options.placement) = what;
}

std::string Crew::on_first_rank(std::string_view phase, const std::function<std::string()>& make) const {
  const mpi::Communicator& all = nodes.all();
  std::string made;
  mpi::together(all, phase, [&] {
    if (all.rank() == 0) made = make();
  });
  return mpi::broadcast(all, std::move(made));
}

}  // namespace rota
