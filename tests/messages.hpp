#pragma once

#include "test.hpp"

namespace rota::test {

/// What the MessageSink is told while this lives.
class SinkMessages {
 public:
  SinkMessages() {
    set_message_sink([this](std::string_view message) { lines.emplace_back(message); });
  }
  ~SinkMessages() { set_message_sink({}); }
  SinkMessages(const SinkMessages&) = delete;
  SinkMessages& operator=(const SinkMessages&) = delete;

  std::vector<std::string> lines = {};
};

}  // namespace rota::test
