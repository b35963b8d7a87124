#include "rota/verify.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "files/path.hpp"
#include "reader.hpp"
#include "rota/error.hpp"

namespace rota {
namespace checkpoint {
namespace {

// `blob "rng" of rank 3`, or, where it is the job's, `blob "rng"`.
std::string describe(const BlobEntry& blob) {
  return blob.rank < 0 ? fmt::format("blob \"{}\"", blob.name)
                       : fmt::format("blob \"{}\" of rank {}", blob.name, blob.rank);
}

// A tensor or a blob, and its bytes in the file.
struct Owner {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string name;
  std::uint64_t row_bytes = 0;  // of a tensor
};

// In the order of their bytes.
std::vector<Owner> owners_of(const Contents& contents) {
  std::vector<Owner> owners;
  const auto add = [&](std::uint64_t offset, std::uint64_t bytes, std::string name, std::int64_t row_bytes) {
    if (bytes > 0) {
      owners.push_back({offset, offset + bytes, std::move(name), static_cast<std::uint64_t>(row_bytes)});
    }
  };
  for (std::size_t t = 0; t < contents.tensors.size(); ++t) {
    const TensorPlace& place = contents.places[t];
    add(place.offset, place.bytes, fmt::format("tensor \"{}\"", contents.tensors[t].name), place.row_bytes);
  }
  for (const BlobEntry& blob : contents.blobs) {
    add(contents.blob_offset + blob.offset, blob.stored_bytes, describe(blob), 0);
  }
  std::ranges::sort(owners, {}, &Owner::begin);
  return owners;
}

std::string describe(const Owner& owner, std::uint64_t begin, std::uint64_t end) {
  if (owner.row_bytes == 0) return owner.name;
  const std::uint64_t first = (std::max(begin, owner.begin) - owner.begin) / owner.row_bytes;
  const std::uint64_t last = (std::min(end, owner.end) - owner.begin - 1) / owner.row_bytes;
  const auto rows = first == last ? fmt::format("row {}", first) : fmt::format("rows {} to {}", first, last);
  return fmt::format("{} of {}", rows, owner.name);
}

// What bytes [begin, end) of the file hold, for people: `rows 3 to 9 of tensor "w", blob "state"`.
std::string describe(std::span<const Owner> owners, std::uint64_t begin, std::uint64_t end) {
  constexpr std::size_t kMost = 8;
  std::string text;
  std::size_t count = 0;
  std::uint64_t owned = 0;
  // They do not overlap, so that their ends are in order, too.
  auto owner = std::ranges::upper_bound(owners, begin, {}, &Owner::end);
  for (; owner != owners.end() && owner->begin < end; ++owner) {
    owned += std::min(end, owner->end) - std::max(begin, owner->begin);
    if (++count <= kMost) text += (text.empty() ? "" : ", ") + describe(*owner, begin, end);
  }
  if (count > kMost) text += fmt::format(", and {} more", count - kMost);
  if (owned == end - begin) return text;
  return text + (text.empty() ? "" : ", ") + "HDF5's metadata or unused space";
}

using Part = Verification::Damage::Part;

// Goes through the steps of a CheckpointReader, and on after those that fail.
class Verifier {
 public:
  Verifier(const internal::FileSystem& system, const std::filesystem::path& path) : path_(path.string()) {
    if (!attempt(Part::page, 0, 0, [&] { file_ = internal::File(system, path_, O_RDONLY); })) return;
    if (!attempt(Part::page, 0, kPageBytes, [&] { page_ = read_page_alone(file_); })) return;
    found_.info = to_info(page_, path);
    verify_size();
    const bool has_table = verify_table();
    const bool has_contents = verify_contents();
    if (has_table) verify_extents(has_contents);
    verify_rows();
    verify_blobs();
  }

  [[nodiscard]] Verification take() && { return std::move(found_); }

