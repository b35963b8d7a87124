#include "remote/curl_multi.hpp"

#include <curl/curl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "rota/error.hpp"

namespace rota::internal {
namespace {

using Long = long;  // NOLINT(google-runtime-int): what libcurl takes

void check(CURLMcode code) {
  if (code != CURLM_OK) throw std::bad_alloc();  // else it is ours to call as we do
}

}  // namespace

CurlMulti::CurlMulti(int connections) : events_(::epoll_create1(EPOLL_CLOEXEC)), process_(::getpid()) {
  if (!events_.is_open())
    throw Error(ErrorCode::io, system_error("wait for", "answers of servers", errno).what());
  multi_ = ::curl_multi_init();
  if (multi_ == nullptr) throw std::bad_alloc();
  const auto set = [this](CURLMoption option, auto value) { ::curl_multi_setopt(multi_, option, value); };
  set(CURLMOPT_MAXCONNECTS, static_cast<Long>(connections));
  set(CURLMOPT_SOCKETDATA, static_cast<void*>(this));
  set(
      CURLMOPT_SOCKETFUNCTION,
      +[](CURL* /*easy*/, curl_socket_t socket, int wanted, void* user, void* known) {
        return static_cast<CurlMulti*>(user)->on_socket(socket, wanted, known != nullptr);
      });
  set(CURLMOPT_TIMERDATA, static_cast<void*>(this));
  set(
      CURLMOPT_TIMERFUNCTION, +[](CURLM* /*multi*/, Long milliseconds, void* user) {
        static_cast<CurlMulti*>(user)->due_ = milliseconds < 0
                                                  ? Clock::time_point::max()
                                                  : Clock::now() + std::chrono::milliseconds(milliseconds);
        return 0;
      });
}

CurlMulti::~CurlMulti() {
  if (is_own()) ::curl_multi_cleanup(multi_);  // else the connections are the parent's
}

bool CurlMulti::is_own() const noexcept { return ::getpid() == process_; }

int CurlMulti::on_socket(int socket, int wanted, bool is_known) noexcept {
  if (wanted == CURL_POLL_REMOVE) {
    ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, socket, nullptr);
    return 0;
  }
  epoll_event event{};
  event.data.fd = socket;
  if ((wanted & CURL_POLL_IN) != 0) event.events |= EPOLLIN;
  if ((wanted & CURL_POLL_OUT) != 0) event.events |= EPOLLOUT;
  if (!is_known) ::curl_multi_assign(multi_, socket, this);
  return ::epoll_ctl(events_.get(), is_known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event);
}

void CurlMulti::add(void* easy) { check(::curl_multi_add_handle(multi_, easy)); }

void CurlMulti::remove(void* easy) noexcept { ::curl_multi_remove_handle(multi_, easy); }

void CurlMulti::run(Clock::time_point until) {
  const auto now = Clock::now();
  const auto wait =
      std::chrono::ceil<std::chrono::milliseconds>(std::max(std::min(until, due_), now) - now).count();
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(std::min<std::int64_t>(wait, 60'000)));
  int running = 0;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    int seen = 0;
    if ((event.events & EPOLLIN) != 0) seen |= CURL_CSELECT_IN;
    if ((event.events & EPOLLOUT) != 0) seen |= CURL_CSELECT_OUT;
    if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) seen |= CURL_CSELECT_ERR;
    check(::curl_multi_socket_action(multi_, event.data.fd, seen, &running));
  }
  if (due_ > Clock::now()) return;
  due_ = Clock::time_point::max();
  check(::curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running));
}

std::optional<CurlMulti::Ended> CurlMulti::take_ended() noexcept {
  int left = 0;
  while (CURLMsg* const message = ::curl_multi_info_read(multi_, &left)) {
    if (message->msg == CURLMSG_DONE) return Ended{message->easy_handle, message->data.result};
  }
  return std::nullopt;
}

}  // namespace rota::internal
