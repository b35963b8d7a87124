#include "cli/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>
#include <type_traits>

#include "core/bytes.hpp"

namespace rota::cli {

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::ptrdiff_t sign = value < 0 ? 1 : 0;
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > sign; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return digits;
}

std::string counted(std::int64_t n, std::string_view thing, std::string_view things) {
  if (n != 1 && !things.empty()) return fmt::format("{} {}", grouped(n), things);
  return fmt::format("{} {}{}", grouped(n), thing, n == 1 ? "" : "s");
}

std::string human_bytes(std::int64_t bytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return counted(bytes, "byte");
  double amount = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; amount >= 1023.95 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;  // as it is rounded
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

std::string table_text(const std::vector<std::vector<std::string>>& rows, std::size_t left_columns) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      text += c < left_columns ? fmt::format("  {:<{}}", row[c], widths[c])
                               : fmt::format("  {:>{}}", row[c], widths[c]);
    }
    text += '\n';
  }
  return text;
}

namespace {

constexpr std::size_t kMostNumbers = 8;
constexpr std::size_t kMostHex = 16;
constexpr std::size_t kMostText = 60;     // bytes
constexpr std::size_t kMostLooked = 256;  // bytes that decide whether it is text

std::string number_in(DType dtype, std::span<const std::byte> bytes) {
  if (dtype == DType::boolean) return internal::load<std::uint8_t>(bytes) != 0 ? "true" : "false";
  return internal::with_type(dtype, [&](auto value) -> std::string {
    using Value = decltype(value);
    if constexpr (std::is_integral_v<Value>) return fmt::to_string(internal::load<Value>(bytes));
    if constexpr (std::is_same_v<Value, double>) return fmt::format("{:.6g}", internal::load<double>(bytes));
    float number = 0;
    to_floats(dtype, bytes, {&number, 1});
    return fmt::format("{:.6g}", number);
  });
}

// The texts of the first `most` of `count` values.
template <typename TextOf>
std::string first_of(std::size_t count, std::size_t most, TextOf&& text_of) {
  std::string text;
  for (std::size_t i = 0; i < std::min(count, most); ++i) text += (i == 0 ? "" : " ") + text_of(i);
  return count > most ? text + " ..." : text;
}

std::string numbers(DType dtype, std::span<const std::byte> bytes) {
  const std::size_t each = size_of(dtype);
  const std::size_t count = bytes.size() / each;
  return first_of(count, kMostNumbers,
                  [&](std::size_t i) { return number_in(dtype, bytes.subspan(i * each, each)); });
}

std::string hex(std::span<const std::byte> bytes) {
  return first_of(bytes.size(), kMostHex,
                  [&](std::size_t i) { return fmt::format("{:02x}", static_cast<unsigned>(bytes[i])); });
}

// How many of the first `most` bytes of `text` are whole characters, as far as it is UTF-8.
std::size_t whole_characters(std::string_view text, std::size_t most) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t bytes = character_bytes(text.substr(end));
    if (bytes == 0 || end + bytes > most) break;
    end += bytes;
  }
  return end;
}

bool looks_like_text(std::string_view text) {
  const std::size_t looked = std::min(text.size(), kMostLooked);
  const std::size_t whole = whole_characters(text, looked);
  if (whole < looked && (looked == text.size() || looked - whole > 3)) return false;
  return std::ranges::none_of(text.substr(0, whole), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\n' && c != '\t' && c != '\r') || byte == 0x7f;
  });
}

constexpr int kFailed = 1;

void occupy_closed_streams() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// What it printed last may have failed to arrive, too: `error` is that of the system then, else 0.
int run(const std::function<int()>& program, std::string& message, int& error) {
  try {
    return program();
  } catch (const std::bad_alloc&) {
    message = "there is not enough memory";
  } catch (const std::system_error& thrown) {
    if (std::ferror(stdout) != 0) error = thrown.code().value();
    message = thrown.what();
  } catch (const std::exception& thrown) {
    message = thrown.what();
  }
  return kFailed;
}

}  // namespace

std::string preview(const Field& field, std::span<const std::byte> bytes) {
  const bool is_bytes = field.dtype == DType::uint8 && field.ragged && field.shape.empty();
  if (!is_bytes) return numbers(field.dtype, bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!looks_like_text(text)) return hex(bytes);
  const std::size_t end = whole_characters(text, kMostText);
  return fmt::format("\"{}\"{}", shown(text.substr(0, end)), end < text.size() ? " ..." : "");
}

std::string_view loader_of(const BlobInfo& blob) {
  constexpr std::string_view kHead = "loader/";
  constexpr std::string_view kTail = "/state";
  std::string_view name = blob.name;
  const bool is_state = blob.rank < 0 && name.size() > kHead.size() + kTail.size() &&
                        name.starts_with(kHead) && name.ends_with(kTail);
  return is_state ? name.substr(kHead.size(), name.size() - kHead.size() - kTail.size()) : "";
}

void flush_output() {
  if (std::fflush(stdout) != 0)
    throw std::system_error(errno, std::generic_category(), "write to standard output");
}

int run_with_output(const std::function<int()>& program) {
  occupy_closed_streams();
  std::string message;
  int error = 0;
  int code = run(program, message, error);
  const bool has_failed = std::ferror(stdout) != 0;
  errno = 0;
  const bool is_closed = std::fclose(stdout) == 0;  // some file systems report a full disk only now
  if (has_failed || !is_closed) {
    if (error == 0) error = errno == 0 ? EIO : errno;
    if (error == EPIPE) return 128 + SIGPIPE;
    message = fmt::format("write to standard output: {}", std::generic_category().message(error));
    code = kFailed;
  }
  if (!message.empty()) std::fputs(fmt::format("error: {}\n", shown(message)).c_str(), stderr);
  return code;
}

}  // namespace rota::cli
