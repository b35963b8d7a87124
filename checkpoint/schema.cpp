#include "schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "digest.hpp"
#include "rota/error.hpp"

namespace rota::checkpoint {
namespace {

// A line for the step and for each tensor.
std::string describe(std::span<const LocalTensor> tensors, std::int64_t step) {
  std::string text = fmt::format("step {}\n", step);
  for (const LocalTensor& tensor : tensors) {
    text += fmt::format("tensor \"{}\", {} [{}], {}\n", tensor.name, to_string(tensor.dtype),
                        fmt::join(tensor.row_shape, ", "), tensor.has_ranges ? "by row ranges" : "in order");
  }
  return text;
}

std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line.empty() ? "nothing" : line;
}

void compare(std::string_view own, std::string_view root) {
  while (!own.empty() || !root.empty()) {
    const std::string_view own_line = next_line(own);
    const std::string_view root_line = next_line(root);
    if (own_line == root_line) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("save a checkpoint: this rank saves {} where rank 0 saves {}; all ranks must add "
                            "the same tensors in the same order, and pass the same step",
                            own_line, root_line));
  }
}

}  // namespace

void require_same_schema(Collectives& ranks, std::span<const LocalTensor> tensors, std::int64_t step) {
  const std::string own = describe(tensors, step);
  const std::uint64_t hash = short_digest(std::as_bytes(std::span(own)));
  const std::vector<std::uint64_t> hashes = ranks.gather<std::uint64_t>({&hash, 1});
  if (std::ranges::count(hashes, hash) == std::ssize(hashes)) return;
  const std::string root = ranks.broadcast(own);
  ranks.together("compare what ranks save", [&] { compare(own, root); });
}

}  // namespace rota::checkpoint
