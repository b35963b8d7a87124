#include "background.hpp"

#include <utility>

namespace rota::checkpoint {

Background::Background(Collectives& ranks, std::function<CommitPage()> save)
    : ranks_(&ranks), save_(std::move(save)) {
  try {
    ranks.go_through(&caller_);
    thread_ = std::jthread([this] {
      try {
        page_ = save_();
      } catch (...) {
        error_ = std::current_exception();
      }
      caller_.end();
    });
  } catch (...) {  // too many threads, or no memory: other ranks have begun, and wait for this one
    ranks.go_through(nullptr);
  }
}

Background::~Background() {
  if (thread_.joinable()) {
    if (!caller_.go(ranks_->operations())) {
      ranks_->operations().break_off("a save in the background was given up");
    }
    thread_.join();
  }
  ranks_->go_through(nullptr);
}

bool Background::poll() { return thread_.joinable() && caller_.poll(ranks_->operations()); }

CommitPage Background::finish() {
  if (!thread_.joinable()) return save_();
  caller_.finish(ranks_->operations(), "wait for a save");
  if (error_) std::rethrow_exception(error_);
  return page_;
}

}  // namespace rota::checkpoint
