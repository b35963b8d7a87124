#include "row_sums.hpp"

#include <algorithm>

#include "extents.hpp"

namespace rota::checkpoint {

RowSums::RowSums(const Contents& contents) : contents_(&contents), sums_(contents.tensors.size()) {
  for (std::size_t t = 0; t < contents.tensors.size(); ++t) {
    if (contents.places[t].bytes > 0) in_order_.push_back(t);
  }
  std::ranges::sort(in_order_, {}, [&](std::size_t t) { return contents.places[t].offset; });
}

void RowSums::add(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::uint64_t end = offset + bytes.size();
  next_offset_ = end;
  for (; next_ < in_order_.size(); ++next_) {
    const std::size_t tensor = in_order_[next_];
    const TensorPlace& place = contents_->places[tensor];
    const std::uint64_t tensor_end = place.offset + place.bytes;
    const std::uint64_t first = std::max(offset, place.offset);
    const std::uint64_t last = std::min(end, tensor_end);
    if (first < last) {
      sums_[tensor] += add_rows(tensor, first - place.offset, bytes.subspan(first - offset, last - first));
    }
    if (tensor_end > end) return;
  }
}

// The digests of the rows that end in `bytes`, which lie `at` bytes into the tensor.
std::uint64_t RowSums::add_rows(std::size_t tensor, std::uint64_t at, std::span<const std::byte> bytes) {
  const auto row_bytes = static_cast<std::uint64_t>(contents_->places[tensor].row_bytes);
  std::uint64_t sum = 0;
  if (const std::uint64_t in_row = at % row_bytes; in_row != 0) {
    const auto rest = bytes.first(std::min<std::uint64_t>(row_bytes - in_row, bytes.size()));
    if (open_rest_ != 0) {  // else it began before all that was given
      open_row_.add(rest);
      open_rest_ -= rest.size();
      if (open_rest_ == 0) sum += open_row_.short_digest();
    }
    bytes = bytes.subspan(rest.size());
    at += rest.size();
  }
  const auto whole = bytes.first(bytes.size() / row_bytes * row_bytes);
  sum += row_digest(whole, static_cast<std::int64_t>(at / row_bytes), static_cast<std::int64_t>(row_bytes));
  if (const auto rest = bytes.subspan(whole.size()); !rest.empty()) {
    open_row_.begin((at + whole.size()) / row_bytes);
    open_row_.add(rest);
    open_rest_ = row_bytes - rest.size();
  }
  return sum;
}

std::vector<std::uint64_t> RowSums::finish(const internal::File& file) {
  if (open_rest_ == 0) return std::move(sums_);
  const std::size_t tensor = in_order_[next_];
  std::vector<std::byte> buffer(std::min(kMaxExtentBytes, open_rest_));
  while (open_rest_ > 0) {
    const auto part = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), open_rest_));
    file.read(next_offset_, part);
    open_row_.add(part);
    next_offset_ += part.size();
    open_rest_ -= part.size();
  }
  sums_[tensor] += open_row_.short_digest();
  return std::move(sums_);
}

}  // namespace rota::checkpoint
