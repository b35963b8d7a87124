// Whatever happens to the bytes of a checkpoint is found, by the reader and by what lists all damage.

#include "checkpoint_fixture.hpp"
#include "memory_file.hpp"

namespace rota::test::any_damage_test {

/// A checkpoint, and an older one of the same shape.
struct Pair {
  Bytes good;
  Bytes older;
};

Pair make_pair(std::int64_t rows) {
  const TemporaryDirectory directory;
  const auto save = [&](std::int64_t step) {
    Snapshot snapshot;
    snapshot.tensor("model/w", DType::int32, {16}, rows, make_rows(step, rows, 64));
    snapshot.tensor("loader/main/cursors", DType::int64, {2}, 16, make_rows(step, 16, 16));
    snapshot.blob("state", "step " + std::to_string(step));
    snapshot.rank_blob("rng", std::string(300, static_cast<char>('a' + step)));
    const auto file = CheckpointDirectory({}, directory.path()).save(step, snapshot).info.path;
    const std::string text = read_file(file);
    const auto bytes = std::as_bytes(std::span(text));
    return Bytes(bytes.begin(), bytes.end());
  };
  Pair pair{.good = {}, .older = save(1)};
  pair.good = save(2);
  return pair;
}

// What the reader makes of it: nothing where it takes it for good.
std::optional<ErrorCode> code_of(std::span<const std::byte> bytes) {
  try {
    const MemoryFile file(bytes);
    open_bytes(file);
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

bool names(const std::vector<Verification::Damage>& damage, std::size_t byte) {
  const auto at = static_cast<std::int64_t>(byte);
  return std::ranges::any_of(
      damage, [&](const Verification::Damage& d) { return d.offset <= at && at < d.offset + d.bytes; });
}

TEST(AnyDamage, AFlipOfAnyBitIsFoundAndNamed) {
  Bytes bytes = make_pair(40).good;
  ASSERT_EQ(code_of(bytes), std::nullopt);
  ASSERT_TRUE(verify_bytes(bytes).is_good());
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const std::size_t byte = bit / 8;
    bytes[byte] ^= std::byte{1} << bit % 8;
    ASSERT_EQ(code_of(bytes), corrupt) << "bit " << bit;
    if (bit % 8 == byte % 8) {
      ASSERT_TRUE(names(verify_bytes(bytes).damage, byte)) << "bit " << bit;
    }
    bytes[byte] ^= std::byte{1} << bit % 8;
  }
}

TEST(AnyDamage, ATruncationToAnyLengthIsFoundAndNamed) {
  const Bytes bytes = make_pair(40).good;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto part = std::span(bytes).first(length);
    ASSERT_EQ(code_of(part), corrupt) << length << " bytes left";
    const auto damage = verify_bytes(part).damage;
    ASSERT_FALSE(damage.empty()) << length << " bytes left";
    ASSERT_EQ(damage[0].part,
              length < 4096 ? Verification::Damage::Part::page : Verification::Damage::Part::size);
  }
}

/// Does to a checkpoint's bytes what disks, file systems and people do.
class Mutator : Chance {
 public:
  Mutator(const Pair& pair, std::uint64_t seed) : Chance(seed), pair_(&pair) {}

  /// A copy with some damage, unlike both checkpoints.
  Bytes next() {
    for (;;) {
      Bytes bytes = pair_->good;
      for (auto count = below(4) == 0 ? 2 + below(3) : 1; count > 0; --count) damage(bytes);
      if (bytes != pair_->good && bytes != pair_->older) return bytes;
    }
  }

 private:
  static constexpr std::size_t kPage = 4096;

  void damage(Bytes& bytes) {
    one_of({[&] {
              for (auto flips = 1 + below(16); flips > 0; --flips) {
                bytes[below(bytes.size())] ^= std::byte{1} << below(8);
              }
            },
            [&] { std::ranges::fill(any_page(bytes), std::byte{0}); }, [&] { copy_stale(bytes); },
            [&] { std::ranges::swap_ranges(any_page(bytes), any_page(bytes)); },
            [&] { bytes.resize(bytes.size() + 1 + below(2 * kPage), static_cast<std::byte>(below(256))); },
            [&] { bytes.resize(bytes.size() - 1 - below(std::min(bytes.size() - 1, 2 * kPage))); }});
  }

  std::span<std::byte> any_page(Bytes& bytes) {
    const std::size_t at = below((bytes.size() + kPage - 1) / kPage) * kPage;
    return std::span(bytes).subspan(at, std::min(kPage, bytes.size() - at));
  }
  // A page of the older checkpoint where the newer one's was.
  void copy_stale(Bytes& bytes) {
    const std::span page = any_page(bytes);
    const auto at = static_cast<std::size_t>(page.data() - bytes.data());
    const std::span older = std::span(pair_->older).subspan(std::min(at, pair_->older.size()));
    std::ranges::copy(older.first(std::min(older.size(), page.size())), page.begin());
  }

  const Pair* pair_;
};

void expect_found(std::int64_t rows, std::size_t mutants, std::uint64_t seed) {
  const Pair pair = make_pair(rows);
  Mutator mutator(pair, seed);
  for (std::size_t i = 0; i < mutants; ++i) {
    const Bytes bytes = mutator.next();
    ASSERT_EQ(code_of(bytes), corrupt) << "mutant " << i << " of seed " << seed;
    ASSERT_FALSE(i % 10 == 0 && verify_bytes(bytes).is_good()) << "mutant " << i << " of seed " << seed;
  }
}

TEST(AnyDamage, AnyMixOfDamageIsFoundInSmallFiles) { expect_found(500, 20'000, 1); }
TEST(AnyDamage, AnyMixOfDamageIsFoundInFilesOfSeveralExtents) { expect_found(40'000, 800, 2); }
TEST(AnyDamage, AnyMixOfDamageIsFoundInLargeFiles) { expect_found(155'000, 150, 3); }

}  // namespace rota::test::any_damage_test
