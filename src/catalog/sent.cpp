#include "catalog/sent.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "catalog/serialize.hpp"
#include "core/bytes.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

// The bytes: magic, digest of what follows, what is sent.
constexpr std::string_view kSentMagic{"rota files\n\x1a\0\0\0\3", 16};
constexpr std::size_t kContent = kSentMagic.size() + sizeof(Fingerprint);

struct Sent {
  ListingFacts facts;
  CatalogChanges changes;
  std::string pattern;           // of names that are computed; empty: they are in a table
  NameSeries series;             // without its pattern
  std::vector<std::byte> saved;  // the catalog as it would be saved

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(facts, changes.changed, changes.resized, changes.vanished, changes.appeared, changes.first,
            pattern, series.files, series.folders, series.layout, saved);
  }
};

[[noreturn]] void refuse_sent(std::string_view why) {
  throw Error(
      ErrorCode::corrupt,
      fmt::format("make a catalog of bytes: {}; take those that this version's serialize() made", why));
}

// The names that are computed. Throws for numbers that make none.
Listing series_of(const Sent& sent) {
  NameSeries series = sent.series;
  series.pattern = NamePattern(sent.pattern);
  PatternOptions{.files = series.files, .folders = series.folders, .layout = series.layout}.validate();
  const bool is_restart = series.layout == FolderLayout::restart;
  if (series.folders < 1 || (is_restart && series.files % series.folders != 0))
    refuse_sent("its files cannot be shared out to its folders");
  return Listing(std::move(series));
}

}  // namespace

std::string encode_sent(const SentCatalog& catalog) {
  const FileList& files = catalog.files;
  Sent sent{.facts = files.facts(),
            .changes = catalog.changes,
            .pattern = {},
            .series = {},
            .saved = encode_catalog({.origin = catalog.origin,
                                     .change_detection = files.change_detection(),
                                     .files = files.shared_listing(),
                                     .indices = files.kept().all(),
                                     .format = files.kept().format()})};
  if (files.listing().is_computed()) {
    sent.series = files.listing().series();
    sent.pattern = sent.series.pattern.text();
  }
  const std::string content = to_blob(sent);
  const Fingerprint digest = FingerprintBuilder().add(content).finish();
  std::string bytes(kSentMagic);
  bytes.append(reinterpret_cast<const char*>(&digest), sizeof(digest));
  return bytes + content;
}

SentCatalog parse_sent(const std::shared_ptr<const OpenContext>& context, std::string_view bytes) {
  if (bytes.size() < kContent || !bytes.starts_with(kSentMagic))
    refuse_sent("they do not begin as such bytes");
  const std::string_view content = bytes.substr(kContent);
  const auto digest = load<Fingerprint>(std::as_bytes(std::span(bytes.substr(kSentMagic.size()))));
  if (FingerprintBuilder().add(content).finish() != digest) refuse_sent("they are damaged or cut short");
  Sent sent;
  SavedCatalog saved;
  try {
    sent = from_blob<Sent>(content);
    const auto owned = std::make_shared<const std::vector<std::byte>>(std::move(sent.saved));
    saved = parse_catalog("of bytes", {.bytes = *owned, .owner = owned});
    if (!sent.pattern.empty()) saved.files = std::make_shared<const Listing>(series_of(sent));
  } catch (const Error& error) {
    refuse_sent(error.what());
  }
  const std::size_t expected = sent.facts.expected.size();
  if (expected != 0 && expected != saved.files->size()) refuse_sent("they expect samples of other files");
  FileList files(context, saved.change_detection, saved.files, sent.facts);
  for (const auto& [signature, index] : saved.indices) files.kept().keep(signature, index);
  files.kept().set_format(saved.format);
  return {.files = std::move(files), .origin = std::move(saved.origin), .changes = std::move(sent.changes)};
}

}  // namespace rota::internal
