#pragma once

// Names with ranges of numbers in them, as "shard-{000000..000999}.tar", or with words, as
// "{train,test}.tar".

#include <functional>
#include <string>
#include <string_view>

namespace rota::internal {

/// Where the first range begins; npos without any.
std::size_t find_range(std::string_view text);
/// How many names its ranges stand for.
double count_names(std::string_view text);

/// Calls `visit` for each name that `text` stands for, in order; the last range changes fastest. Numbers have
/// as many digits as the first of their range. Throws Error{invalid_argument} for a range that goes backward.
void expand_ranges(const std::string& text, const std::function<void(const std::string& name)>& visit);

}  // namespace rota::internal
