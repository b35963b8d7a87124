#include "core/message.hpp"

#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

namespace rota {
namespace {

struct Sink {
  std::mutex mutex;
  std::shared_ptr<const MessageSink> sink;

  static Sink& of_process() {
    static auto* const made = new Sink;  // never dies: threads may tell something until the end
    return *made;
  }
};

}  // namespace

void set_message_sink(MessageSink sink) {
  auto made = sink ? std::make_shared<const MessageSink>(std::move(sink)) : nullptr;
  const std::scoped_lock lock(Sink::of_process().mutex);
  Sink::of_process().sink.swap(made);
}

void internal::tell(std::string_view message) noexcept {
  std::shared_ptr<const MessageSink> sink;
  {
    const std::scoped_lock lock(Sink::of_process().mutex);
    sink = Sink::of_process().sink;
  }
  if (sink) return (*sink)(message);
  std::fprintf(stderr, "rota: %.*s\n", static_cast<int>(message.size()), message.data());
}

}  // namespace rota
