#pragma once

// JSON that others wrote: what is in an object, checked when it is asked for.

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/types.hpp"

namespace rota::internal {

using Json = nlohmann::json;

/// A JSON object of which nothing is believed: what is not there, or is of another type, is refused by name.
/// The JSON must outlive it.
class JsonObject {
 public:
  /// Throws an error that says what is wrong with `member`, "read.numbers" say.
  using Refuse = std::function<void(std::string_view member, std::string_view why)>;

  JsonObject(const Json& object, Refuse refuse, std::string path = {})
      : object_(&object), refuse_(std::move(refuse)), path_(std::move(path)) {
    if (!object.is_object()) refuse_(path_, "is no object");
  }

  [[nodiscard]] bool has(std::string_view key) const { return object_->contains(key); }
  [[nodiscard]] const Json& at(std::string_view key) const {
    const auto found = object_->find(key);
    if (found == object_->end()) fail(key, "is missing");
    return *found;
  }
  [[nodiscard]] JsonObject object(std::string_view key) const { return {at(key), refuse_, member(key)}; }
  [[nodiscard]] const Json& array(std::string_view key) const {
    if (!at(key).is_array()) fail(key, "is no array");
    return at(key);
  }
  [[nodiscard]] const std::string& text(std::string_view key) const {
    if (!at(key).is_string()) fail(key, "is no text");
    return at(key).get_ref<const std::string&>();
  }
  [[nodiscard]] std::int64_t number(std::string_view key, std::int64_t most = kMaxCount) const {
    return number_in(at(key), key, 0, most);
  }
  [[nodiscard]] std::vector<std::int64_t> numbers(std::string_view key, std::int64_t least = 0,
                                                  std::int64_t most = kMaxCount) const {
    std::vector<std::int64_t> numbers;
    for (const Json& value : array(key)) numbers.push_back(number_in(value, key, least, most));
    return numbers;
  }
  /// Of `key` or its array. A number is whole, and in [least, most].
  [[nodiscard]] std::int64_t number_in(const Json& value, std::string_view key, std::int64_t least,
                                       std::int64_t most) const {
    constexpr auto kMost = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    const bool is_whole =
        value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= kMost);
    if (!is_whole || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
      fail(key, fmt::format("is {}, and no whole number from {} to {}",
                            value.is_number() ? value.dump() : std::string(value.type_name()), least, most));
    }
    return value.get<std::int64_t>();
  }
  [[noreturn]] void fail(std::string_view key, std::string_view why) const {
    refuse_(member(key), why);
    std::terminate();
  }

 private:
  [[nodiscard]] std::string member(std::string_view key) const {
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  }

  const Json* object_;
  Refuse refuse_;
  std::string path_;
};

}  // namespace rota::internal
