#include "core/owned.hpp"

#include <fmt/format.h>

#include "rota/error.hpp"

namespace rota::internal {

void refuse_empty(std::string_view what) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("use {}: it is empty, or was moved from; use the one that it was moved to", what));
}

void refuse_forked(std::string_view what, int maker) {
  throw Error(
      ErrorCode::unsupported,
      fmt::format("use {} in process {}, which was forked of process {} that made it: its threads and "
                  "files are that one's; make another one in this process",
                  what, this_process(), maker));
}

}  // namespace rota::internal
