#include "catalog/name_pattern.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <span>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "catalog/files.hpp"
#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "core/message.hpp"
#include "core/option.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "ranks/collectives.hpp"
#include "rota/types.hpp"

namespace rota::internal {

namespace {

// The brace that begins at byte `at`, if one does.
std::optional<NamePart> brace_at(std::string_view name, std::size_t at, const std::regex& notation) {
  const std::size_t last_byte = name[at] == '{' ? name.find_first_of("{}", at + 1) : std::string_view::npos;
  if (last_byte == std::string_view::npos || name[last_byte] != '}') return std::nullopt;
  const std::string inside(name.substr(at + 1, last_byte - at - 1));
  NamePart part{.begin = at, .end = last_byte + 1};
  if (inside.find(',') != std::string::npos) {
    for (std::size_t word = 0; word <= inside.size(); word += part.words.back().size() + 1)
      part.words.push_back(inside.substr(word, inside.find(',', word) - word));
    return part;
  }
  std::smatch match;
  if (!std::regex_match(inside, match, notation)) return std::nullopt;
  if (match[1].matched) {
    part.field = inside[0] == 'i'   ? &NameNumbers::index
                 : inside[0] == 'f' ? &NameNumbers::folder
                                    : &NameNumbers::total;
    if (match[2].matched) part.first = std::stoll(match.str(2));
    if (match[3].matched) part.width = std::stoi(match.str(3));
    return part;
  }
  const auto first = whole_number<std::int64_t>(match.str(4));
  const auto last = whole_number<std::int64_t>(match.str(5));
  if (!first || !last) return std::nullopt;
  part.first = *first;
  part.last = *last;
  part.width = static_cast<int>(match.length(4));
  return part;
}

// The fields of a pattern, which has other braces twice; or the ranges of a name, whose others are text.
std::vector<NamePart> parse_braces(std::string_view name, bool is_pattern) {
  const std::regex notation(R"((index|folder|total(?!\+))(?:\+([0-9]{1,18}))?(?::0([1-9]|1[0-8]))?)"
                            R"(|([0-9]{1,99})\.\.([0-9]{1,99}))");
  std::vector<NamePart> parts;
  std::string text;
  for (std::size_t at = 0; at < name.size();) {
    auto part = brace_at(name, at, notation);
    if (part && is_pattern == (part->field != nullptr)) {
      if (part->last < part->first && !is_pattern) {
        throw failure(ErrorCode::invalid_argument,
                      "open {}: the range {} goes backward; name the smaller number first", name,
                      name.substr(at, part->end - at));
      }
      at = part->end;
      part->text = std::exchange(text, {});
      parts.push_back(*std::move(part));
      continue;
    }
    const std::string_view next = name.substr(at, 2);
    const bool is_twice = is_pattern && (next == "{{" || next == "}}");
    if (is_pattern && !is_twice && std::string_view("{}\0", 3).find(next[0]) != std::string_view::npos) {
      throw failure(ErrorCode::invalid_argument,
                    "read the pattern {}: byte {} begins no field; write {{index:01}} to {{index:018}}, "
                    "{{index+1}}, {{folder}} or {{total}}, and other braces twice",
                    std::string(name).c_str(), at);
    }
    text.push_back(next[0]);
    at += is_twice ? 2 : 1;
  }
  parts.push_back({.text = std::move(text)});
  return parts;
}

// The names that begin so, and go on as `parts` say.
void expand(const std::string& beginning, std::span<const NamePart> parts,
            const std::function<void(const std::string&)>& visit) {
  const NamePart& part = parts.front();
  if (parts.size() == 1) return visit(beginning + part.text);
  const auto choose = [&](std::string_view chosen) {
    expand(fmt::format("{}{}{}", beginning, part.text, chosen), parts.subspan(1), visit);
  };
  for (const std::string& word : part.words) choose(word);
  const std::int64_t numbers = part.words.empty() ? part.last - part.first : -1;  // beside the first
  for (std::int64_t i = 0; i <= numbers; ++i) choose(fmt::format("{:0{}}", part.first + i, part.width));
}

}  // namespace

std::size_t find_range(std::string_view text) { return parse_braces(text, false).front().begin; }

double count_names(std::string_view text) {
  double count = 1;
  for (const NamePart& part : parse_braces(text, false)) {
    const double numbers = static_cast<double>(part.last) - static_cast<double>(part.first) + 1;
    count *= part.words.empty() ? numbers : static_cast<double>(part.words.size());
  }
  return count;
}

void expand_ranges(const std::string& text, const std::function<void(const std::string&)>& visit) {
  expand("", parse_braces(text, false), visit);
}

NamePattern::NamePattern(std::string text) : text_(std::move(text)), parts_(parse_braces(text_, true)) {}

void NamePattern::require_names() const {
  const auto count = std::ranges::count(parts_, &NameNumbers::index, &NamePart::field);
  const std::string wrong =
      count != 1 ? fmt::format("it has {} fields {{index}}; it needs one, as in img_{{index:08}}.npz", count)
      : text_.ends_with('/') ? "it names directories; name files"
      : has(&NameNumbers::folder) && through(&NameNumbers::folder).has(&NameNumbers::index)
          ? "{folder} is to name a directory above that of {index}"
          : "";
  if (!wrong.empty()) throw failure(ErrorCode::invalid_argument, "read the pattern {}: {}", text_, wrong);
}

std::size_t NamePattern::begin_of(NameField field) const noexcept {
  const auto part = std::ranges::find(parts_, field, &NamePart::field);
  return part == parts_.end() ? std::string::npos : part->begin;
}

std::string NamePattern::name(const NameNumbers& numbers) const {
  std::string name;
  for (const NamePart& part : parts_) {
    name += part.text;
    if (part.field == nullptr) continue;
    const std::int64_t number = part.first + numbers.*part.field;
    if (number < 0) return {};
    fmt::format_to(std::back_inserter(name), "{:0{}}", number, part.width);
  }
  return name;
}

std::int64_t NamePattern::total_in(const std::string& name) const {
  NameNumbers numbers;
  const char* const end = name.data() + name.size();
  const char* at = name.data();
  for (const NamePart& part : parts_) {
    at += std::min(std::ssize(part.text), end - at);
    if (part.field == nullptr) continue;
    std::int64_t& number = numbers.*part.field;
    at = std::from_chars(at, end, number).ptr;
    number = std::max<std::int64_t>(number, 0) - part.first;
  }
  return this->name(numbers) == name ? numbers.total : 0;
}

std::int64_t NameSeries::folder_of(std::int64_t i) const noexcept {
  if (layout == FolderLayout::round_robin) return (i % folders + folders) % folders;
  return share(folders, std::clamp<std::int64_t>(i, 0, files - 1), files);
}

std::int64_t NameSeries::next_in(std::int64_t folder) const noexcept {
  if (layout == FolderLayout::restart) return indices();
  if (layout == FolderLayout::round_robin) return files + folder_of(folder - files);
  return files - share(files, folders - 1 - folder, folders);  // ceil((folder + 1) files / folders)
}

Fingerprint NameSeries::fingerprint() const {
  FingerprintBuilder builder;
  builder.add("names of a pattern").add(pattern.text());
  return builder.add(files).add(folders).add(static_cast<std::int64_t>(layout)).finish();
}

namespace {

constexpr std::string_view kTask = "make a catalog of a pattern";
constexpr std::string_view kAsking = "look for files";
constexpr std::int64_t kParts = 2995;        // ceil(log(1 - 0.95) / log(1 - 0.001))
constexpr std::int64_t kProbesAtOnce = 16;   // that a thread takes
constexpr std::int64_t kMostNames = 10'000;  // of a directory that are looked at
constexpr int kOtherKind = -1;

// Names in the directory of `path`, with their lengths, without hidden ones; `are_alike`: those that begin as
// its last component up to the first digit.
std::set<std::pair<std::size_t, std::string>> names_beside(const std::string& path, const Storages& storages,
                                                           bool are_alike) {
  const std::size_t slash = path.rfind('/') + 1;
  const std::size_t digit = are_alike ? path.find_first_of("0123456789", slash) : slash;
  const std::string beginning = path.substr(slash, digit - slash);
  std::set<std::pair<std::size_t, std::string>> names;
  std::int64_t seen = 0;
  list_directory(slash == 0 ? "./" : path.substr(0, slash), storages, beginning,
                 [&](const std::string& name, const StoredFile* /*file*/) {
                   const bool is_wanted = name.starts_with(beginning) && !name.empty() && name[0] != '.';
                   if (is_wanted) names.emplace(name.size(), name);
                   return ++seen < kMostNames;
                 });
  return names;
}

// Names that are where `path` is, or in the nearest directory above it that is there.
std::string describe_names(const std::string& path, const Storages& storages) {
  const std::string above = path.find('/') == std::string::npos ? "." : path.substr(0, path.rfind('/'));
  try {
    const auto names = names_beside(path, storages, true);
    if (!names.empty())
      return fmt::format("{}/ holds {} to {}", above, names.begin()->second, names.rbegin()->second);
    const auto others = names_beside(path, storages, false);
    return above + (others.empty() ? "/ is empty" : "/ holds no such name, but " + others.begin()->second);
  } catch (const Error& error) {
    const bool is_top = above == "." || above.empty() || above.ends_with('/');
    return error.code() != ErrorCode::not_found || is_top ? error.what() : describe_names(above, storages);
  }
}

// The names of some files say how many there are: those in the directory of the first one.
std::int64_t find_total(const NamePattern& path, const Storages& storages) {
  const bool has_total = path.has(&NameNumbers::total);
  const NamePattern until = path.through(&NameNumbers::total);
  const std::string first = until.name({});
  std::map<std::int64_t, std::string> names;  // by the total in them
  if (has_total) {
    for (const auto& [bytes, name] : names_beside(first, storages, true))
      names.emplace(until.total_in(first.substr(0, first.rfind('/') + 1) + name), name);
  }
  names.erase(0);
  if (names.size() == 1) return names.begin()->first;
  const std::string seen = !has_total ? "nothing says it, and trying one after the other ends at a gap"
                           : names.empty()
                               ? "no name has it in so many digits; " + describe_names(first, storages)
                               : names.begin()->second + " and " + names.rbegin()->second + " do not agree";
  throw Error(has_total && names.empty() ? ErrorCode::not_found : ErrorCode::invalid_argument,
              fmt::format("{} {}: count the files: {}; give the option files, or write {{total}} where names "
                          "have it; or list them by a Catalog, which is fast",
                          kTask, path.text(), seen));
}

// The number of files, for a pattern and options that go together.
std::int64_t count_files(const NamePattern& path, PatternOptions options, const Storages& storages) {
  path.require_names();
  const bool has_folders = options.folders > 0 || options.layout != FolderLayout::round_robin;
  if (path.has(&NameNumbers::folder) ? options.folders == 0 : has_folders) {
    throw failure(ErrorCode::invalid_argument, "{} {}: the option folders goes with a {{folder}}: {}", kTask,
                  path.text(), describe_names(path.through(&NameNumbers::folder).name({}), storages));
  }
  if (options.files == 0) options.files = find_total(path, storages);
  options.validate();
  if (options.layout != FolderLayout::restart || options.files % options.folders == 0) return options.files;
  throw failure(ErrorCode::invalid_argument,
                "{} {}: {} files cannot be shared out alike to {} folders; mend PatternOptions", kTask,
                path.text(), options.files, options.folders);
}

bool is_absent(int answer) {
  return answer == kOtherKind || answer == ENOENT || answer == ENOTDIR || answer == ENAMETOOLONG;
}

// Of a probe whose answer is not the right one.
Error wrong_answer(const Probe& probe, int answer, const NameSeries& series, const std::string& shown,
                   const Storages& storages) {
  const std::string name = shown + probe.name;
  auto code = ErrorCode::io;
  std::string advice = "let this user read it, check the file system";
  std::string why = std::generic_category().message(answer);
  if (answer == 0) {
    code = ErrorCode::invalid_argument;
    advice = "there are more files: remove them";
    why = "one too many";
  } else if (is_absent(answer)) {
    code = ErrorCode::not_found;
    advice = "restore what is missing";
    if (answer == kOtherKind) why = "of another kind";
  }
  return failure(
      code,
      "look for the {} files of the pattern {}{}: {} ({}); {}; {}, or mend the pattern and PatternOptions",
      series.files, shown, series.pattern.text(), name, why, describe_names(name, storages), advice);
}

struct WrongAnswer {
  const Probe* probe;
  int answer;
};

}  // namespace

std::vector<std::int64_t> stratified_sample(std::int64_t items) {
  const std::int64_t parts = std::min(kParts, items - 2);
  std::vector<std::int64_t> sample{0};
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t first = 1 + share(items - 2, i, parts);
    const std::int64_t size = 1 + share(items - 2, i + 1, parts) - first;
    const std::uint64_t random = XXH3_64bits(&i, sizeof(i));
    sample.push_back(first + static_cast<std::int64_t>(random % static_cast<std::uint64_t>(size)));
  }
  if (items > 1) sample.push_back(items - 1);
  return sample;
}

