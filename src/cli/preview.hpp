#pragma once

// What is in a tensor, at a glance.

#include <cstddef>
#include <span>
#include <string>

#include "rota/source.hpp"

namespace rota::cli {

/// The beginning of a sample's bytes of `field`: the first numbers; of ragged bytes text, where they look
/// like it, or else hexadecimal digits.
std::string preview(const Field& field, std::span<const std::byte> bytes);

}  // namespace rota::cli
