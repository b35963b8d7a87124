#pragma once

// What rota has to tell beside errors: that a read takes long, or which ranks there are. Next: error.hpp.

#include <functional>
#include <string_view>

namespace rota {

/// Takes one line, without its end. *Any thread*; must not throw.
using MessageSink = std::function<void(std::string_view message)>;

/// Where messages of this process go from now on. Empty: to stderr, headed by "rota: ", as at the start.
/// *Any thread*; a message that is under way may still go where it went before.
void set_message_sink(MessageSink sink);

}  // namespace rota
