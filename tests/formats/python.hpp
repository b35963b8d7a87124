#pragma once

// Files made by Python's libraries, writers and readers that are not ours.

#include "test.hpp"

namespace rota::test {

/// Runs `script`, with `directory` as the current one. Returns the bytes that it told by `tell(*parts)`, in
/// order. Throws std::runtime_error where Python fails.
std::vector<std::string> python(const TemporaryDirectory& directory, std::string_view script);

}  // namespace rota::test
