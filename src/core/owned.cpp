#include "core/owned.hpp"

#include "core/failure.hpp"

namespace rota::internal {

void refuse_empty(std::string_view what) {
  throw failure(ErrorCode::invalid_argument,
                "use {}: it is empty, or was moved from; use the one that it was moved to", what);
}

void refuse_forked(std::string_view what, int maker) {
  throw failure(ErrorCode::unsupported,
                "use {} in process {}, which was forked of process {} that made it: its threads and files "
                "are that one's; make another one in this process",
                what, this_process(), maker);
}

}  // namespace rota::internal
