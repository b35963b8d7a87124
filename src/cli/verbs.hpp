#pragma once

// The verbs of the tool, each in a source of its name (audit: run_audit.cpp).

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <functional>

namespace rota::cli {

inline constexpr int kProblems = 1;  ///< exit code where something is wrong with what was looked at
inline constexpr int kUsage = 2;

/// A verb of the command line, and what it does where it was given; its exit code.
struct Verb {
  const CLI::App* command;
  std::function<int()> run;
};

/// `path`, of a file system. Throws Error{unsupported} for a URL.
const std::filesystem::path& require_on_disk(const std::filesystem::path& path);

/// Adds a verb to the command line.
Verb add_audit(CLI::App& app);
Verb add_inspect(CLI::App& app);
Verb add_verify(CLI::App& app);
Verb add_ls(CLI::App& app);
Verb add_index(CLI::App& app);
Verb add_head(CLI::App& app);
Verb add_speed(CLI::App& app);
Verb add_shard(CLI::App& app);

/// Verifies a checkpoint, or every checkpoint of a directory, newest first, and prints to `out` what is good
/// and all that is damaged. Takes no lock on the directory, which a job may be using. Returns whether all is
/// good, and there is something at all. Throws what `verify_checkpoint` throws for a file.
bool verify(const std::filesystem::path& file_or_directory, std::FILE* out);

}  // namespace rota::cli
