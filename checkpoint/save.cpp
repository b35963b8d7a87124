#include "save.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/bytes.hpp"
#include "core/failure.hpp"
#include "directory_files.hpp"
#include "ranks/collectives.hpp"
#include "row_plan.hpp"
#include "skeleton.hpp"
#include "stored_blobs.hpp"

namespace rota::checkpoint {
namespace {

constexpr std::string_view kWriting = "write a checkpoint";

// `slabs` as pieces of an extent each.
std::vector<Slab> cut(std::span<const Slab> slabs) {
  std::vector<Slab> pieces;
  for (const Slab& slab : slabs) {
    for (std::uint64_t at = 0; at < slab.bytes.size(); at += kMaxExtentBytes) {
      pieces.push_back({.offset = slab.offset + at,
                        .bytes = slab.bytes.subspan(at, std::min(kMaxExtentBytes, slab.bytes.size() - at))});
    }
  }
  return pieces;
}

// The extents of `pieces`, hashed from memory; each is written to `file`, if any, while it is in the cache.
std::vector<Extent> write_pieces(const internal::File* file, std::span<const Slab> pieces) {
  std::vector<Extent> extents;
  for (const auto& [offset, bytes] : pieces) {
    extents.push_back({.offset = offset, .length = bytes.size(), .digest = digest(bytes)});
    if (file != nullptr) file->write(offset, bytes);
  }
  return extents;
}

class Save {
 public:
  Save(const SaveTarget& target, const SnapshotData& snapshot)
      : target_(target), ranks_(target.nodes.all()), snapshot_(snapshot) {
    page_.parent = target.parent;
    page_.step = target.step;
    page_.world_size = ranks_.size();
    page_.run_id = target.run_id;
  }

  CommitPage run(const std::exception_ptr& error) {
    prepare(error);
    require_same_schema(ranks_, snapshot_, target_.step);
    plan();
    move();
    sum_digests();
    if (has_rank_blobs_) collect_blobs();
    begin();
    write();
    commit();
    return page_;
  }

 private:
  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(ranks_.rank()); }
  [[nodiscard]] bool is_root() const { return ranks_.rank() == 0; }
  // Whether it writes back for its node, which is not rank 0's.
  [[nodiscard]] bool syncs_node() const { return target_.nodes.leads() && !is_root(); }

  void prepare(const std::exception_ptr& error) {
    ranks_.together("save a checkpoint", [&] {
      if (error) std::rethrow_exception(error);
      require_shared_out();
      if (is_root()) add_blobs(blobs_, snapshot_.blobs(), -1);
      add_blobs(blobs_, snapshot_.rank_blobs(), ranks_.rank());
    });
  }

  // One rank alone would save its share, and no other.
  void require_shared_out() const {
    if (ranks_.size() > 1 || snapshot_.ranks() == 1) return;
    throw internal::failure(ErrorCode::invalid_argument,
                            "save a checkpoint: a loader in it is one of {} ranks, and this directory is of "
                            "one alone; begin the snapshot with the directory's new_snapshot(), as save_all "
                            "does, or give the directory the ranks' communicator",
                            snapshot_.ranks());
  }

  // Exchanges row counts; every rank then plans alike.
  void plan() {
    const auto& tensors = snapshot_.tensors();
    std::vector<RowSummary> own(tensors.size());
    std::ranges::transform(tensors, own.begin(), summarize);
    // One more, which says whether this rank has blobs of its own.
    own.push_back({.count = std::ssize(snapshot_.rank_blobs())});
    const std::vector<RowSummary> all = ranks::all_gather<RowSummary>(ranks_, own);
    ranks_.together("plan a checkpoint", [&] { plan_from(all); });
  }

  // `all`: of each rank, a summary of each tensor and one of its blobs.
  void plan_from(std::span<const RowSummary> all) {
    const auto& tensors = snapshot_.tensors();
    std::vector<RowSummary> ranks(static_cast<std::size_t>(ranks_.size()));
    const auto of_each_rank = [&](std::size_t i) {
      for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r] = all[r * (tensors.size() + 1) + i];
      return std::span<const RowSummary>(ranks);
    };
    for (std::size_t t = 0; t < tensors.size(); ++t) plans_.push_back(plan_rows(tensors[t], of_each_rank(t)));
    has_rank_blobs_ = std::ranges::any_of(of_each_rank(tensors.size()).subspan(1),
                                          [](const RowSummary& rank) { return rank.count > 0; });
  }

