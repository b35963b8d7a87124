#include "catalog/format_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::array<std::string_view, 11> kFormats = {"auto", "files", "hdf5",   "tfrecord", "tar", "lines",
                                                       "npy",  "npz",   "tokens", "megatron", "mds"};

}  // namespace

std::span<const std::string_view> format_names() noexcept { return kFormats; }

void require_format(std::string_view attempt, std::string_view format) {
  if (std::find(kFormats.begin(), kFormats.end(), format) != kFormats.end()) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: there is no format \"{}\"; use one of \"{}\"",
                                                       attempt, format, fmt::join(kFormats, "\", \"")));
}

}  // namespace rota::internal
