// What reads checkpoints, and states as text.

#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>

#include "checkpoint/forge.hpp"
#include "checkpoint/memory_file.hpp"
#include "core/bytes.hpp"
#include "digest.hpp"
#include "fuzz/target.hpp"
#include "rota/cereal.hpp"
#include "source/told_source.hpp"
#include "stored_blobs.hpp"
#include "stream/numbered_stream.hpp"

namespace rota::test::checkpoint_targets {

using checkpoint::Contents;

// The blob decoder. Input: the size that the index says, as 4 bytes, then what is stored.
const bool kBlob = add_target(
    "blob",
    [] {
      std::string mixed;
      for (int i = 0; i < 4000; ++i) mixed += static_cast<char>(i * i % 251);
      Seeds seeds;
      for (const std::string& text :
           {std::string(), std::string(3000, 'a'), mixed, std::string(3'000'000, 'z')}) {
        checkpoint::StoredBlobs stored;
        const std::vector<checkpoint::LocalBlob> blobs{{.name = "b", .bytes = text}};
        add_blobs(stored, blobs, -1);
        seeds.push_back(raw(static_cast<std::uint32_t>(text.size())) + to_text(stored.bytes));
      }
      return seeds;
    },
    [](Bytes input) {
      constexpr std::uint32_t kMost = 1 << 26;  // else most of the time goes into zeros
      if (input.size() < 4) return;
      const Bytes stored = input.subspan(4);
      checkpoint::BlobEntry entry;
      entry.bytes = std::min(load<std::uint32_t>(input), kMost);
      entry.stored_bytes = stored.size();
      entry.digest = checkpoint::digest(stored);
      for (const auto codec : {checkpoint::Codec::raw, checkpoint::Codec::zstd}) {
        entry.codec = codec;
        std::string out;
        const auto decode = [&] { out = decode_blob(entry, stored, "decode"); };
        const bool decodes = succeeds({corrupt}, decode);
        EXPECT_EQ(decodes, succeeds({corrupt}, [&] { verify_blob(entry, stored, "verify"); }));
        EXPECT_TRUE(!decodes || out.size() == entry.bytes);
      }
    });

struct Part {
  bool flag = false;
  std::vector<std::string> names;
  std::map<std::int32_t, std::vector<double>> table;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(flag, names, table);
  }
};

struct Whole {
  std::vector<Part> parts;
  std::vector<bool> mask;
  std::optional<float> rate;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(parts, mask, rate);
  }
};

// What cereal reads from a blob.
const bool kCereal = add_target(
    "cereal",
    [] {
      const Part part{.flag = true, .names = {"a", "", "bc"}, .table = {{-1, {1.5, 2}}, {7, {}}}};
      return Seeds{to_blob(Whole{}),
                   to_blob(Whole{.parts = {part, {}, part}, .mask = {true, false}, .rate = 1})};
    },
    [](Bytes input) {
      succeeds({corrupt}, [&] {
        const auto whole = from_blob<Whole>(to_text(input));
        EXPECT_LE(to_blob(whole).size(), input.size());  // less where a key of a map came twice
      });
    });

Contents make_contents() {
  Contents contents;
  contents.tensors = {{.name = "a", .dtype = DType::int64, .shape = {16, 2}},
                      {.name = "b/c", .dtype = DType::float32, .shape = {4}},
                      {.name = "none", .dtype = DType::boolean, .shape = {0, 1, 1}}};
  contents.places = {{.offset = 8192, .row_bytes = 16, .row_digest = 1},
                     {.offset = 5000, .row_bytes = 4, .row_digest = 2},
                     {.offset = 0, .row_bytes = 1, .row_digest = 0}};
  contents.blob_offset = 9000;
  contents.blob_bytes = 30;
  contents.blobs = {{.name = "state", .stored_bytes = 10, .bytes = 10, .digest = {}},
                    {.name = "rng",
                     .rank = 1,
                     .codec = checkpoint::Codec::zstd,
                     .offset = 10,
                     .stored_bytes = 20,
                     .bytes = 900,
                     .digest = {}}};
  return contents;
}