  void move() {
    moved_.resize(plans_.size());
    for (std::size_t t = 0; t < plans_.size(); ++t) {
      if (plans_[t].moves_rows) moved_[t] = move_rows(ranks_, snapshot_.tensors()[t], plans_[t]);
    }
  }

  // The bytes that this rank writes of tensor `t`.
  [[nodiscard]] std::span<const std::byte> slab_bytes(std::size_t t) const {
    return plans_[t].moves_rows ? std::span<const std::byte>(moved_[t]) : snapshot_.tensors()[t].data;
  }

  // Row digests of what ranks hold; of what they are to write as well, where rows were moved.
  void sum_digests() {
    const auto& tensors = snapshot_.tensors();
    std::vector<std::uint64_t> sums(2 * tensors.size());
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const LocalTensor& tensor = tensors[t];
      const std::uint64_t slab = row_digest(slab_bytes(t), plans_[t].slabs[rank()].first, tensor.row_bytes);
      sums[2 * t] = plans_[t].moves_rows ? held_digest(tensor) : slab;
      sums[2 * t + 1] = slab;
    }
    ranks_.sum(sums);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (sums[2 * t] != sums[2 * t + 1]) {
        throw internal::failure(
            ErrorCode::corrupt,
            "save tensor \"{}\": its rows changed on their way between ranks; check memory and network",
            tensors[t].name);
      }
      digests_.push_back(sums[2 * t]);
    }
  }

  static std::uint64_t held_digest(const LocalTensor& tensor) {
    std::uint64_t sum = 0;
    std::size_t at = 0;
    for (const RowRange& range : tensor.ranges) {
      const auto bytes = static_cast<std::size_t>(range.count * tensor.row_bytes);
      sum += row_digest(tensor.data.subspan(at, bytes), range.first, tensor.row_bytes);
      at += bytes;
    }
    return sum;
  }

  void collect_blobs() {
    const auto received = ranks::exchange(ranks_, "exchange rank blobs", [&](ranks::Messages& messages) {
      if (!is_root()) messages.front() = to_message(blobs_);
    });
    ranks::on_first_rank(ranks_, "collect rank blobs", [&] {
      for (std::size_t r = 1; r < received.size(); ++r) append_message(blobs_, received[r]);
    });
  }

  void begin() {
    // Serial, hdf5_end, then the offset of each tensor.
    const auto layout = ranks::on_first_rank(ranks_, "begin a checkpoint", [&] {
      sweep_temporaries(target_.system, target_.directory, to_hex(target_.job_id));
      page_.serial = next_serial();
      contents_ = describe_contents();
      image_ = make_skeleton(contents_, page_);
      const std::vector<std::byte> encoded = encode_contents(contents_);
      page_.hdf5_end = image_.end();
      page_.extent_count = count_extents();
      if (encoded.size() > kMaxContentsBytes) {
        throw internal::failure(ErrorCode::out_of_range,
                                "save a checkpoint: to say what it holds takes {} bytes, and {} is the most; "
                                "put small tensors and blobs together",
                                encoded.size(), kMaxContentsBytes);
      }
      page_.contents_bytes = encoded.size();
      page_.contents_digest = digest(encoded);
      page_.file_bytes = page_.contents_at() + encoded.size();
      temporary_.emplace(target_.system, temporary_path());
      temporary_->file().allocate(page_.file_bytes);
      temporary_->file().write(page_.contents_at(), encoded);
      std::vector<std::uint64_t> made{static_cast<std::uint64_t>(page_.serial), page_.hdf5_end};
      for (const TensorPlace& place : contents_.places) made.push_back(place.offset);
      return made;
    });
    page_.serial = static_cast<std::int64_t>(layout[0]);
    page_.hdf5_end = layout[1];
    tensor_offsets_.assign(layout.begin() + 2, layout.end());
  }

  [[nodiscard]] std::int64_t next_serial() const {
    const auto present = list_serials(target_.system, target_.directory);
    const std::int64_t highest = std::max(target_.above, present.empty() ? -1 : present.front());
    if (highest >= kMaxSerial) {
      throw internal::failure(ErrorCode::out_of_range,
                              "number a checkpoint in {}: {} has the last number that there is; move it "
                              "away, or use a new directory",
                              target_.directory.string(), checkpoint_name(highest));
    }
    return highest + 1;
  }

  [[nodiscard]] std::filesystem::path temporary_path() const {
    return target_.directory / temporary_name(page_.serial, to_hex(target_.job_id));
  }

  // All but where things lie.
  [[nodiscard]] Contents describe_contents() const {
    Contents contents;
    for (std::size_t t = 0; t < plans_.size(); ++t) {
      const LocalTensor& tensor = snapshot_.tensors()[t];
      TensorInfo info{.name = tensor.name, .dtype = tensor.dtype, .shape = {plans_[t].rows}};
      info.shape.insert(info.shape.end(), tensor.row_shape.begin(), tensor.row_shape.end());
      contents.tensors.push_back(std::move(info));
      contents.places.push_back({.row_bytes = tensor.row_bytes,
                                 .bytes = static_cast<std::uint64_t>(plans_[t].rows * tensor.row_bytes),
                                 .row_digest = digests_[t]});
    }
    contents.blobs = blobs_.entries;
    contents.blob_bytes = blobs_.bytes.size();
    return contents;
  }

  // How many there will be, over all ranks. Also finds the gaps between data, which rank 0 fills.
  std::uint64_t count_extents() {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> data;  // offset, bytes
    std::uint64_t count = 0;
    for (std::size_t t = 0; t < plans_.size(); ++t) {
      const auto row_bytes = static_cast<std::uint64_t>(snapshot_.tensors()[t].row_bytes);
      for (const RowRange& slab : plans_[t].slabs) {
        count += extents_of(static_cast<std::uint64_t>(slab.count) * row_bytes);
      }
      data.emplace_back(contents_.places[t].offset, contents_.places[t].bytes);
    }
    data.emplace_back(contents_.blob_offset, blobs_.bytes.size());
    count += extents_of(blobs_.bytes.size());
    std::erase_if(data, [](const auto& part) { return part.second == 0; });
    std::ranges::sort(data);
    data.emplace_back(page_.hdf5_end, 0);
    std::uint64_t at = kPageBytes;
    for (const auto& [offset, bytes] : data) {
      if (offset > at) {
        gaps_.emplace_back(at, std::vector<std::byte>(offset - at));
        image_.read(at, gaps_.back().second, true);
        count += extents_of(offset - at);
      }
      at = offset + bytes;
    }
    return count;
  }

  [[nodiscard]] std::vector<Slab> slabs() const {
    std::vector<Slab> slabs;
    for (std::size_t t = 0; t < plans_.size(); ++t) {
      const auto row_bytes = static_cast<std::uint64_t>(snapshot_.tensors()[t].row_bytes);
      const auto first = static_cast<std::uint64_t>(plans_[t].slabs[rank()].first);
      slabs.push_back({.offset = tensor_offsets_[t] + first * row_bytes, .bytes = slab_bytes(t)});
    }
    if (!is_root()) return slabs;
    slabs.push_back({.offset = contents_.blob_offset, .bytes = blobs_.bytes});
    for (const auto& [offset, bytes] : gaps_) slabs.push_back({.offset = offset, .bytes = bytes});
    return slabs;
  }

  void write() {
    if (ranks_.size() > 1 && writes_whole_pages()) return write_by_root();
    std::optional<internal::File> own;
    ranks_.together(kWriting, [&] {
      if (!is_root()) own.emplace(target_.system, temporary_path().string(), O_RDWR);
      extents_ = write_pieces(is_root() ? &temporary_->file() : &*own, cut(slabs()));
      if (own && !syncs_node()) own->close();
    });
    if (!target_.nodes.are_many()) return;
    ranks_.together("write back a checkpoint", [&] {
      if (!syncs_node()) return;
      own->sync();
      own->close();
    });
  }

  // As any rank sees it: the server of an NFS sees its own disk.
  bool writes_whole_pages() {
    const bool own = target_.system.writes_whole_pages(target_.directory.c_str(), target_.nodes.are_many());
    return std::ranges::max(ranks::all_gather(ranks_, own ? 1 : 0)) > 0;
  }

  // Two nodes that write parts of one page would lose each other's. So rank 0 writes what others send: 256
  // MiB at a time, or 1 MiB of each rank.
  void write_by_root() {
    std::vector<Slab> pieces;
    ranks_.together(kWriting, [&] {
      pieces = cut(slabs());
      extents_ = write_pieces(is_root() ? &temporary_->file() : nullptr, pieces);
      if (is_root()) pieces.clear();
    });
    const std::size_t most = (std::size_t{256} << 20) / static_cast<std::size_t>(ranks_.size());
    std::int64_t left = 1;
    for (std::size_t next = 0; std::ranges::max(ranks::all_gather(ranks_, left)) > 0;
         left = std::ssize(pieces) - static_cast<std::int64_t>(next)) {
      const auto received = ranks::exchange(ranks_, kWriting, [&](ranks::Messages& messages) {
        internal::ByteWriter message;
        for (std::size_t bytes = 0; next < pieces.size() && (bytes == 0 || bytes < most); ++next) {
          message.add(pieces[next].offset);
          message.add(std::uint64_t{pieces[next].bytes.size()});
          message.add_bytes(pieces[next].bytes);
          bytes += pieces[next].bytes.size() + 2 * sizeof(std::uint64_t);
        }
        messages.front() = std::move(message).take();
      });
      ranks::on_first_rank(ranks_, kWriting, [&] {
        for (const auto& message : received) write_received(message);
      });
    }
  }

  void write_received(std::span<const std::byte> message) {
    for (internal::ByteReader reader(message, kWriting); !reader.at_end();) {
      const auto offset = reader.next<std::uint64_t>();
      temporary_->file().write(offset, reader.next_bytes(reader.next<std::uint64_t>()));
    }
  }

  void commit() {
    const auto received = ranks::exchange(ranks_, "commit a checkpoint", [&](ranks::Messages& messages) {
      messages.front() = encode_extents(extents_);
    });
    ranks::on_first_rank(ranks_, "commit a checkpoint", [&] {
      std::vector<Extent> extents;
      for (const auto& message : received) {
        const std::vector<Extent> of_rank = decode_extents(message);
        extents.insert(extents.end(), of_rank.begin(), of_rank.end());
      }
      std::ranges::sort(extents, {}, &Extent::offset);
      const std::string what = fmt::format("commit {}", temporary_path().string());
      require_whole(cover(extents, kPageBytes, page_.hdf5_end, what), page_.hdf5_end, what);
      const std::vector<std::byte> table = encode_extents(extents);
      page_.table_digest = digest(table);
      temporary_->file().write(page_.hdf5_end, table);
      temporary_->file().write(0, encode_page(page_));
      temporary_->publish(target_.directory / checkpoint_name(page_.serial), target_.directory_file);
    });
    page_ = ranks::broadcast(ranks_, page_);
  }

  const SaveTarget& target_;
  const Communicator& ranks_;
  const SnapshotData& snapshot_;
  CommitPage page_;
  StoredBlobs blobs_;  // rank 0: all that go into the file; other ranks: their own
  bool has_rank_blobs_ = false;
  std::vector<RowPlan> plans_;
  std::vector<std::vector<std::byte>> moved_;
  std::vector<std::uint64_t> digests_;
  Contents contents_;  // rank 0
  SparseImage image_;  // rank 0: the HDF5 part without its data
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> gaps_;
  std::vector<std::uint64_t> tensor_offsets_;
  std::vector<Extent> extents_;
  std::optional<internal::Temporary> temporary_;  // rank 0
};

}  // namespace

CommitPage save(const SaveTarget& target, const SnapshotData& snapshot, const std::exception_ptr& error) {
  return Save(target, snapshot).run(error);
}

}  // namespace rota::checkpoint
