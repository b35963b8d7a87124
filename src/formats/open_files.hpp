#pragma once

// The files of a dataset whose samples are parts of files, open for reading.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "catalog/files.hpp"
#include "core/mutex.hpp"
#include "files/reads.hpp"
#include "formats/shared_files.hpp"
#include "rota/source.hpp"
#include "source/file_samples.hpp"
#include "source/read_plan.hpp"

namespace rota::internal {

/// Of this machine, or of the control group that this process is in, if that has less.
[[nodiscard]] double memory_bytes();

/// Throws Error{mismatch} naming a file that has another number of samples than was said when it was listed.
void require_expected(const FileSamples& samples, const FileList& files);

/// Files that are open for reading, each once for all threads: all of them where they are few
/// (CatalogOptions::max_open_files, and half of the process's descriptors for all such together), else those
/// that were read last; those that are being read may come on top. Files that are shared are read from
/// memory. Any thread.
class OpenFiles {
 public:
  using SharedFile = std::shared_ptr<const DatasetFile>;
  /// Opens them, if they are few, but for those that are `shared`. Throws as `open` does.
  explicit OpenFiles(FileList files, std::shared_ptr<SharedFiles> shared = nullptr);
  ~OpenFiles();
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  [[nodiscard]] const FileList& list() const noexcept { return files_; }
  /// Throws as FileList::open_unchanged does; of shared files, as fetch_file does.
  [[nodiscard]] SharedFile open(std::size_t i) const;
  /// Reads of those that are open, as read_at_once does; past the page cache, where CatalogOptions says so.
  void read(std::span<const WantedBytes> wanted) const;
  /// Begins to bring bytes [begin, end) of file `i` into the page cache; returns how many, or 0 where they
  /// are not read through it. Throws as `open`.
  [[nodiscard]] std::int64_t will_read(std::size_t i, std::uint64_t begin, std::uint64_t end) const;
  /// How many a thread should read together: each takes a descriptor, or its memory; of a storage neither.
  [[nodiscard]] std::size_t most_together() const noexcept {
    if (is_shared()) return 1;
    return files_.location().is_stored() ? std::numeric_limits<std::size_t>::max() : 64;
  }

  /// All are in memory, where reads need be in no order.
  [[nodiscard]] bool are_mapped() const noexcept { return access_ == Access::mapped; }

  [[nodiscard]] bool is_shared() const noexcept { return shared_ != nullptr; }
  [[nodiscard]] SharedFiles* shared() const noexcept { return shared_.get(); }

 private:
  using Kept = std::list<std::pair<std::size_t, SharedFile>>;
  struct Slot {
    std::weak_ptr<const DatasetFile> file;  // kept, or being read
    std::optional<Kept::iterator> kept;
  };

  [[nodiscard]] SharedFile open_one_of_many(std::size_t i) const;

  FileList files_;
  std::shared_ptr<SharedFiles> shared_;
  std::vector<SharedFile> all_;  // those that are not shared, or none where there are too many
  Access access_;
  std::unique_ptr<const DirectReads> direct_;  // null: through the page cache
  std::size_t most_kept_;
  std::size_t taken_ = 0;  // descriptors, of those that the process may keep
  mutable Mutex mutex_;
  mutable std::unordered_map<std::size_t, Slot> slots_ ROTA_GUARDED_BY(mutex_);  // of files that were opened
  mutable Kept kept_ ROTA_GUARDED_BY(mutex_);                                    // the one used last first
};

/// A dataset whose samples are parts of files, however these hold them.
class FileSource : public Source, public PlannedSource {
 public:
  [[nodiscard]] std::int64_t size() const override { return samples_.total(); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override { return samples_.counts(); }
  [[nodiscard]] std::int64_t will_read(SampleId first, std::int64_t count) const override;
  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t /*open*/) const override {
    return std::make_unique<Plan>(*this);
  }
  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most, SampleRange of) const override {
    return files_.is_shared() ? std::vector<SampleContent>() : read_content(*this, most, of, reads_parts_);
  }

 protected:
  /// Pins files that are shared.
  class Plan : public ReadPlan {
   public:
    explicit Plan(const FileSource& source) : ReadPlan(source), source_(source) {}
    [[nodiscard]] Near bring(SampleRange samples, bool reads) override;
    [[nodiscard]] Sharing sharing() const override {
      return source_.files_.is_shared() ? Sharing::in_few : Sharing::none;
    }
    [[nodiscard]] ReadCounts counts() const override {
      return source_.files_.is_shared() ? source_.files_.shared()->fetched() : ReadCounts();
    }

   private:
    const FileSource& source_;
  };
  /// `count_of(i)` are the samples of file i; `reads_parts` is as for read_content. Throws as OpenFiles does,
  /// and Error{mismatch} naming a file that has another number than was said when it was listed.
  FileSource(FileList files, std::shared_ptr<SharedFiles> shared, std::vector<Field> fields,
             const std::function<std::int64_t(std::size_t)>& count_of, bool reads_parts);

  [[nodiscard]] const OpenFiles& files() const noexcept { return files_; }
  [[nodiscard]] const FileSamples& samples() const noexcept { return samples_; }
  /// Begins to bring samples [first, first + count) of a file into the page cache; returns their bytes.
  [[nodiscard]] virtual std::int64_t will_read_in(std::size_t file, std::int64_t first,
                                                  std::int64_t count) const = 0;

 private:
  OpenFiles files_;
  std::vector<Field> fields_;
  FileSamples samples_;
  bool reads_parts_;
};

}  // namespace rota::internal
