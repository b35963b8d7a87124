// `rota verify`: whether checkpoints are good.

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "checkpoint/directory_files.hpp"
#include "checkpoint/reader.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "core/failure.hpp"
#include "files/file.hpp"
#include "files/path.hpp"
#include "resume/saved_state.hpp"
#include "rota/resume.hpp"
#include "rota/verify.hpp"

namespace rota::cli {
namespace {

constexpr const char* kVerifyHelp =
    "Verifies every byte of a checkpoint, or of all in a directory, newest first, and lists all that is "
    "damaged, temporaries of saves, and what a restore would take. Exit code 0: all is good, 1: it is not, "
    "or nothing is there, 2: usage.";

// A file that bears the name of another is not taken.
void check_name(const std::filesystem::path& file, Verification& found) {
  const auto serial = checkpoint::serial_of(file.filename().string());
  if (!serial || !found.info || found.info->serial == *serial) return;
  found.damage.push_back(
      {.part = Verification::Damage::Part::page,
       .what = fmt::format("its commit page says serial {}; the file was renamed", found.info->serial)});
}

// Of loaders whose parts contradict one another a restore goes back to an older checkpoint, too.
void check_loaders(const std::filesystem::path& file, Verification& found) {
  if (!found.is_good()) return;
  const Checkpoint checkpoint = CheckpointReader(internal::posix_file_system(), file).finish();
  for (const BlobInfo& blob : found.blobs) {
    const std::string_view loader = loader_of(blob);
    if (loader.empty()) continue;
    bool is_ours = false;
    try {
      is_ours = !internal::kind_of_loader(checkpoint, loader).empty();
      describe_loader(checkpoint, loader);
    } catch (const Error& error) {
      if (!is_ours || error.code() != ErrorCode::corrupt) continue;  // of a newer version, say
      found.damage.push_back({.part = Verification::Damage::Part::contents, .what = error.what()});
    }
  }
}

std::string good_text(const Verification& found, double seconds) {
  const CheckpointInfo& info = *found.info;
  return fmt::format("good\n    {} bytes, serial {}, step {}, saved by {}; {}, {}; {:.2f} GB/s\n",
                     grouped(info.bytes), info.serial, grouped(info.step), counted(info.world_size, "rank"),
                     counted(std::ssize(found.tensors), "tensor"), counted(std::ssize(found.blobs), "blob"),
                     static_cast<double>(info.bytes) / 1e9 / std::max(seconds, 1e-9));
}

std::string damaged_text(const Verification& found) {
  std::string text = fmt::format("DAMAGED, {}\n", counted(std::ssize(found.damage), "problem"));
  for (const Verification::Damage& damage : found.damage) text += fmt::format("    {}\n", damage.what);
  return text;
}

// What is found, also as a text.
std::pair<Verification, std::string> verify_file(const std::filesystem::path& file) {
  const auto start = std::chrono::steady_clock::now();
  Verification found = verify_checkpoint(file);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  check_name(file, found);
  check_loaders(file, found);
  std::string text = found.is_good() ? good_text(found, took.count()) : damaged_text(found);
  return {std::move(found), std::move(text)};
}

// Blobs are looked into only when they are read.
bool is_restorable(const Verification& found) {
  return std::ranges::all_of(found.damage,
                             [](const auto& d) { return d.part == Verification::Damage::Part::blob; });
}

// Whoever writes a temporary holds its lock. Nobody waits for the lock, so that trying it does no harm.
void print_temporary(const std::filesystem::path& file, std::FILE* out) {
  const std::string name = file.filename().string();
  try {
    internal::File opened(internal::posix_file_system(), file.string(), O_RDONLY);
    const internal::Lock lock = opened.try_lock();
    const auto* what = lock == internal::Lock::taken_elsewhere ? "a save under way"
                       : lock == internal::Lock::taken ? "left by a save that died; the next save drops it"
                                                       : "a save under way, or left by one that died";
    fmt::print(out, "  {}: {}, {} bytes\n", name, what, grouped(static_cast<std::int64_t>(opened.size())));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) fmt::print(out, "  {}: {}\n", name, error.what());
  }  // else published or dropped by now
}

// What came of one checkpoint of a directory: whether it is good, and what a restore would do that looks at
// it; empty: look at an older one.
std::pair<bool, std::string> verify_one(const std::filesystem::path& file, std::FILE* out) {
  const std::string name = file.filename().string();
  fmt::print(out, "  {}: ", name);
  std::fflush(out);  // a large file takes its time
  try {
    const auto [found, text] = verify_file(file);
    fmt::print(out, "{}", text);
    return {found.is_good(), is_restorable(found) ? "take " + name : ""};
  } catch (const Error& error) {
    const bool is_dropped = error.code() == ErrorCode::not_found;  // by a job that is running
    fmt::print(out, "{}\n",
               is_dropped ? "dropped by now" : fmt::format("cannot be verified: {}", error.what()));
    return {is_dropped, is_dropped ? "" : "fail at " + name};
  }
}

bool verify_directory(const std::filesystem::path& directory, std::FILE* out) {
  std::vector<std::int64_t> serials;
  std::vector<std::string> temporaries;
  const auto names = internal::list_names(internal::posix_file_system(), directory);
  for (const std::string& name : names) {
    if (const auto serial = checkpoint::serial_of(name)) serials.push_back(*serial);
    if (checkpoint::is_temporary(name)) temporaries.push_back(name);
  }
  if (serials.empty() && temporaries.empty() && !names.empty()) {
    constexpr const char* kOther =
        "verify {}: it holds {}, and no checkpoints; rota ls is for data, audit for traces";
    throw internal::failure(ErrorCode::invalid_argument, kOther, directory.native(), names.front());
  }
  std::ranges::sort(serials, std::greater());
  std::ranges::sort(temporaries, std::greater());
  fmt::print(out, "{}: {}\n", shown(directory.native()), counted(std::ssize(serials), "checkpoint"));
  bool are_good = !serials.empty();
  std::string restore;
  for (const std::int64_t serial : serials) {
    const auto [is_good, would] = verify_one(directory / checkpoint::checkpoint_name(serial), out);
    are_good = are_good && is_good;
    if (restore.empty()) restore = would;
  }
  for (const std::string& name : temporaries) print_temporary(directory / name, out);
  if (restore.empty()) restore = serials.empty() ? "find nothing" : "fail: none of them is good";
  fmt::print(out, "a restore would {}\n", restore);
  return are_good;
}

}  // namespace

bool verify(const std::filesystem::path& file_or_directory, std::FILE* out) {
  std::error_code unknown;  // what it is; to open it says more
  if (std::filesystem::is_directory(file_or_directory, unknown))
    return verify_directory(file_or_directory, out);
  const auto [found, text] = verify_file(file_or_directory);
  fmt::print(out, "{}: {}", shown(file_or_directory.native()), text);
  return found.is_good();
}

void add_verify(CLI::App& app, int& code) {
  const auto path = std::make_shared<std::filesystem::path>();
  CLI::App& command = *app.add_subcommand("verify", kVerifyHelp);
  command.add_option("PATH", *path, "a checkpoint, or a directory of checkpoints")->required();
  command.callback([path, &code] { code = verify(internal::path_on_disk(*path), stdout) ? 0 : kProblems; });
}

}  // namespace rota::cli
