#pragma once

// What a line of a trace holds: a JSON object, and its members one by one. All throw Damage, which the reader
// of the file catches. Next: trace_file.hpp.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace rota::trace {

using Json = nlohmann::json;

/// Numbers are no greater, so that sums of two do not overflow.
inline constexpr std::int64_t kMaxTraced = std::int64_t{1} << 61;

/// A record that is not what the format says.
class Damage : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The record that is in `line`.
[[nodiscard]] Json parse_record(const std::string& line);
/// Its event: "start", "batch", "end", or one that this program does not know.
[[nodiscard]] std::string event_of(const Json& record);
/// Throws unless it is a start record of version 1.
void require_start(const Json& record);
/// Throws unless a record is of that phase and rank.
void require_owner(const Json& record, std::int64_t phase, int rank);

[[nodiscard]] const Json& member(const Json& record, const char* name);
/// A text.
[[nodiscard]] std::string text(const Json& record, const char* name);
/// A number from 0 on, so small that sums of two do not overflow.
[[nodiscard]] std::int64_t natural(const Json& record, const char* name);
/// One that is an int.
[[nodiscard]] int small(const Json& record, const char* name);
[[nodiscard]] const Json& list(const Json& record, const char* name);
/// A list of integers.
void read_list(const Json& record, const char* name, std::vector<std::int64_t>& out);
/// A list of numbers from 0 on, as small as `natural`.
void read_naturals(const Json& record, const char* name, std::vector<std::int64_t>& out);
/// The list "digests".
void read_digests(const Json& record, std::vector<std::uint64_t>& out);
/// An integer, found in the list called `what`.
[[nodiscard]] std::int64_t to_integer(const Json& value, const char* what);

}  // namespace rota::trace