std::vector<Probe> make_probes(const NameSeries& series) {
  const NamePattern folder_name = series.pattern.through(&NameNumbers::folder);
  std::vector<Probe> probes;
  std::unordered_set<std::string> names;
  const auto add = [&](bool is_directory, bool is_surplus, std::int64_t index, std::int64_t folder) {
    // Without {folder}, a directory's name is that of the first file, and is left out as a second one.
    std::string name = (is_directory ? folder_name : series.pattern).name({index, folder, series.files});
    if (!name.empty() && names.insert(name).second)
      probes.push_back({std::move(name), is_directory, is_surplus});
  };
  for (const std::int64_t i : stratified_sample(series.files))
    add(false, false, i % series.indices(), series.folder_of(i));
  for (const std::int64_t folder : stratified_sample(series.folders)) {
    add(true, false, 0, folder);
    add(false, true, series.next_in(folder), folder);
    add(false, true, series.layout == FolderLayout::blocks ? series.next_in(folder - 1) - 1 : -1, folder);
  }
  for (std::int64_t d = 1; d < std::int64_t{1} << 60; d = d < 8 ? d + 1 : 2 * d) {
    for (const std::int64_t index : {-d, series.indices() - 1 + d})
      add(false, true, index, series.folder_of(index));
    for (const std::int64_t folder : {-d, series.folders - 1 + d}) add(true, true, 0, folder);
  }
  return probes;
}

