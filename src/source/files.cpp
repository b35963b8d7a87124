#include <fmt/format.h>
#include <sys/uio.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

#include "rota/error.hpp"
#include "source/formats.hpp"

namespace rota {
namespace {

class FilesSource final : public Source {
 public:
  explicit FilesSource(FileList files) : files_(std::move(files)), fingerprint_(digest(files_)) {}

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] Fingerprint fingerprint() const override { return fingerprint_; }

  void rows(std::span<const SampleId> ids, [[maybe_unused]] std::size_t field,
            std::span<std::int64_t> out) const override {
    assert(field == 0 && out.size() == ids.size());
    check_ids(*this, ids);
    std::transform(ids.begin(), ids.end(), out.begin(),
                   [this](SampleId id) { return files_.bytes(index(id)); });
  }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) read_file(index(ids[i]), out.bytes(0, i));
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    return id.value >= 0 && id.value < size() ? files_.path(index(id)) : std::string();
  }

 private:
  static std::size_t index(SampleId id) noexcept { return static_cast<std::size_t>(id.value); }

  static Fingerprint digest(const FileList& files) {
    FingerprintBuilder builder;
    builder.add("files").add(static_cast<std::int64_t>(files.size()));
    for (std::size_t i = 0; i < files.size(); ++i) builder.add(files.name(i)).add(files.bytes(i));
    return builder.finish();
  }

  // Asks for one byte more than there should be, which tells a file that grew without another call.
  void read_file(std::size_t file, std::span<std::byte> to) const {
    assert(to.size() == static_cast<std::size_t>(files_.bytes(file)));
    const Descriptor descriptor = files_.open(file);
    std::byte excess{};
    std::size_t done = 0;
    for (;;) {
      const std::span<std::byte> rest = to.subspan(std::min(done, to.size()));
      const iovec parts[] = {{rest.data(), rest.size()}, {&excess, 1}};
      const ssize_t got = ::readv(descriptor.get(), &parts[0], 2);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw Error(ErrorCode::io, system_error("read", files_.path(file), errno).what());
      done += static_cast<std::size_t>(got);
      if (got == 0 || done > to.size()) break;
    }
    if (done != to.size()) throw changed(file, descriptor.get());
  }

  [[nodiscard]] Error changed(std::size_t file, int fd) const {
    return {
        ErrorCode::corrupt,
        fmt::format("read {}: it has {} bytes now and had {} when it was listed; restore the file, or open "
                    "the dataset anew as another one",
                    files_.path(file), size_of_open(fd), files_.bytes(file))};
  }

  FileList files_;
  Fingerprint fingerprint_;
  std::vector<Field> fields_ = {{.name = "data", .dtype = DType::uint8, .shape = {}, .ragged = true}};
};

}  // namespace

void FilesOptions::validate() const {
  if (listing_threads >= 1) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("open files: listing_threads is {}; use 1 or more", listing_threads));
}

std::unique_ptr<const Source> make_files_source(FileList files) {
  return std::make_unique<FilesSource>(std::move(files));
}

std::unique_ptr<const Source> open_files(const std::filesystem::path& path, const FilesOptions& options) {
  options.validate();
  return make_files_source(FileList::list(path, {.threads = options.listing_threads}));
}

}  // namespace rota
