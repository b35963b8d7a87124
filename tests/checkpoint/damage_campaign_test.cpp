// Whatever happens to the bytes of a checkpoint is found, by the reader and by what lists all damage.

#include "checkpoint_fixture.hpp"
#include "memory_file.hpp"
#include "test.hpp"

namespace rota::test::damage_campaign_test {

using rota::Damage;
using rota::DType;
using rota::ErrorCode;
using rota::test::Bytes;
using rota::test::make_rows;
using rota::test::MemoryFile;
using rota::test::verify_bytes;

/// A checkpoint, and an older one of the same shape.
struct Pair {
  Bytes good;
  Bytes older;
};

Pair make_pair(std::int64_t rows) {
  const auto directory = rota::test::make_directory();
  const auto save = [&](std::int64_t step) {
    rota::Snapshot snapshot;
    snapshot.tensor("model/w", DType::int32, {16}, rows, make_rows(step, rows, 64));
    snapshot.tensor("loader/main/cursors", DType::int64, {2}, 16, make_rows(step, 16, 16));
    snapshot.blob("state", "step " + std::to_string(step));
    snapshot.rank_blob("rng", std::string(300, static_cast<char>('a' + step)));
    const auto file = rota::CheckpointDirectory({}, directory).save(step, snapshot).info.path;
    const std::string text = rota::test::read_file(file);
    const auto bytes = std::as_bytes(std::span(text));
    return Bytes(bytes.begin(), bytes.end());
  };
  Pair pair{.good = {}, .older = save(1)};
  pair.good = save(2);
  rota::test::fs::remove_all(directory);
  return pair;
}

void tell(std::size_t tried, std::string_view what) {
  std::cout << "[          ] " << tried << " " << what << "\n";
}

// What the reader makes of it: nothing where it takes it for good.
std::optional<ErrorCode> code_of(std::span<const std::byte> bytes) {
  try {
    const MemoryFile file(bytes);
    rota::test::open_bytes(file);
  } catch (const rota::Error& error) {
    return error.code();
  }
  return std::nullopt;
}

bool names(const std::vector<Damage>& damage, std::size_t byte) {
  const auto at = static_cast<std::int64_t>(byte);
  return std::ranges::any_of(damage,
                             [&](const Damage& d) { return d.offset <= at && at < d.offset + d.bytes; });
}

TEST(DamageCampaign, AFlipOfAnyBitIsFoundAndNamed) {
  Bytes bytes = make_pair(40).good;
  ASSERT_EQ(code_of(bytes), std::nullopt);
  ASSERT_TRUE(verify_bytes(bytes).is_good());
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const std::size_t byte = bit / 8;
    bytes[byte] ^= std::byte{1} << bit % 8;
    ASSERT_EQ(code_of(bytes), ErrorCode::corrupt) << "bit " << bit;
    if (bit % 8 == byte % 8) {
      ASSERT_TRUE(names(verify_bytes(bytes).damage, byte)) << "bit " << bit;
    }
    bytes[byte] ^= std::byte{1} << bit % 8;
  }
  tell(8 * bytes.size(), "flips, one of each bit");
}

TEST(DamageCampaign, ATruncationToAnyLengthIsFoundAndNamed) {
  const Bytes bytes = make_pair(40).good;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto part = std::span(bytes).first(length);
    ASSERT_EQ(code_of(part), ErrorCode::corrupt) << length << " bytes left";
    const auto damage = verify_bytes(part).damage;
    ASSERT_FALSE(damage.empty()) << length << " bytes left";
    ASSERT_EQ(damage[0].part, length < 4096 ? Damage::Part::page : Damage::Part::size);
  }
  tell(bytes.size(), "truncations, one to each length");
}

/// Does to a checkpoint's bytes what disks, file systems and people do.
class Mutator {
 public:
  Mutator(const Pair& pair, std::uint64_t seed) : pair_(&pair), random_(seed) {}

  /// A copy with some damage, unlike both checkpoints.
  Bytes next() {
    for (;;) {
      Bytes bytes = pair_->good;
      for (auto count = at_random(4) == 0 ? 2 + at_random(3) : 1; count > 0; --count) damage(bytes);
      if (bytes != pair_->good && bytes != pair_->older) return bytes;
    }
  }

 private:
  static constexpr std::size_t kPage = 4096;

  std::size_t at_random(std::size_t end) { return random_() % end; }

  void damage(Bytes& bytes) {
    switch (at_random(6)) {
      case 0:
        for (auto flips = 1 + at_random(16); flips > 0; --flips) {
          bytes[at_random(bytes.size())] ^= std::byte{1} << at_random(8);
        }
        break;
      case 1:
        std::ranges::fill(page(bytes, at_random(pages(bytes))), std::byte{0});
        break;
      case 2:
        copy(page(pair_->older, at_random(pages(pair_->older))), bytes);
        break;
      case 3:
        swap(bytes);
        break;
      case 4:
        bytes.resize(bytes.size() + 1 + at_random(2 * kPage), static_cast<std::byte>(at_random(256)));
        break;
      default:
        bytes.resize(bytes.size() - 1 - at_random(std::min(bytes.size() - 1, 2 * kPage)));
    }
  }

  static std::size_t pages(const Bytes& bytes) { return (bytes.size() + kPage - 1) / kPage; }
  template <typename T>
  static std::span<T> page_of(std::span<T> bytes, std::size_t n) {
    return bytes.subspan(n * kPage, std::min(kPage, bytes.size() - n * kPage));
  }
  static std::span<std::byte> page(Bytes& bytes, std::size_t n) { return page_of(std::span(bytes), n); }
  static std::span<const std::byte> page(const Bytes& bytes, std::size_t n) {
    return page_of(std::span(bytes), n);
  }
  // The older checkpoint's page where the newer one's was.
  void copy(std::span<const std::byte> stale, Bytes& bytes) const {
    const auto at = static_cast<std::size_t>(stale.data() - pair_->older.data());
    if (at >= bytes.size()) return;
    std::copy_n(stale.begin(), std::min(stale.size(), bytes.size() - at),
                bytes.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void swap(Bytes& bytes) {
    const auto one = page(bytes, at_random(pages(bytes)));
    const auto other = page(bytes, at_random(pages(bytes)));
    std::swap_ranges(one.begin(),
                     one.begin() + static_cast<std::ptrdiff_t>(std::min(one.size(), other.size())),
                     other.begin());
  }

  const Pair* pair_;
  std::mt19937_64 random_;
};

void run_campaign(std::int64_t rows, std::size_t mutants, std::uint64_t seed) {
  const Pair pair = make_pair(rows);
  Mutator mutator(pair, seed);
  for (std::size_t i = 0; i < mutants; ++i) {
    const Bytes bytes = mutator.next();
    ASSERT_EQ(code_of(bytes), ErrorCode::corrupt) << "mutant " << i << " of seed " << seed;
    ASSERT_FALSE(i % 10 == 0 && verify_bytes(bytes).is_good()) << "mutant " << i << " of seed " << seed;
  }
  tell(mutants, "damaged copies of " + std::to_string(pair.good.size()) + " bytes");
}

TEST(DamageCampaign, AnyMixOfDamageIsFoundInSmallFiles) { run_campaign(500, 20'000, 1); }
TEST(DamageCampaign, AnyMixOfDamageIsFoundInFilesOfSeveralExtents) { run_campaign(40'000, 2000, 2); }
TEST(DamageCampaign, AnyMixOfDamageIsFoundInLargeFiles) { run_campaign(155'000, 500, 3); }

}  // namespace rota::test::damage_campaign_test
