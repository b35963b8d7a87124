// Files that were made to harm: every checksum is right, and what they say is not.

#include <zstd.h>

#include "allocations.hpp"
#include "checkpoint_fixture.hpp"
#include "digest.hpp"
#include "forge.hpp"
#include "memory_file.hpp"

namespace rota::test::hostile_test {

using checkpoint::BlobEntry;
using checkpoint::Contents;
using checkpoint::Extent;

Parts make_good() {
  const TemporaryDirectory directory;
  Snapshot snapshot;
  snapshot.tensor("model/a", DType::float32, {2, 3}, 40, make_rows(1, 40, 24));
  snapshot.tensor("model/b", DType::uint8, {}, 0, Bytes{});
  snapshot.tensor("loader/main/cursors", DType::int64, {2}, 16, make_rows(2, 16, 16));
  snapshot.blob("compressed", std::string(100'000, 'z'));
  snapshot.blob("empty", "");
  snapshot.blob("text", "some text, stored as it is");
  snapshot.rank_blob("rng", std::string(500, 'r').append("ng"));
  const auto file = CheckpointDirectory({}, directory.path()).save(7, snapshot).info.path;
  const std::string text = read_file(file);
  return take_apart(std::as_bytes(std::span(text)));
}

Bytes with_contents(Parts parts, const Contents& contents) {
  parts.contents = encode_contents(contents);
  Bytes file = put_together(parts);
  seal(file);
  return file;
}

void append(Bytes& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

// ---- single lies, each refused by name ----

class Lie : public Test {
 protected:
  void expect_refused(const Bytes& file, const char* why) {
    EXPECT_ERROR(read_all(file), corrupt, {why});
    EXPECT_FALSE(verify_bytes(file).is_good());
  }
  void expect_refused(const char* why) { expect_refused(with_contents(parts_, contents_), why); }

  Parts parts_ = make_good();
  Contents contents_ = contents_of(parts_);
};

TEST_F(Lie, AGoodFileIsTakenEvenWhenItWasPutTogetherAgain) {
  EXPECT_EQ(read_all(with_contents(parts_, contents_)), 40U * 24 + 16 * 16 + 100'000 + 26 + 502);
}

TEST_F(Lie, TensorsThatShareBytesAreRefused) {
  contents_.places[1].offset = contents_.places[0].offset + 8;
  expect_refused("bytes in common");
}

TEST_F(Lie, ATensorWithinTheBlobsIsRefused) {
  contents_.places[0].offset = contents_.blob_offset;
  contents_.tensors[0].shape = {1, 1};
  contents_.places[0].row_bytes = 8;
  expect_refused("bytes in common");
}

TEST_F(Lie, BlobsMustFollowOneAnotherToTheEnd) {
  const Contents good = contents_;
  contents_.blobs[2].offset = 0;
  expect_refused("where the one before ends");
  contents_ = good;
  contents_.blobs.pop_back();
  expect_refused("not all of the blobs' bytes");
}

TEST_F(Lie, BlobsOfOneNameAreRefused) {
  contents_.blobs[2].name = contents_.blobs[1].name;
  expect_refused("same name");
}

TEST_F(Lie, ABlobOfMoreBytesThanANumberSaysIsRefused) {
  contents_.blobs[0].bytes = std::numeric_limits<std::uint64_t>::max();
  expect_refused("larger than");
}

// A file with the blob `frame`, which is said to be of `bytes`.
Bytes with_frame(Parts parts, std::span<const std::byte> frame, std::uint64_t bytes) {
  parts.hdf5.assign(64, std::byte{0});
  append(parts.hdf5, frame);
  parts.table = {{.offset = 4096, .length = parts.hdf5.size(), .digest = {}}};
  Contents contents;
  contents.blob_offset = 4096 + 64;
  contents.blob_bytes = frame.size();
  BlobEntry& blob = contents.blobs.emplace_back();
  blob.name = "b";
  blob.codec = checkpoint::Codec::zstd;
  blob.stored_bytes = frame.size();
  blob.bytes = bytes;
  return with_contents(std::move(parts), contents);
}

// The header of a frame that says it holds `bytes`, with a window of 2^(10 + exponent), and one empty block.
Bytes hollow_frame(std::uint64_t bytes, unsigned exponent) {
  internal::ByteWriter frame;
  frame.add(std::uint32_t{ZSTD_MAGICNUMBER});
  frame.add(std::uint8_t{0xC0});  // a content size of 8 bytes, and a window
  frame.add(static_cast<std::uint8_t>(exponent << 3));
  frame.add(bytes);
  frame.add(std::array<std::uint8_t, 3>{1, 0, 0});
  frame.add(std::array<std::uint8_t, 8192>{});
  return std::move(frame).take();
}

TEST_F(Lie, AFrameWithAHugeWindowIsRefusedBeforeMemoryIsTakenForIt) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 27;
  expect_refused(with_frame(parts_, hollow_frame(kHuge, 17), kHuge), "too much memory");
}

TEST_F(Lie, AFrameThatHoldsLessThanItSaysTakesNoMemoryForTheRest) {
  constexpr std::uint64_t kLarge = std::uint64_t{1} << 28;
  const Bytes file = with_frame(parts_, hollow_frame(kLarge, 10), kLarge);
  watch_memory();
  expect_refused(file, "");
  EXPECT_LT(watched_memory().most, std::size_t{8} << 20);
}

TEST_F(Lie, TwoFramesAreNotOne) {
  const std::string text(1000, 'x');
  Bytes frame(2000);
  frame.resize(ZSTD_compress(frame.data(), frame.size(), text.data(), text.size(), 1));
  read_all(with_frame(parts_, frame, text.size()));
  const Bytes once = frame;
  append(frame, once);
  expect_refused(with_frame(parts_, frame, text.size()), "not as long");
}

// ---- lies by the thousand ----

class Liar : Chance {
 public:
  explicit Liar(std::uint64_t seed) : Chance(seed) {}

  /// A file of which something is not as it was, and every checksum right.
  Bytes next() {
    Parts parts = good_;
    bool is_page = false;
    one_of({[&] { is_page = true; }, [&] { change_table(parts); }, [&] { change_contents(parts); },
            [&] { change_bytes(parts.contents); }, [&] { lie_in(parts.hdf5); },
            [&] { change_blobs(parts); }});
    Bytes file = put_together(parts);
    if (is_page) lie_in(std::span(file).first(160));
    if (below(8) == 0) lie_in(std::span(file).subspan(40, 112));
    seal(file);
    return file;
  }

 private:
  // A number that is likely to break something, or `was` with a small change.
  std::uint64_t number(std::uint64_t was) {
    constexpr std::uint64_t kOne = 1;
    return any<std::uint64_t>({0, kOne, kOne << 31, kOne << 32, (kOne << 63) - 1, kOne << 63,
                               ~std::uint64_t{0}, was + 1, was - 1, was * 2, was ^ (kOne << below(64)),
                               below(50'000), below(~std::uint64_t{0})});
  }
  template <typename T>
  void lie(T& field) {
    field = static_cast<T>(number(static_cast<std::uint64_t>(field)));
  }

  // Some bytes, or a number of 4 or 8 bytes.
  void lie_in(std::span<std::byte> bytes) {
    for (auto count = 1 + below(3); count > 0; --count) {
      const std::size_t width = any<std::size_t>({1, 4, 8});
      std::size_t at = below(bytes.size() - width);
      if (below(2) == 0) at &= ~(width - 1);
      std::uint64_t value = 0;
      std::memcpy(&value, &bytes[at], width);
      lie(value);
      std::memcpy(&bytes[at], &value, width);
    }
  }

  // Removes, repeats, swaps or changes one of `things`.
  template <typename Things, typename Change>
  void change_one(Things& things, Change change) {
    if (things.empty()) return;
    const auto at = things.begin() + static_cast<std::ptrdiff_t>(below(things.size()));
    one_of({[&] { things.erase(at); }, [&] { things.insert(at, typename Things::value_type(*at)); },
            [&] { std::swap(*at, things[below(things.size())]); }, [&] { change(*at); },
            [&] { change(*at); }});
  }

  void change_table(Parts& parts) {
    change_one(parts.table, [&](Extent& extent) { lie(below(2) == 0 ? extent.offset : extent.length); });
  }

  void change_bytes(Bytes& bytes) {
    const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size()));
    one_of({[&] { bytes.erase(at, bytes.end()); },
            [&] { bytes.insert(at, 1 + below(40), static_cast<std::byte>(below(256))); },
            [&] { lie_in(bytes); }, [&] { lie_in(bytes); }});
  }

  void change_tensor(Contents& contents) {
    const std::size_t t = below(contents.tensors.size());
    TensorInfo& tensor = contents.tensors[t];
    one_of({[&] { lie(tensor.shape[below(tensor.shape.size())]); },
            [&] { tensor.shape.insert(tensor.shape.begin(), below(40), 1); },
            [&] { tensor.dtype = static_cast<DType>(below(13)); },
            [&] { tensor.name = contents.tensors[below(contents.tensors.size())].name; },
            [&] { lie(contents.places[t].offset); }});
  }

  void change_blob(BlobEntry& blob) {
    const auto lie_in_field = [&] { lie(*any({&blob.offset, &blob.stored_bytes, &blob.bytes})); };
    one_of({[&] { blob.rank = static_cast<std::int32_t>(number(0)); },
            [&] { blob.codec = static_cast<checkpoint::Codec>(below(4)); }, [&] { blob.name = "text"; },
            lie_in_field, lie_in_field, lie_in_field});
  }

  void change_contents(Parts& parts) {
    Contents contents = contents_of(parts);
    one_of({[&] { change_tensor(contents); },
            [&] { change_one(contents.blobs, [&](BlobEntry& blob) { change_blob(blob); }); },
            [&] {
              lie(*any({&contents.blob_offset, &contents.blob_bytes}));
            }});
    parts.contents = encode_contents(contents);
  }

  // The stored bytes, their frames among them.
  void change_blobs(Parts& parts) {
    const Contents contents = contents_of(parts);
    lie_in(std::span(parts.hdf5).subspan(contents.blob_offset - 4096, contents.blob_bytes));
    if (below(2) == 0) change_contents(parts);
  }

  Parts good_ = make_good();
};

/// How `work` ended: what it returns, or the code of its Error.
template <typename Work>
std::string outcome_of(Work&& work) {
  try {
    return work();
  } catch (const Error& error) {
    return std::string(to_string(error.code()));
  }
}

TEST(Hostile, FilesWithRightChecksumsDoNoHarm) {
  constexpr std::size_t kMutants = 20'000;
  Liar liar(1);
  std::map<std::string, std::size_t> outcomes;
  for (std::size_t i = 0; i < kMutants; ++i) {
    const Bytes file = liar.next();
    std::size_t read = 0;
    watch_memory();
    const std::string outcome = outcome_of([&] {
      read = read_all(file);
      return "good";
    });
    const auto [most, largest] = watched_memory();
    ASSERT_LE(std::max(most, largest), 16 * file.size() + (std::size_t{2} << 20) + 2 * read)
        << "mutant " << i;
    ASSERT_EQ(outcome_of([&] { return verify_bytes(file).is_good() ? "good" : "corrupt"; }), outcome);
    ++outcomes[outcome];
  }
  EXPECT_EQ(outcomes["good"] + outcomes["corrupt"] + outcomes["unsupported"], kMutants);
  EXPECT_GT(outcomes["good"], kMutants / 20);  // those that lie where no reader looks, or tell a truth
  EXPECT_GT(outcomes["corrupt"], kMutants / 20);
}

}  // namespace rota::test::hostile_test
