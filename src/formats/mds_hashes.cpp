#include "formats/mds_hashes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

/// A function of xxHash over all bytes of a file.
template <typename State, typename Digest>
auto hash_of(const DatasetFile& file, State* (*make)(), XXH_errorcode (*release)(State*),
             XXH_errorcode (*reset)(State*), XXH_errorcode (*update)(State*, const void*, std::size_t),
             Digest (*digest)(const State*)) {
  constexpr std::size_t kPiece = 1 << 20;
  const std::unique_ptr<State, decltype(release)> state(make(), release);
  reset(state.get());
  for (std::uint64_t at = 0; at < file.bytes();) {
    const auto piece = file.at(at, kPiece);
    if (piece.empty()) throw file.damage(at, "the file ends here; it was cut short while it was read");
    update(state.get(), piece.data(), piece.size());
    at += piece.size();
  }
  return digest(state.get());
}

// As Python's xxhash has it: the number, from its most significant digit on; nothing for other functions.
std::optional<std::string> hash_of(const DatasetFile& file, std::string_view function) {
  if (function == "xxh32") {
    return fmt::format("{:08x}", hash_of(
                                     file, XXH32_createState, XXH32_freeState,
                                     +[](XXH32_state_t* state) { return XXH32_reset(state, 0); },
                                     XXH32_update, XXH32_digest));
  }
  if (function == "xxh64") {
    return fmt::format("{:016x}", hash_of(
                                      file, XXH64_createState, XXH64_freeState,
                                      +[](XXH64_state_t* state) { return XXH64_reset(state, 0); },
                                      XXH64_update, XXH64_digest));
  }
  if (function == "xxh3_64") {
    return fmt::format("{:016x}", hash_of(file, XXH3_createState, XXH3_freeState, XXH3_64bits_reset,
                                          XXH3_64bits_update, XXH3_64bits_digest));
  }
  if (function != "xxh128" && function != "xxh3_128") return std::nullopt;
  const XXH128_hash_t hash = hash_of(file, XXH3_createState, XXH3_freeState, XXH3_128bits_reset,
                                     XXH3_128bits_update, XXH3_128bits_digest);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

void verify_mds_hash(const DatasetFile& file, const MdsHashes& hashes) {
  std::vector<std::string> functions;
  for (const auto& [function, expected] : hashes) {
    const auto found = hash_of(file, function);
    functions.push_back(function);
    if (found == expected) return;
    if (found) throw file.damage(0, "its {} is {}, and index.json says {}", function, *found, expected);
  }
  throw failure(ErrorCode::unsupported,
                "open {}: index.json has {} for it, and rota checks xxh32, xxh64, xxh128, xxh3_64: write "
                "shards with one of these (hashes of MDSWriter), or leave out the option verify",
                file.path(), hashes.empty() ? "no hash" : fmt::format("{}", fmt::join(functions, ", ")));
}

}  // namespace rota::internal
