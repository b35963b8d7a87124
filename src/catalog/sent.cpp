#include "catalog/sent.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "catalog/serialize.hpp"
#include "core/bytes.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

// The bytes: magic, digest of what follows, the size of the head, the head, the catalog as it would be saved.
constexpr std::string_view kSentMagic{"rota files\n\x1a\0\0\0\2", 16};

struct SentPreamble {
  std::array<char, 16> magic{};
  Fingerprint digest = {};
  std::uint64_t head_bytes = 0;
};
static_assert(sizeof(SentPreamble) == 40);

struct SentHead {
  ListingFacts facts;
  CatalogChanges changes;
  std::string pattern;  // of names that are computed; empty: they are in a table
  NameSeries series;    // without its pattern

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(facts, changes.changed, changes.resized, changes.vanished, changes.appeared, changes.first,
            pattern, series.files, series.folders, series.layout);
  }
};

Fingerprint digest_after(std::string_view bytes, std::size_t at) {
  return FingerprintBuilder().add(bytes.substr(at)).finish();
}

constexpr std::size_t kDigestEnd = offsetof(SentPreamble, head_bytes);

[[noreturn]] void refuse_sent(std::string_view why) {
  throw Error(
      ErrorCode::corrupt,
      fmt::format("make a catalog of bytes: {}; take those that this version's serialize() made", why));
}

// The names that are computed. Throws for numbers that make none.
Listing series_of(const SentHead& head) {
  NameSeries series = head.series;
  series.pattern = NamePattern(head.pattern);
  PatternOptions{.files = series.files, .folders = series.folders, .layout = series.layout}.validate();
  const bool is_restart = series.layout == FolderLayout::restart;
  if (series.folders < 1 || (is_restart && series.files % series.folders != 0))
    refuse_sent("its files cannot be shared out to its folders");
  return Listing(std::move(series));
}

// And takes it off.
SentPreamble take_preamble(std::string_view& bytes) {
  SentPreamble preamble;
  if (bytes.size() < sizeof(preamble) || !bytes.starts_with(kSentMagic))
    refuse_sent("they do not begin as such bytes");
  preamble = load<SentPreamble>(std::as_bytes(std::span(bytes)));
  if (digest_after(bytes, kDigestEnd) != preamble.digest) refuse_sent("they are damaged or cut short");
  bytes.remove_prefix(sizeof(preamble));
  if (preamble.head_bytes > bytes.size()) refuse_sent("they end early");
  return preamble;
}

}  // namespace

std::string pack_sent(const SentCatalog& catalog) {
  const FileList& files = catalog.files;
  SentHead head{.facts = files.facts(), .changes = catalog.changes, .pattern = {}, .series = {}};
  if (files.listing().is_computed()) {
    head.series = files.listing().series();
    head.pattern = head.series.pattern.text();
  }
  const std::string packed_head = to_blob(head);
  const auto saved = pack_catalog({.origin = catalog.origin,
                                   .change_detection = files.change_detection(),
                                   .files = files.shared_listing(),
                                   .indices = files.kept().all(),
                                   .format = files.kept().format()});
  SentPreamble preamble{.head_bytes = packed_head.size()};
  std::ranges::copy(kSentMagic, preamble.magic.begin());
  std::string bytes(sizeof(preamble), '\0');
  bytes += packed_head;
  bytes.append(reinterpret_cast<const char*>(saved.data()), saved.size());
  const auto writable = std::as_writable_bytes(std::span(bytes));
  store(writable, 0, preamble);
  preamble.digest = digest_after(bytes, kDigestEnd);
  store(writable, 0, preamble);
  return bytes;
}

SentCatalog parse_sent(const std::shared_ptr<const OpenContext>& context, std::string_view bytes) {
  const std::size_t head_bytes = take_preamble(bytes).head_bytes;
  SentHead head;
  SavedCatalog saved;
  try {
    head = from_blob<SentHead>(bytes.substr(0, head_bytes));
    const auto packed = std::as_bytes(std::span(bytes.substr(head_bytes)));
    // Of its own, so that what is in there is aligned.
    auto owned = std::make_shared<const std::vector<std::byte>>(packed.begin(), packed.end());
    saved = parse_catalog("of bytes", {.bytes = *owned, .owner = owned});
    if (!head.pattern.empty()) saved.files = std::make_shared<const Listing>(series_of(head));
  } catch (const Error& error) {
    refuse_sent(error.what());
  }
  const std::size_t expected = head.facts.expected.size();
  if (expected != 0 && expected != saved.files->size()) refuse_sent("they expect samples of other files");
  FileList files(context, saved.change_detection, saved.files, head.facts);
  for (const auto& [signature, index] : saved.indices) files.kept().keep(signature, index);
  files.kept().set_format(saved.format);
  return {.files = std::move(files), .origin = std::move(saved.origin), .changes = std::move(head.changes)};
}

}  // namespace rota::internal
