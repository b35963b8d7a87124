#include <algorithm>
#include <cassert>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "catalog/location.hpp"
#include "core/failure.hpp"
#include "core/mutex.hpp"
#include "core/parallel.hpp"
#include "files/reads.hpp"
#include "formats/formats.hpp"
#include "formats/open_files.hpp"
#include "formats/records.hpp"
#include "source/content.hpp"

namespace rota::internal {
namespace {

/// What `rows` has asked a storage for files that are soon read. Any thread.
class Asked {
 public:
  void keep(SampleId id, const FileStat& stat) {
    constexpr std::size_t kMost = 1 << 16;  // where nobody reads what was asked for
    const MutexLock lock(mutex_);
    if (stats_.size() >= kMost) stats_.clear();
    stats_[id.value] = stat;
  }
  std::optional<FileStat> take(SampleId id) {
    const MutexLock lock(mutex_);
    const auto found = stats_.find(id.value);
    if (found == stats_.end()) return std::nullopt;
    const FileStat stat = found->second;
    stats_.erase(found);
    return stat;
  }

 private:
  Mutex mutex_;
  std::unordered_map<std::int64_t, FileStat> stats_ ROTA_GUARDED_BY(mutex_);
};

class FilesSource final : public Source, public PlannedSource {
 public:
  FilesSource(FileList files, const FilesOptions& options)
      : files_(std::move(files)),
        fingerprint_(FingerprintBuilder().add("files").add(to_string(files_.fingerprint())).finish()) {
    if (!options.keys) return;
    for (const std::string_view name : {kPathField, kFolderField}) {
      fields_.push_back({.name = std::string(name), .ragged = true});
    }
  }

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] Fingerprint fingerprint() const override { return fingerprint_; }

  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    assert(out.size() == ids.size());
    check_ids(*this, ids);
    if (field != 0) {
      std::ranges::transform(ids, out.begin(), [&](SampleId id) { return std::ssize(key(id, field)); });
      return;
    }
    if (files_.change_detection() == ChangeDetection::by_size) {
      std::ranges::transform(ids, out.begin(), [this](SampleId id) { return files_.bytes(index(id)); });
      return;
    }
    // A storage's answer is long on its way.
    const bool is_stored = files_.location().is_stored();
    parallel_for("ask for sizes", std::ssize(ids), is_stored ? 1 : 256, is_stored ? kStoredAtOnce : 1,
                 [&](const LoopPart& part) {
                   const auto names = files_.read_names();
                   for (auto i = static_cast<std::size_t>(part.begin); std::cmp_less(i, part.end); ++i) {
                     const FileStat stat = files_.location().stat((*names)[index(ids[i])]);
                     if (is_stored) asked_.keep(ids[i], stat);
                     out[i] = stat.bytes;
                   }
                 });
  }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      for (std::size_t field = 1; field < fields_.size(); ++field) {
        const std::string text = key(ids[i], field);
        std::ranges::copy(std::as_bytes(std::span(text)), out.bytes(field, i).begin());
      }
    }
    if (files_.location().is_stored()) return read_stored(ids, out);
    read_open(ids, out);
  }

  void read_rows(std::span<const SampleRows> wanted, std::size_t field) const override {
    if (field != 0) return Source::read_rows(wanted, field);
    check_ids(*this, wanted);
    for (const SampleRows& rows : wanted) {
      const DatasetFile file = files_.open(index(rows.id));
      check_rows(rows, static_cast<std::int64_t>(file.bytes()));
      file.read(static_cast<std::uint64_t>(rows.first), {rows.to, static_cast<std::size_t>(rows.count)});
    }
  }

  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most, SampleRange of) const override {
    return read_content(*this, most, of, true, 1);
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    return id.value >= 0 && id.value < size() ? files_.path(index(id)) : std::string();
  }

 private:
  static std::size_t index(SampleId id) noexcept { return static_cast<std::size_t>(id.value); }

  [[nodiscard]] std::string key(SampleId id, std::size_t field) const {
    std::string path = (*files_.read_names())[index(id)];
    if (fields_[field].name == kPathField) return path;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    return path.substr(path.rfind('/') + 1);
  }

  void read_stored(std::span<const SampleId> ids, const BatchView& out) const {
    std::vector<DatasetFile> files;
    std::vector<WantedBytes> wanted;
    files.reserve(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      files.push_back(open(ids[i], out.bytes(0, i).size()));
      wanted.push_back({.file = &files.back(), .offset = 0, .to = out.bytes(0, i)});
    }
    read_at_once(wanted);
  }

  // What is not in the page cache is begun for many files before the first is waited for.
  void read_open(std::span<const SampleId> ids, const BatchView& out) const {
    constexpr std::size_t kMostOpen = 64;
    std::size_t next = 0;
    std::deque<std::pair<DatasetFile, std::span<std::byte>>> waiting;
    const auto begin = [&]() -> std::optional<std::size_t> {
      while (next < ids.size()) {
        const std::span<std::byte> to = out.bytes(0, next);
        DatasetFile file = open(ids[next++], to.size());
        if (file.read_cached(0, to)) continue;
        file.will_read(0, to.size());
        waiting.emplace_back(std::move(file), to);
        return to.size();
      }
      return std::nullopt;
    };
    const auto end = [&] {
      waiting.front().first.read(0, waiting.front().second);
      waiting.pop_front();
    };
    read_ahead(begin, end, kMostOpen);
  }

  // Of as many bytes as `rows` has told. Throws Error{corrupt} for others.
  [[nodiscard]] DatasetFile open(SampleId id, std::size_t bytes) const {
    const std::optional<FileStat> asked = asked_.take(id);
    DatasetFile file =
        asked ? files_.location().open((*files_.read_names())[index(id)], index(id), Access::cached, &*asked)
              : files_.open(index(id));
    if (file.bytes() == bytes) return file;
    throw failure(ErrorCode::corrupt,
                  "read {}: it has {} bytes now and had {} before; restore the file, or open the dataset "
                  "anew as another one; write new data to files of other names",
                  file.path(), file.bytes(), bytes);
  }

  FileList files_;
  mutable Asked asked_;
  Fingerprint fingerprint_;
  std::vector<Field> fields_ = {{.name = "data", .dtype = DType::uint8, .shape = {}, .ragged = true}};
};

std::shared_ptr<const Source> open_files(const Catalog& catalog, const FilesOptions& options) {
  const FileList& files = files_of(catalog);
  if (files.context().options.share_files) {
    throw failure(ErrorCode::unsupported,
                  "open files of {}: each is one sample, which one rank reads once, and the option "
                  "share_files is for files of many; leave it false",
                  files.shown_directory());
  }
  FileSamples samples;
  for (std::size_t i = 0; files.knows_samples() && i < files.size(); ++i) samples.add(1);
  require_expected(samples, files);
  return std::make_unique<FilesSource>(files, options);
}

}  // namespace

constinit const FormatEntry kFilesFormat =
    opened_by<open_files>({.name = "files", .options = {{"keys", option<&FilesOptions::keys>}}});

}  // namespace rota::internal
