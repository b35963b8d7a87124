#include "catalog/listing.hpp"
#include "source/reading.hpp"

namespace rota::test::file_index_test {

using Bytes = std::vector<std::byte>;

/// An index of `files` files in which `bytes` is said to have been found.
FileIndex index_of(int files, const Bytes& bytes) {
  NameTableBuilder names;
  for (int i = 0; i < files; ++i) names.add("", std::to_string(i));
  const auto owner = std::make_shared<Bytes>(bytes);
  return {std::make_shared<Listing>(names.finish(), NodeBuffer{}), {.bytes = *owner, .owner = owner}};
}

/// Parts of so many files each; file i of a part has i bytes of value i.
Bytes parts_of(std::initializer_list<std::size_t> files) {
  Bytes bytes;
  for (const std::size_t count : files) {
    std::vector<Bytes> found;
    for (std::size_t i = 0; i < count; ++i) found.emplace_back(i, static_cast<std::byte>(i));
    const Bytes part = encode_part(found);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

TEST(FileIndices, GiveBackWhatWasFoundInEachFile) {
  const FileIndex index = index_of(14, parts_of({10, 0, 4}));
  for (std::size_t i = 0; i < 14; ++i) {
    const std::size_t place = i < 10 ? i : i - 10;
    EXPECT_TRUE(std::ranges::equal(index[i], Bytes(place, static_cast<std::byte>(place)))) << i;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(index[i].data()) % 8, 0U) << i;
  }
}

TEST(FileIndices, OfMoreOrFewerFilesAreCorrupt) {
  for (const int files : {0, 13, 15}) {
    EXPECT_ERROR(index_of(files, parts_of({10, 4})), corrupt, {"index the files again"});
  }
}

TEST(FileIndices, ThatAreCutShortAreCorrupt) {
  const Bytes whole = parts_of({10});
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    EXPECT_ERROR(index_of(10, part), corrupt, {"damaged"}) << bytes;
  }
}

}  // namespace rota::test::file_index_test
