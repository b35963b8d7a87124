#pragma once

// What people are shown: names and text that others wrote, numbers, tables; and that it has arrived.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text.hpp"
#include "rota/checkpoint.hpp"
#include "rota/source.hpp"

namespace rota::cli {

using internal::character_bytes;
using internal::shown;

/// 1234567 as "1,234,567".
std::string grouped(std::int64_t value);

/// "1 file", "1,234 files"; `things` where they are not `thing` and an s.
std::string counted(std::int64_t n, std::string_view thing, std::string_view things = {});

/// 1536 as "1.5 KiB".
std::string human_bytes(std::int64_t bytes);

/// `rows` of as many cells each, the first of them heads, in columns: `left_columns` aligned to the left, the
/// others to the right. Each line is indented by two spaces and ended.
std::string table_text(const std::vector<std::vector<std::string>>& rows, std::size_t left_columns = 0);

/// The beginning of a sample's bytes of `field`: the first numbers; of ragged bytes text, where they look
/// like it, or else hexadecimal digits.
std::string preview(const Field& field, std::span<const std::byte> bytes);

/// "main" of a blob "loader/main/state", which a loader of that name has saved; empty of any other.
std::string_view loader_of(const BlobInfo& blob);

/// Runs `program` and returns its exit code. An exception is printed to stderr, on one line, and the code is
/// then 1; so it is where not all of stdout could be written. Where nobody reads stdout any more, it is 128 +
/// SIGPIPE, and nothing is said: what a shell shows of a program that the signal has ended.
///
/// Standard streams that are closed are opened anew, such that every use of them fails: else the first file
/// that the program opens would take their place, and what is printed would go into it.
int run_with_output(const std::function<int()>& program);

/// Shows what was printed so far, before something that takes its time. Throws std::system_error, of which
/// run_with_output says that output is lost.
void flush_output();

}  // namespace rota::cli
