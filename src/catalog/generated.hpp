#pragma once

// Whether the files of a series are there, and no more, as far as asking for some names tells.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "catalog/name_pattern.hpp"
#include "catalog/open_context.hpp"

namespace rota::internal {

/// Of [0, items), ascending: the first, the last, and one at random of each of 2,995 equal parts between
/// them; or all, where there are no more. That meets a contiguous hole as long as two parts for certain. It
/// meets scattered holes of one item in 1,000 with a probability of 95 % at least.
std::vector<std::int64_t> stratified_sample(std::int64_t items);

/// Something to ask for: a regular file that this user may read, or a directory.
struct Probe {
  std::string name;
  bool is_directory = false;
  bool is_surplus = false;  ///< nothing may have that name; else something must
};

/// What is asked for, nothing twice: a sample of the files; a sample of the folders, and what would be next
/// in each of these; then names behind the last number and before the first, of files and of folders, 8 one
/// by one and others at distances that double.
std::vector<Probe> make_probes(const NameSeries& series);

/// Asks for a probe in one directory, symbolic links followed. Returns 0 where it is there, -1 where it is of
/// another kind, or the system's error number. Any thread.
using AskForName = std::function<int(const Probe& probe)>;

/// **Collective** over `context`, whose ranks and threads, `threads` at least, share the work. Asks for the
/// probes of `series` in the directory `shown`: empty, or ending in a slash. Throws for the first wrong
/// answer, with a look at what is there: Error{not_found} for what is missing, Error{io} for what cannot be
/// read, Error{invalid_argument} where there are more files.
void validate_files(const OpenContext& context, const NameSeries& series, const std::string& shown,
                    int threads, const AskForName& ask);

}  // namespace rota::internal
