// Catalogs as bytes, for processes that do not list.

#include "source/reading.hpp"

namespace rota::test::sent_test {

class SentCatalogs : public Test {
 protected:
  SentCatalogs() {
    for (int i = 0; i < 50; ++i) directory_.write(name(i), std::string(static_cast<std::size_t>(i + 1), 'x'));
  }
  static std::string name(int i) { return fmt::format("data/{:03}.jsonl", i); }
  std::string data() const { return (directory_ / "data").string(); }

  /// One of each kind.
  std::vector<Catalog> all_kinds() const {
    directory_.write("list", R"({"path": "data/007.jsonl", "samples": 1})"
                             "\n{\"path\": \"data/001.jsonl\", \"samples\": 1}\n");
    const Catalog with_index(data());
    (void)open(with_index);
    return {with_index,
            Catalog(data(), {.change_detection = ChangeDetection::by_name}),
            Catalog(data() + "/*1.jsonl"),
            Catalog(data() + "/007.jsonl"),
            Catalog::from_manifest(directory_ / "list"),
            Catalog::from_pattern(data() + "/{index:03}.jsonl", {.files = 50})};
  }

  TemporaryDirectory directory_;
};

TEST_F(SentCatalogs, AreTheSame) {
  for (const Catalog& catalog : all_kinds()) {
    SCOPED_TRACE(catalog.origin());
    const Catalog sent = Catalog::deserialize(catalog.serialize());
    ASSERT_EQ(sent.size(), catalog.size());
    EXPECT_EQ(sent.fingerprint(), catalog.fingerprint());
    EXPECT_EQ(sent.origin(), catalog.origin());
    EXPECT_EQ(sent.change_detection(), catalog.change_detection());
    for (std::int64_t i = 0; i < catalog.size(); ++i) {
      EXPECT_EQ(sent.path(i), catalog.path(i));
      if (catalog.change_detection() == ChangeDetection::by_name) continue;
      EXPECT_EQ(sent.bytes(i), catalog.bytes(i));
    }
    EXPECT_EQ(find_format(sent), find_format(catalog));
    EXPECT_EQ(open(sent)->fingerprint(), open(catalog)->fingerprint());
    EXPECT_EQ(Catalog::deserialize(sent.serialize()).serialize(), catalog.serialize());
  }
}

TEST_F(SentCatalogs, ListNoFilesAgain) {
  std::vector<Catalog> catalogs = all_kinds();
  std::vector<std::string> bytes;
  for (const Catalog& catalog : catalogs) bytes.push_back(catalog.serialize());
  for (int i = 0; i < 50; ++i) fs::remove(directory_ / name(i));
  std::int64_t calls = 0;
  for (std::size_t k = 0; k < bytes.size(); ++k) {
    const Catalog sent = Catalog::deserialize(bytes[k], {.progress = [&](const Progress&) { ++calls; }});
    EXPECT_EQ(sent.fingerprint(), catalogs[k].fingerprint());
  }
  EXPECT_EQ(calls, 0);
}

TEST_F(SentCatalogs, LookIntoNoFilesThatWereLookedInto) {
  std::int64_t indexed = 0;
  const CatalogOptions counting{.progress = [&](const Progress& at) {
    if (at.is_over && at.task == "index files") indexed += at.done;
  }};
  const Catalog catalog(data());
  (void)open(Catalog::deserialize(catalog.serialize(), counting), "lines");
  EXPECT_EQ(indexed, 50);
  (void)open(catalog, "lines");
  (void)open(Catalog::deserialize(catalog.serialize(), counting), "lines");
  EXPECT_EQ(indexed, 50);
}

TEST_F(SentCatalogs, AreOfFilesWhereTheyLayForWhoeverReads) {
  const fs::path here = fs::current_path();
  fs::current_path(directory_ / "data");
  const std::string bytes = Catalog(".").serialize();
  const std::string of_a_file = Catalog("007.jsonl").serialize();
  fs::current_path(here);
  EXPECT_EQ(open(Catalog::deserialize(bytes), "files")->size(), 50);
  EXPECT_EQ(Catalog::deserialize(of_a_file).path(0), data() + "/007.jsonl");
}

TEST_F(SentCatalogs, ExpectTheSamplesOfTheirManifest) {
  directory_.write("list", R"({"path": "data/007.jsonl", "samples": 2})");
  const Catalog sent = Catalog::deserialize(Catalog::from_manifest(directory_ / "list").serialize());
  EXPECT_TRUE(error_of([&] { (void)open(sent, "lines"); }).has_value());
}

TEST_F(SentCatalogs, TellTheChangesSinceTheyWereSaved) {
  const std::string saved = (directory_ / "catalog.rota").string();
  Catalog(data()).save(saved);
  directory_.write("data/new.jsonl", "");
  const Catalog sent = Catalog::deserialize(Catalog(saved).serialize());
  EXPECT_EQ(sent.changes().appeared, 1);
  EXPECT_EQ(sent.changes().first, "new.jsonl");
}

TEST_F(SentCatalogs, TakeTheOptionsOfWhoeverReadsButForTheDetectionOfChanges) {
  const std::string bytes = Catalog(data()).serialize();
  EXPECT_EQ(Catalog::deserialize(bytes, {.change_detection = ChangeDetection::by_name}).change_detection(),
            ChangeDetection::by_size);
  EXPECT_ERROR(Catalog::deserialize(bytes, {.max_open_files = 0}), invalid_argument, {"max_open_files"});
}

TEST_F(SentCatalogs, NeedTheirDirectory) {
  const std::string bytes = Catalog(data()).serialize();
  fs::rename(directory_ / "data", directory_ / "elsewhere");
  EXPECT_ERROR(Catalog::deserialize(bytes), not_found, {data()});
}

TEST_F(SentCatalogs, AreRefusedWhereAnyByteIsAnother) {
  std::mt19937_64 random(3);
  for (const Catalog& catalog : all_kinds()) {
    const std::string bytes = catalog.serialize();
    for (std::size_t at = 0; at < bytes.size(); at += 1 + random() % 5) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1 + random() % 255));
      EXPECT_ERROR(Catalog::deserialize(damaged), corrupt, {"make a catalog of bytes", "serialize()"})
          << "byte " << at << " of " << bytes.size();
    }
  }
}

TEST_F(SentCatalogs, AreRefusedWhereBytesAreMissingOrMore) {
  const std::string bytes = Catalog(data()).serialize();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_ERROR(Catalog::deserialize(std::string_view(bytes).substr(0, size)), corrupt);
  }
  EXPECT_ERROR(Catalog::deserialize(bytes + "x"), corrupt);
  EXPECT_ERROR(Catalog::deserialize("data"), corrupt, {"do not begin"});
}

}  // namespace rota::test::sent_test
