// Files that were made to harm: every checksum is right, and what they say is not.

#include <zstd.h>

#include "checkpoint_fixture.hpp"
#include "allocations.hpp"
#include "digest.hpp"
#include "forge.hpp"
#include "memory_file.hpp"
#include "test.hpp"

namespace rota::test::hostile_test {

using rota::DType;
using rota::ErrorCode;
using rota::checkpoint::BlobEntry;
using rota::checkpoint::Contents;
using rota::checkpoint::Extent;
using rota::test::Bytes;
using rota::test::contents_of;
using rota::test::IsError;
using rota::test::make_rows;
using rota::test::Parts;
using rota::test::seal;
using rota::test::thrown_error;

Parts make_good() {
  const auto directory = rota::test::make_directory();
  rota::Snapshot snapshot;
  snapshot.tensor("model/a", DType::float32, {2, 3}, 40, make_rows(1, 40, 24));
  snapshot.tensor("model/b", DType::uint8, {}, 0, Bytes{});
  snapshot.tensor("loader/main/cursors", DType::int64, {2}, 16, make_rows(2, 16, 16));
  snapshot.blob("compressed", std::string(100'000, 'z'));
  snapshot.blob("empty", "");
  snapshot.blob("text", "some text, stored as it is");
  snapshot.rank_blob("rng", std::string(500, 'r').append("ng"));
  const auto file = rota::CheckpointDirectory({}, directory).save(7, snapshot).info.path;
  const std::string text = rota::test::read_file(file);
  rota::test::fs::remove_all(directory);
  return rota::test::take_apart(std::as_bytes(std::span(text)));
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

class Lie : public ::testing::Test {
 protected:
  void expect_refused(const Bytes& file, const char* why) {
    EXPECT_THAT(thrown_error([&] { rota::test::read_all(file); }), IsError(ErrorCode::corrupt, why));
    EXPECT_FALSE(rota::test::verify_bytes(file).is_good());
  }
  void expect_refused(const char* why) { expect_refused(with_contents(parts_, contents_), why); }

  Parts parts_ = make_good();
  Contents contents_ = contents_of(parts_);
};

TEST_F(Lie, AGoodFileIsTakenEvenWhenItWasPutTogetherAgain) {
  EXPECT_EQ(rota::test::read_all(with_contents(parts_, contents_)), 40U * 24 + 16 * 16 + 100'000 + 26 + 502);
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

TEST_F(Lie, BlobsThatShareBytesAreRefused) {
  contents_.blobs[2].offset = 0;
  expect_refused("where the one before ends");
}

TEST_F(Lie, BytesOfNoBlobAreRefused) {
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
  contents.blobs = {{.name = "b",
                     .codec = rota::checkpoint::Codec::zstd,
                     .stored_bytes = frame.size(),
                     .bytes = bytes,
                     .digest = {}}};
  return with_contents(std::move(parts), contents);
}

// The header of a frame that says it holds `bytes`, with a window of 2^(10 + exponent), and one empty block.
Bytes hollow_frame(std::uint64_t bytes, unsigned exponent) {
  rota::internal::ByteWriter frame;
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
  rota::test::watch_memory();
  expect_refused(file, "");
  EXPECT_LT(rota::test::watched_memory().most, std::size_t{8} << 20);
}

TEST_F(Lie, TwoFramesAreNotOne) {
  const std::string text(1000, 'x');
  Bytes frame(2000);
  frame.resize(ZSTD_compress(frame.data(), frame.size(), text.data(), text.size(), 1));
  rota::test::read_all(with_frame(parts_, frame, text.size()));
  const Bytes once = frame;
  append(frame, once);
  expect_refused(with_frame(parts_, frame, text.size()), "not as long");
}

// ---- lies by the thousand ----

class Liar {
 public:
  explicit Liar(std::uint64_t seed) : random_(seed), good_(make_good()) {}

  /// A file of which something is not as it was, and every checksum right.
  Bytes next() {
    Parts parts = good_;
    Bytes file;
    switch (at_random(6)) {
      case 0:
        file = put_together(parts);
        lie_in(std::span(file).first(160));
        break;
      case 1:
        change_table(parts);
        file = put_together(parts);
        break;
      case 2:
        change_contents(parts);
        file = put_together(parts);
        break;
      case 3:
        change_bytes(parts.contents);
        file = put_together(parts);
        break;
      case 4:
        lie_in(parts.hdf5);
        file = put_together(parts);
        break;
      default:
        change_blobs(parts);
        file = put_together(parts);
    }
    if (at_random(8) == 0) lie_in(std::span(file).subspan(40, 112));
    seal(file);
    return file;
  }

 private:
  std::size_t at_random(std::size_t end) { return random_() % end; }

  // A number that is likely to break something, or `was` with a small change.
  std::uint64_t number(std::uint64_t was) {
    const std::array<std::uint64_t, 13> extremes{0,
                                                 1,
                                                 std::uint64_t{1} << 31,
                                                 std::uint64_t{1} << 32,
                                                 (std::uint64_t{1} << 63) - 1,
                                                 std::uint64_t{1} << 63,
                                                 ~std::uint64_t{0},
                                                 was + 1,
                                                 was - 1,
                                                 was * 2,
                                                 was ^ (std::uint64_t{1} << at_random(64)),
                                                 at_random(50'000),
                                                 random_()};
    return extremes[at_random(extremes.size())];
  }

  // Some bytes, or a number of 4 or 8 bytes.
  void lie_in(std::span<std::byte> bytes) {
    for (auto count = 1 + at_random(3); count > 0; --count) {
      const std::size_t width = std::array<std::size_t, 3>{1, 4, 8}[at_random(3)];
      std::size_t at = at_random(bytes.size() - width);
      if (at_random(2) == 0) at &= ~(width - 1);
      std::uint64_t value = 0;
      std::memcpy(&value, &bytes[at], width);
      value = number(value);
      std::memcpy(&bytes[at], &value, width);
    }
  }

  // Removes, repeats, swaps or changes one of `things`.
  template <typename Things, typename Change>
  void change_one(Things& things, Change change) {
    if (things.empty()) return;
    const auto at = things.begin() + static_cast<std::ptrdiff_t>(at_random(things.size()));
    switch (at_random(5)) {
      case 0:
        things.erase(at);
        break;
      case 1: {
        auto copy = *at;
        things.insert(at, std::move(copy));
        break;
      }
      case 2:
        std::swap(*at, things[at_random(things.size())]);
        break;
      default:
        change(*at);
    }
  }

  void change_table(Parts& parts) {
    change_one(parts.table, [&](Extent& extent) {
      auto& field = at_random(2) == 0 ? extent.offset : extent.length;
      field = number(field);
    });
  }

  void change_bytes(Bytes& bytes) {
    switch (at_random(4)) {
      case 0:
        bytes.resize(at_random(bytes.size()));
        break;
      case 1:
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at_random(bytes.size())), 1 + at_random(40),
                     static_cast<std::byte>(at_random(256)));
        break;
      default:
        lie_in(bytes);
    }
  }

  void change_tensor(Contents& contents) {
    const std::size_t t = at_random(contents.tensors.size());
    rota::TensorInfo& tensor = contents.tensors[t];
    auto& length = tensor.shape[at_random(tensor.shape.size())];
    switch (at_random(5)) {
      case 0:
        length = static_cast<std::int64_t>(number(static_cast<std::uint64_t>(length)));
        break;
      case 1:
        tensor.shape.insert(tensor.shape.begin(), at_random(40), 1);
        break;
      case 2:
        tensor.dtype = static_cast<DType>(at_random(13));
        break;
      case 3:
        tensor.name = contents.tensors[at_random(contents.tensors.size())].name;
        break;
      default:
        contents.places[t].offset = number(contents.places[t].offset);
    }
  }

  void change_blob(BlobEntry& blob) {
    switch (at_random(6)) {
      case 0:
        blob.rank = static_cast<std::int32_t>(number(0));
        break;
      case 1:
        blob.codec = static_cast<rota::checkpoint::Codec>(at_random(4));
        break;
      case 2:
        blob.name = "text";
        break;
      default: {
        const std::array<std::uint64_t*, 3> fields{&blob.offset, &blob.stored_bytes, &blob.bytes};
        std::uint64_t& field = *fields[at_random(3)];
        field = number(field);
      }
    }
  }

  void change_contents(Parts& parts) {
    Contents contents = contents_of(parts);
    switch (at_random(3)) {
      case 0:
        change_tensor(contents);
        break;
      case 1:
        change_one(contents.blobs, [&](BlobEntry& blob) { change_blob(blob); });
        break;
      default: {
        std::uint64_t& field = at_random(2) == 0 ? contents.blob_offset : contents.blob_bytes;
        field = number(field);
      }
    }
    parts.contents = encode_contents(contents);
  }

  // The stored bytes, their frames among them.
  void change_blobs(Parts& parts) {
    const Contents contents = contents_of(parts);
    lie_in(std::span(parts.hdf5).subspan(contents.blob_offset - 4096, contents.blob_bytes));
    if (at_random(2) == 0) change_contents(parts);
  }

  std::mt19937_64 random_;
  Parts good_;
};

/// How `work` ended: what it returns, or the code of its Error.
template <typename Work>
std::string outcome_of(Work&& work) {
  try {
    return work();
  } catch (const rota::Error& error) {
    return std::string(to_string(error.code()));
  }
}

TEST(Hostile, FilesWithRightChecksumsDoNoHarm) {
  constexpr std::size_t kMutants = 20'000;
  Liar liar(1);
  std::map<std::string, std::size_t> outcomes;
  std::size_t most = 0;
  std::chrono::nanoseconds slowest{0};
  for (std::size_t i = 0; i < kMutants; ++i) {
    const Bytes file = liar.next();
    std::size_t read = 0;
    rota::test::watch_memory();
    const auto start = std::chrono::steady_clock::now();
    const std::string outcome = outcome_of([&] {
      read = rota::test::read_all(file);
      return "good";
    });
    slowest = std::max<std::chrono::nanoseconds>(slowest, std::chrono::steady_clock::now() - start);
    const auto [at_once, largest] = rota::test::watched_memory();
    most = std::max(most, at_once);
    ASSERT_LE(std::max(at_once, largest), 16 * file.size() + (std::size_t{2} << 20) + 2 * read)
        << "mutant " << i;
    ASSERT_EQ(outcome_of([&] { return rota::test::verify_bytes(file).is_good() ? "good" : "corrupt"; }),
              outcome);
    ++outcomes[outcome];
  }
  for (const auto& [outcome, count] : outcomes)
    std::cout << "[          ] " << outcome << ": " << count << "\n";
  std::cout << "[          ] at most " << most << " bytes at once, and "
            << std::chrono::duration<double, std::milli>(slowest).count() << " ms\n";
  EXPECT_EQ(outcomes["good"] + outcomes["corrupt"] + outcomes["unsupported"], kMutants);
  EXPECT_GT(outcomes["good"], kMutants / 20);  // those that lie where no reader looks, or tell a truth
}

}  // namespace rota::test::hostile_test
