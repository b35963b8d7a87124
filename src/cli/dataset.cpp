#include "cli/dataset.hpp"

#include <fmt/format.h>

#include "cli/shown_text.hpp"
#include "cli/text_table.hpp"

namespace rota::cli {

std::string changes_text(const CatalogChanges& changes) {
  if (!changes.any()) return "nothing";
  return fmt::format("{} changed, {} vanished, {} appeared, among them {}", trace::grouped(changes.changed),
                     trace::grouped(changes.vanished), trace::grouped(changes.appeared),
                     shown(changes.first));
}

}  // namespace rota::cli
