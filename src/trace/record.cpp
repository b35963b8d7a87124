#include "trace/record.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace rota::trace {
namespace {

std::uint64_t to_digest(const Json& value) {
  const auto* text = value.get_ptr<const std::string*>();
  std::uint64_t digest = 0;
  if (text != nullptr && text->size() == 16) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + 16, digest, 16);
    if (error == std::errc() && end == text->data() + 16) return digest;
  }
  throw Damage("a digest is not 16 hexadecimal digits");
}

std::int64_t to_natural(const Json& value, const char* name) {
  const std::int64_t number = to_integer(value, name);
  if (number < 0 || number > kMaxTraced) throw Damage(fmt::format("\"{}\" is {}", name, number));
  return number;
}

}  // namespace

Json parse_record(const std::string& line) {
  Json record = Json::parse(line, nullptr, false);
  if (!record.is_object()) throw Damage("not a JSON object");
  return record;
}

std::string event_of(const Json& record) { return text(record, "event"); }

void require_start(const Json& record) {
  if (event_of(record) != "start") throw Damage("the first record is not the start record");
  const std::int64_t version = natural(record, "v");
  if (version != 1) throw Damage(fmt::format("trace version {}; this program reads version 1", version));
}

void require_owner(const Json& record, std::int64_t phase, int rank) {
  const std::int64_t of_phase = natural(record, "phase");
  const std::int64_t of_rank = natural(record, "rank");
  if (of_phase == phase && of_rank == rank) return;
  throw Damage(fmt::format("a record of phase {}, rank {}, in the file of another", of_phase, of_rank));
}

const Json& member(const Json& record, const char* name) {
  const auto found = record.find(name);
  if (found == record.end()) throw Damage(fmt::format("there is no \"{}\"", name));
  return *found;
}

std::string text(const Json& record, const char* name) {
  const Json& value = member(record, name);
  if (!value.is_string()) throw Damage(fmt::format("\"{}\" is not a text", name));
  return value.get<std::string>();
}

std::int64_t natural(const Json& record, const char* name) { return to_natural(member(record, name), name); }

int small(const Json& record, const char* name) {
  const std::int64_t value = natural(record, name);
  if (value > std::numeric_limits<int>::max()) throw Damage(fmt::format("\"{}\" is {}", name, value));
  return static_cast<int>(value);
}

const Json& list(const Json& record, const char* name) {
  const Json& value = member(record, name);
  if (!value.is_array()) throw Damage(fmt::format("\"{}\" is not a list", name));
  return value;
}

void read_list(const Json& record, const char* name, std::vector<std::int64_t>& out) {
  out.clear();
  for (const Json& value : list(record, name)) out.push_back(to_integer(value, name));
}

void read_naturals(const Json& record, const char* name, std::vector<std::int64_t>& out) {
  out.clear();
  for (const Json& value : list(record, name)) out.push_back(to_natural(value, name));
}

void read_digests(const Json& record, std::vector<std::uint64_t>& out) {
  out.clear();
  for (const Json& digest : list(record, "digests")) out.push_back(to_digest(digest));
}

std::int64_t to_integer(const Json& value, const char* what) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (!fits) throw Damage(fmt::format("\"{}\" is not an integer", what));
  return value.get<std::int64_t>();
}

}  // namespace rota::trace