// The list of contents. Input: hdf5_end and world_size, 8 bytes each, then the contents.
const bool kContents = add_target(
    "contents",
    [] {
      const auto seed = [](std::uint64_t hdf5_end, std::int64_t world_size, const Contents& contents) {
        return raw(hdf5_end, world_size) + to_text(encode_contents(contents));
      };
      return Seeds{seed(10'000, 2, make_contents()), seed(5000, 1, {})};
    },
    [](Bytes input) {
      if (input.size() < 16) return;
      const Bytes bytes = input.subspan(16);
      succeeds({corrupt}, [&] {
        const auto contents =
            checkpoint::decode_contents(bytes, load<std::uint64_t>(input), load<std::int64_t>(input, 8), "");
        EXPECT_TRUE(std::ranges::equal(encode_contents(contents), bytes)) << "there are two ways to say it";
      });
    });

void mend_sizes(std::span<std::byte> file) {
  constexpr std::size_t kHdf5EndAt = 72;
  constexpr std::size_t kFileBytesAt = 80;
  constexpr std::size_t kExtentCountAt = 88;
  constexpr std::size_t kContentsBytesAt = 128;
  if (file.size() < checkpoint::kPageBytes) return;
  store(file, kFileBytesAt, std::uint64_t{file.size()});
  const auto contents_at =
      load<std::uint64_t>(file, kHdf5EndAt) + 32 * load<std::uint64_t>(file, kExtentCountAt);
  if (contents_at < file.size()) store(file, kContentsBytesAt, file.size() - contents_at);
}

std::string save(const Snapshot& snapshot) {
  const TemporaryDirectory directory;
  return read_file(CheckpointDirectory({}, directory.path()).save(1, snapshot).info.path);
}

// With no more of HDF5 than there is data, so that a fuzzer does not lose itself in bytes that nobody reads.
std::string without_hdf5(const std::string& file) {
  Parts parts = take_apart(std::as_bytes(std::span(file)));
  Contents contents = contents_of(parts);
  std::vector<std::byte> data;
  const auto move = [&](std::uint64_t& offset, std::uint64_t bytes) {
    const auto part = std::span(parts.hdf5).subspan(offset - 4096, bytes);
    offset = 4096 + data.size();
    data.insert(data.end(), part.begin(), part.end());
  };
  for (std::size_t t = 0; t < contents.tensors.size(); ++t) {
    const auto bytes = contents.tensors[t].rows() * contents.places[t].row_bytes;
    if (bytes > 0) move(contents.places[t].offset, static_cast<std::uint64_t>(bytes));
  }
  move(contents.blob_offset, contents.blob_bytes);
  parts.hdf5 = data;
  parts.table = {{.offset = 4096, .length = 100, .digest = {}},
                 {.offset = 4196, .length = data.size() - 100, .digest = {}}};
  parts.contents = encode_contents(contents);
  return to_text(put_together(parts));
}

enum class Outcome { good, corrupt, unsupported };

Outcome outcome_of(const std::function<bool()>& work) {
  try {
    return work() ? Outcome::good : Outcome::corrupt;
  } catch (const Error& error) {
    EXPECT_THAT(error.code(), AnyOf(unsupported, corrupt)) << error.what();
    return error.code() == unsupported ? Outcome::unsupported : Outcome::corrupt;
  }
}

// The whole reader. Input: a file, whose checksums and sizes are made right, for no fuzzer guesses them.
const bool kReader = add_target(
    "reader",
    [] {
      Snapshot snapshot;
      snapshot.tensor("a", DType::int32, {2}, 8, std::vector<std::byte>(64, std::byte{1}));
      snapshot.tensor("b/c", DType::uint8, {}, 50, std::vector<std::byte>(50, std::byte{2}));
      snapshot.blob("zeros", std::string(2000, '\0'));
      snapshot.blob("text", "text");
      snapshot.rank_blob("rng", "state of a rank");
      const std::string file = save(snapshot);
      return Seeds{without_hdf5(file), file};
    },
    [](Bytes input) {
      std::vector<std::byte> file(input.begin(), input.end());
      mend_sizes(file);
      seal(file);
      const auto read = outcome_of([&] {
        read_all(file);
        return true;
      });
      EXPECT_EQ(read, outcome_of([&] { return verify_bytes(file).is_good(); }));
    });

Loader make_loader() { return {counting(100), {.shards = 9, .workers = 0}}; }
Loader make_mixture() {
  return {{.datasets = {{counting(20), 1}, {counting(30), 2}}}, {.shards = 3, .workers = 0}};
}
StreamLoader make_stream() {
  const auto source = std::make_shared<NumberedStream>(Numbers{5, 0, 9});
  return StreamLoader(shuffle_buffer(source, 2, 1), {.global_batch_size = 4, .workers = 0});
}
StreamLoader make_dispatch() {
  const auto source = std::make_shared<NumberedStream>(Numbers{12});
  return StreamLoader(Dispatch{.source = source, .shards = 5}, {.global_batch_size = 4, .workers = 0});
}

Loader make_planned() {
  Loader loader = make_mixture();
  loader.set_global_batch_size(3);
  loader.replan(
      {.stages = {{.begin = 40, .weights = {1, 2}, .toward = {2, 1}}, {.begin = 90}}, .skip = {{1, 2}}});
  return loader;
}

template <typename Make>
std::string state_after_steps(Make make) {
  auto loader = make();
  for (int k = 0; k < 2; ++k) static_cast<void>(loader.next());
  return state(loader);
}

template <typename Make>
void take(Make make, std::string_view text) {
  auto loader = make();
  const auto codes = {corrupt, unsupported, mismatch};
  if (!succeeds(codes, [&] { restore(loader, text); })) return;
  try {
    const std::string then = state(loader);
    auto again = make();
    restore(again, then);
    EXPECT_EQ(again.position(), loader.position());
    static_cast<void>(loader.next());
  } catch (const Error&) {
    // a cursor that the source does not know
  }
}

// What is taken for a state can be gone on from, and gives a state that is taken again.
const bool kState = add_target(
    "state",
    [] {
      return Seeds{state_after_steps(make_loader), state_after_steps(make_mixture),
                   state_after_steps(make_planned), state_after_steps(make_stream),
                   state_after_steps(make_dispatch)};
    },
    [](Bytes input) {
      const std::string text = to_text(input);
      take(make_loader, text);
      take(make_mixture, text);
      take(make_stream, text);
      take(make_dispatch, text);
    });

}  // namespace rota::test::checkpoint_targets
