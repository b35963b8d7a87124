#include <cstring>
#include <string_view>
#include <utility>

#include "core/failure.hpp"
#include "formats/formats.hpp"
#include "formats/records.hpp"
#include "ranks/collectives.hpp"

namespace rota::internal {
namespace {

bool is_json_lines(std::string_view name) { return is_named_as(kLinesFormat, name); }

class LinesFormat final : public RecordFormat {
 public:
  LinesFormat() : RecordFormat("lines", {{.name = "text", .ragged = true}}) {}

  [[nodiscard]] FileEncoding encoding(const DatasetFile& file) const override {
    const FileEncoding as{.compression = compression_of(file)};
    const std::string_view name = without_query(file.path());
    if (as.compression == Compression::none && without_compression(name).size() < name.size()) {
      throw file.damage(0,
                        "it is named as compressed, and its {} bytes begin otherwise: it is damaged or was "
                        "cut short, restore it; or it was unpacked, rename it",
                        file.bytes());
    }
    return as;
  }

  [[nodiscard]] RecordIndex index(const DatasetFile& file) const override {
    constexpr std::size_t kScanBytes = 1 << 20;
    refuse_compressed(file);
    RecordIndex index;
    const bool has_blank = !is_json_lines(file.path());  // which are lines as others, elsewhere
    const auto add = [&](std::uint64_t offset, std::uint64_t bytes) {
      if (bytes > 0 || has_blank) index.ranges.push_back({.offset = offset, .bytes = bytes});
    };
    std::uint64_t begin = begin_of_text(file);  // of the line
    char before = 0;                            // the last byte of the block before
    for (std::uint64_t at = 0; at < file.bytes();) {
      const auto block = file.at(at, kScanBytes);
      if (block.empty()) throw file.damage(at, "the file ends here; it was cut short while it was read");
      const auto* text = reinterpret_cast<const char*>(block.data());
      for (std::size_t i = 0; i < block.size();) {
        const auto* end = static_cast<const char*>(std::memchr(text + i, '\n', block.size() - i));
        if (end == nullptr) break;
        i = static_cast<std::size_t>(end - text);
        const char last = i > 0 ? text[i - 1] : before;
        const std::uint64_t bytes = at + i - begin;
        add(begin, bytes - (bytes > 0 && last == '\r' ? 1U : 0U));
        begin = at + ++i;
      }
      before = text[block.size() - 1];
      at += block.size();
    }
    if (begin < file.bytes()) add(begin, file.bytes() - begin);
    index.samples = std::ssize(index.ranges);
    return index;
  }

 private:
  // Behind a byte order mark, if there is one. Throws for what is no text of single bytes.
  static std::uint64_t begin_of_text(const DatasetFile& file) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    const std::string head = decompress_head(file, Compression::none, 8);
    refuse_arrays(file, head, "lines");
    if (is_json_lines(file.path()) && head.starts_with('<')) {
      throw failure(
          ErrorCode::corrupt,
          "open {}: it begins as a page for people, and not as JSON: a login page? Check the URL, or "
          "fetch it again",
          file.path());
    }
    if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF")) {
      throw failure(ErrorCode::unsupported,
                    "open {}: it is text of UTF-16 or UTF-32; convert it, as by iconv -f UTF-16 -t UTF-8",
                    file.path());
    }
    return head.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  }
};

bool are_json_lines(const FileList& files) {
  const auto names = files.read_names();
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!is_json_lines(files.path((*names)[i]))) return false;
  }
  require_no_pointers(files);
  return true;
}

std::shared_ptr<const Source> open_lines(const Catalog& catalog, const std::string& /*name*/) {
  const FileList& files = files_of(catalog);
  ranks::on_first_rank(files.context().nodes.all(), "look which format it is",
                       [&] { require_no_pointers(files); });
  return make_lines_source(files.with_sizes());
}

}  // namespace

constinit const FormatEntry kLinesFormat = opened_by<open_lines>(
    {.name = "lines", .endings = {".jsonl", ".ndjson"}, .are_named = are_json_lines, .unpacks = true});

std::shared_ptr<const Source> make_lines_source(FileList files) {
  return make_record_source(std::move(files), std::make_unique<LinesFormat>(), "lines");
}

}  // namespace rota::internal
