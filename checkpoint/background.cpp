#include "background.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "rota/error.hpp"

namespace rota::checkpoint {

Background::Background(Ranks& ranks, std::function<CommitPage()> save) : ranks_(&ranks) {
  ranks.go_through(&relay_);
  try {
    thread_ = std::jthread([this, save = std::move(save)] {
      try {
        page_ = save();
      } catch (...) {
        error_ = std::current_exception();
      }
      relay_.end();
    });
  } catch (const std::system_error& error) {
    ranks.go_through(nullptr);
    throw Error(ErrorCode::io, fmt::format("save in the background: start a thread: {}", error.what()));
  }
}

Background::~Background() {
  if (!relay_.go()) ranks_->operations().break_off("a save in the background was given up");
  if (thread_.joinable()) thread_.join();
  ranks_->go_through(nullptr);
}

bool Background::poll() { return relay_.poll(ranks_->operations()); }

CommitPage Background::finish() {
  relay_.finish(ranks_->operations(), "wait for a save");
  if (error_) std::rethrow_exception(error_);
  return page_;
}

}  // namespace rota::checkpoint