 private:
  void add(Part part, std::uint64_t offset, std::uint64_t bytes, std::string what) {
    found_.damage.push_back({.part = part,
                             .offset = static_cast<std::int64_t>(offset),
                             .bytes = static_cast<std::int64_t>(bytes),
                             .what = std::move(what)});
  }

  // What an Error says after the path of the file.
  [[nodiscard]] std::string reason(const Error& error) const {
    const std::string_view text = error.what();
    const std::string head = path_ + ": ";
    const std::size_t at = text.find(head);
    return std::string(at == std::string_view::npos ? text : text.substr(at + head.size()));
  }

  // Whether `work` finds no damage; if it does, these bytes have it.
  template <typename Work>
  bool attempt(Part part, std::uint64_t offset, std::uint64_t bytes, Work&& work,
               std::string_view whose = "") {
    try {
      work();
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::corrupt) throw;
      add(part, offset, bytes, std::string(whose) + reason(error));
      return false;
    }
  }

  void verify_size() {
    const std::uint64_t size = file_.size();
    const auto [begin, end] = std::minmax(size, page_.file_bytes);
    attempt(Part::size, begin, end - begin, [&] { require_size(file_, page_); });
    is_cut_off_ = size < page_.file_bytes;
  }

  // Whether there are extents to verify: the digests of a damaged table may be good, if not all of them.
  bool verify_table() {
    bool covers = false;
    attempt(Part::table, page_.hdf5_end, page_.extent_count * kExtentEntryBytes, [&] {
      const Digest digest = digest_table(file_, page_);
      covers = true;
      require_table(file_, page_, digest);
    });
    return covers;
  }

  // Contents are the last of the file, and not all there where it is cut off.
  bool verify_contents() {
    if (is_cut_off_) return false;
    const bool is_good = attempt(Part::contents, page_.contents_at(), page_.contents_bytes,
                                 [&] { contents_ = read_contents(file_, page_); });
    found_.tensors = contents_.tensors;
    found_.blobs = blob_infos(contents_);
    return is_good;
  }

  void verify_extents(bool has_contents) {
    const std::vector<Owner> owners = owners_of(contents_);
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    const auto flush = [&] {
      if (end == 0) return;
      const std::string whose = has_contents ? ": " + describe(owners, begin, end) : "";
      add(Part::bytes, begin, end - begin,
          fmt::format("the checksum of bytes {} to {} is wrong{}", begin, end - 1, whose));
    };
    row_sums_ = visit_extents(file_, page_, contents_, {}, [&](const Extent& extent, bool is_good) {
      if (is_good) return;
      if (extent.offset != end) {
        flush();
        begin = extent.offset;
      }
      end = extent.offset + extent.length;
    });
    flush();
  }

  void verify_rows() {
    for (std::size_t t = 0; t < row_sums_.size(); ++t) {
      const TensorInfo& tensor = contents_.tensors[t];
      const TensorPlace& place = contents_.places[t];
      attempt(Part::rows, place.bytes == 0 ? 0 : place.offset, place.bytes,
              [&] { require_rows(file_, tensor, place, row_sums_[t]); });
    }
  }

  void verify_blobs() {
    for (const BlobEntry& blob : contents_.blobs) {
      attempt(
          Part::blob, contents_.blob_offset + blob.offset, blob.stored_bytes,
          [&] {
            verify_blob(blob, read_stored(file_, contents_, blob), fmt::format("verify {}", file_.path()));
          },
          describe(blob) + ": ");
    }
  }

  std::string path_;
  internal::File file_;
  CommitPage page_;
  bool is_cut_off_ = false;
  Contents contents_;
  std::vector<std::uint64_t> row_sums_;  // of each tensor, where its bytes could be read
  Verification found_;
};

}  // namespace

Verification verify(const internal::FileSystem& system, const std::filesystem::path& path) {
  return Verifier(system, path).take();
}

}  // namespace checkpoint

Verification verify_checkpoint(const std::filesystem::path& file) {
  return checkpoint::verify(internal::posix_file_system(), internal::path_on_disk(file));
}

}  // namespace rota
