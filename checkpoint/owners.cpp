#include "owners.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rota::checkpoint {

Owners::Owners(const Contents& contents) : contents_(&contents) {
  const auto add = [&](std::uint64_t offset, std::uint64_t bytes, std::size_t index) {
    if (bytes > 0) owners_.push_back({.begin = offset, .end = offset + bytes, .index = index});
  };
  const std::size_t tensors = contents.tensors.size();
  for (std::size_t t = 0; t < tensors; ++t) {
    add(contents.places[t].offset, contents.places[t].bytes, t);
  }
  for (std::size_t b = 0; b < contents.blobs.size(); ++b) {
    add(contents.blob_offset + contents.blobs[b].offset, contents.blobs[b].stored_bytes, tensors + b);
  }
  std::ranges::sort(owners_, {}, &Owner::begin);
}

std::string Owners::describe(const Owner& owner, std::uint64_t begin, std::uint64_t end) const {
  const std::size_t tensors = contents_->tensors.size();
  if (owner.index >= tensors) return checkpoint::describe(contents_->blobs[owner.index - tensors]);
  const auto row_bytes = static_cast<std::uint64_t>(contents_->places[owner.index].row_bytes);
  const std::uint64_t first = (std::max(begin, owner.begin) - owner.begin) / row_bytes;
  const std::uint64_t last = (std::min(end, owner.end) - owner.begin - 1) / row_bytes;
  const auto rows = first == last ? fmt::format("row {}", first) : fmt::format("rows {} to {}", first, last);
  return fmt::format("{} of tensor \"{}\"", rows, contents_->tensors[owner.index].name);
}

std::string Owners::describe(std::uint64_t begin, std::uint64_t end) const {
  constexpr std::size_t kMost = 8;
  std::string text;
  std::size_t count = 0;
  std::uint64_t owned = 0;
  // They do not overlap, so that their ends are in order, too.
  auto owner = std::ranges::upper_bound(owners_, begin, {}, &Owner::end);
  for (; owner != owners_.end() && owner->begin < end; ++owner) {
    owned += std::min(end, owner->end) - std::max(begin, owner->begin);
    if (++count <= kMost) text += (text.empty() ? "" : ", ") + describe(*owner, begin, end);
  }
  if (count > kMost) text += fmt::format(", and {} more", count - kMost);
  if (owned == end - begin) return text;
  return text + (text.empty() ? "" : ", ") + "HDF5's metadata or unused space";
}

std::string describe(const BlobEntry& blob) {
  return blob.rank < 0 ? fmt::format("blob \"{}\"", blob.name)
                       : fmt::format("blob \"{}\" of rank {}", blob.name, blob.rank);
}

}  // namespace rota::checkpoint
