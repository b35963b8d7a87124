#pragma once

// Checkpoints whose every checksum is right, whatever they say.

#include "commit_page.hpp"
#include "contents.hpp"
#include "extents.hpp"
#include "test.hpp"

namespace rota::test {

/// A checkpoint taken apart.
struct Parts {
  checkpoint::CommitPage page;
  std::vector<std::byte> hdf5;
  std::vector<checkpoint::Extent> table;
  std::vector<std::byte> contents;
};

/// The parts of a good checkpoint.
Parts take_apart(std::span<const std::byte> file);
checkpoint::Contents contents_of(const Parts& parts);

/// A file of these parts, whose page has their sizes. Its checksums are still to be made right.
std::vector<std::byte> put_together(const Parts& parts);

/// Makes every checksum right that stands where the page says, as far as that is in the file: of rows, blobs,
/// contents, extents, table, and the page itself.
void seal(std::span<std::byte> file);

}  // namespace rota::test