void validate_files(const OpenContext& context, const NameSeries& series, const std::string& shown,
                    int threads, const AskForName& ask) {
  const Communicator& all = context.nodes.all();
  const std::vector<Probe> probes = make_probes(series);
  const std::int64_t first = share(std::ssize(probes), all.rank(), all.size());
  const std::int64_t count = share(std::ssize(probes), all.rank() + 1, all.size()) - first;
  all.together(kAsking, [&] {
    ProgressReporter reporter(context.options.progress, kAsking, count);
    try {
      parallel_for(kAsking, count, kProbesAtOnce, std::max(threads, context.options.listing_threads),
                   [&](const LoopPart& part) {
                     for (std::int64_t i = part.begin; i < part.end; ++i) {
                       const Probe& probe = probes[static_cast<std::size_t>(first + i)];
                       const int answer = ask(probe);
                       if (probe.is_surplus ? !is_absent(answer) : answer != 0)
                         throw WrongAnswer{&probe, answer};
                       reporter.add(1, part.is_callers);
                     }
                   });
    } catch (const WrongAnswer& wrong) {  // one, for what is told of it is looked for
      throw wrong_answer(*wrong.probe, wrong.answer, series, shown, context.options.storages);
    }
    reporter.end();
  });
}

FileList generate_files(const std::shared_ptr<const OpenContext>& context, const std::string& pattern,
                        const PatternOptions& options) {
  context->nodes.all().together(kTask, [&] { options.validate(); });
  ranks::require_same(context->nodes.all(), kTask,
                      fmt::format("files {}, folders {}, layout {}, pattern {}", options.files,
                                  options.folders, to_string(options.layout), pattern));
  const auto files = made_on_first_rank(
      *context, kTask, [&] { return count_files(NamePattern(pattern), options, context->options.storages); });
  const NamePattern path(pattern);
  const std::string directory = NamePattern(pattern.substr(0, path.below_directory())).name({});
  const NameSeries series{NamePattern(pattern.substr(path.below_directory())), files,
                          std::max<std::int64_t>(options.folders, 1), options.layout};
  FileList list(context, ChangeDetection::by_name, std::make_shared<Listing>(series),
                {.directory = directory, .names = series.fingerprint()});
  const Location& location = list.location();
  validate_files(*context, series, directory, location.is_stored() ? kStoredAtOnce : 1,
                 [&](const Probe& probe) { return location.probe(probe.name, probe.is_directory); });
  return list;
}

}  // namespace rota::internal

namespace rota {

std::string_view to_string(FolderLayout layout) noexcept {
  return internal::kFolderLayouts[std::min(static_cast<std::size_t>(layout),
                                           internal::kFolderLayouts.size() - 1)];
}

void PatternOptions::validate() const {
  const internal::OptionCheck check(internal::kTask);
  check.one_of("layout", layout, internal::kFolderLayouts);
  check.in_range("files", files, 0, std::int64_t{1} << 40);
  check.in_range("folders", folders, 0, std::int64_t{1} << 22);
}

}  // namespace rota
