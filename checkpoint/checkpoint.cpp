#include "rota/checkpoint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/failure.hpp"
#include "core/option.hpp"
#include "core/owned.hpp"
#include "files/file.hpp"
#include "files/path.hpp"
#include "reader.hpp"
#include "snapshot_data.hpp"
#include "stored_blobs.hpp"

namespace rota {
namespace {

const checkpoint::BlobEntry* find_blob(const checkpoint::Contents& contents, std::string_view name,
                                       int rank) {
  const auto found = std::ranges::find_if(
      contents.blobs, [&](const auto& entry) { return entry.rank == rank && entry.name == name; });
  return found == contents.blobs.end() ? nullptr : &*found;
}

const TensorInfo* find_tensor(const checkpoint::Contents& contents, std::string_view name) {
  const auto found = std::ranges::lower_bound(
      contents.tensors, name, {}, [](const TensorInfo& info) { return std::string_view(info.name); });
  return found != contents.tensors.end() && found->name == name ? &*found : nullptr;
}

const checkpoint::TensorPlace& place_of(const checkpoint::Contents& contents, const TensorInfo& info) {
  return contents.places[static_cast<std::size_t>(&info - contents.tensors.data())];
}

std::string read_blob(const internal::File& file, const checkpoint::Contents& contents,
                      const checkpoint::BlobEntry& entry) {
  return checkpoint::decode_blob(entry, checkpoint::read_stored(file, contents, entry),
                                 fmt::format("read blob \"{}\" of {}", entry.name, file.path()));
}

// Names for a message, not more than a reader can use.
template <typename Things>
std::string list_some(const Things& things) {
  constexpr std::size_t kMost = 20;
  std::string text;
  std::size_t count = 0;
  for (const auto& thing : things) {
    if (++count > kMost) return fmt::format("{}, ... ({} in all)", text, things.size());
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", thing.name);
  }
  return text.empty() ? "none" : text;
}

// Whether a rank gets its blob `name` back where it has `workers` workers: always, unless it is that of a
// worker.
bool fits(std::string_view name, int workers) {
  const std::string last(name.substr(name.rfind('/') + 1));
  int end = 0;  // of the name of a worker's blob
  std::sscanf(last.c_str(), "worker-%*[0-9]-of-%*[0-9]%n", &end);
  return std::cmp_not_equal(end, last.size()) || last.ends_with(fmt::format("-of-{}", workers));
}

}  // namespace

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;

const Checkpoint::Impl& Checkpoint::impl() const { return internal::owned(impl_, "a checkpoint"); }

const CheckpointInfo& Checkpoint::info() const { return impl().info; }
std::span<const TensorInfo> Checkpoint::tensors() const { return impl().contents.tensors; }
std::span<const BlobInfo> Checkpoint::blobs() const { return impl().blobs; }

bool Checkpoint::has_tensor(std::string_view name) const {
  return find_tensor(impl().contents, name) != nullptr;
}

bool Checkpoint::has_blob(std::string_view name) const {
  return find_blob(impl().contents, name, -1) != nullptr;
}

const TensorInfo& Checkpoint::tensor(std::string_view name) const {
  if (const TensorInfo* found = find_tensor(impl().contents, name)) return *found;
  throw internal::failure(ErrorCode::not_found, "read tensor \"{}\" of {}: it has {}", name,
                          impl().info.path.string(), list_some(tensors()));
}

const TensorInfo& Checkpoint::require(std::string_view name, RowRange rows) const {
  const TensorInfo& info = tensor(name);
  if (rows.first >= 0 && rows.count >= 0 && rows.first <= info.rows() &&
      rows.count <= info.rows() - rows.first) {
    return info;
  }
  throw internal::failure(ErrorCode::out_of_range,
                          "read {} rows from row {} on of tensor \"{}\" of {}: it has {} rows", rows.count,
                          rows.first, name, impl().info.path.string(), info.rows());
}

void Checkpoint::require_shape(std::string_view name, std::initializer_list<std::int64_t> shape) const {
  const TensorInfo& info = tensor(name);
  if (std::ranges::equal(info.shape, shape)) return;
  throw internal::failure(ErrorCode::mismatch,
                          "read tensor \"{}\" of {}: it has the shape [{}], and [{}] is wanted", name,
                          impl().info.path.string(), fmt::join(info.shape, ", "), fmt::join(shape, ", "));
}

std::size_t Checkpoint::count_elements(std::string_view name, RowRange rows, DType dtype) const {
  const TensorInfo& info = require(name, rows);
  if (!internal::is_viewable(info.dtype, dtype)) {
    internal::refuse_type(fmt::format("read tensor \"{}\" of {}", name, impl().info.path.string()),
                          info.dtype, dtype);
  }
  return static_cast<std::size_t>(rows.count * place_of(impl().contents, info).row_bytes) / size_of(dtype);
}

void Checkpoint::read(std::string_view name, RowRange rows, std::span<std::byte> out) const {
  const checkpoint::TensorPlace& place = place_of(impl().contents, require(name, rows));
  const auto bytes = static_cast<std::size_t>(rows.count * place.row_bytes);
  if (out.size() != bytes) {
    throw internal::failure(
        ErrorCode::invalid_argument,
        "read {} rows of tensor \"{}\" of {}: they are {} bytes, and there is room for {}", rows.count, name,
        impl().info.path.string(), bytes, out.size());
  }
  impl().file.read(place.offset + static_cast<std::uint64_t>(rows.first * place.row_bytes), out);
}

std::string Checkpoint::blob(std::string_view name) const {
  if (const auto* entry = find_blob(impl().contents, name, -1)) {
    return read_blob(impl().file, impl().contents, *entry);
  }
  std::vector<BlobInfo> of_job;
  std::ranges::copy_if(impl().blobs, std::back_inserter(of_job),
                       [](const BlobInfo& info) { return info.rank < 0; });
  throw internal::failure(ErrorCode::not_found, "read blob \"{}\" of {}: it has {}", name,
                          impl().info.path.string(), list_some(of_job));
}

std::optional<std::string> Checkpoint::rank_blob(std::string_view name, const World& world) const {
  if (world.size != impl().info.world_size || world.rank < 0) return std::nullopt;
  const auto* entry = find_blob(impl().contents, name, world.rank);
  if (entry == nullptr) return std::nullopt;
  return read_blob(impl().file, impl().contents, *entry);
}

std::optional<std::string> Checkpoint::worker_blob(std::string_view name, int worker, int workers,
                                                   const World& world) const {
  return rank_blob(worker_blob_name(name, worker, workers), world);
}

std::vector<BlobInfo> Checkpoint::dropped(int world_size, int workers) const {
  constexpr internal::OptionCheck kCheck("list what a world drops");
  kCheck.in_range("world_size", world_size, 1);
  kCheck.in_range("workers", workers, 0);
  std::vector<BlobInfo> blobs;
  for (const BlobInfo& blob : impl().blobs) {
    if (blob.rank < 0) continue;
    if (world_size != impl().info.world_size || !fits(blob.name, workers)) blobs.push_back(blob);
  }
  return blobs;
}

Checkpoint open_checkpoint(const std::filesystem::path& file) {
  CheckpointReader reader(internal::posix_file_system(), internal::path_on_disk(file));
  reader.require_row_digests(reader.verify_extents({}));
  return std::move(reader).finish();
}

}  // namespace rota
