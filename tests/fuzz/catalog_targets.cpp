// What reads lists, names and saved catalogs, and what servers answer.

#include <xxhash.h>

#include "catalog/files.hpp"
#include "catalog/list_files.hpp"
#include "catalog/name_pattern.hpp"
#include "catalog/name_table.hpp"
#include "catalog/saved.hpp"
#include "fuzz/target.hpp"
#include "remote/credentials.hpp"
#include "remote/s3_server.hpp"
#include "remote/server.hpp"

namespace rota::test::catalog_targets {

// Lines of paths or of JSON.
const bool kManifest = add_file_target(
    "manifest",
    [] {
      return Seeds{"a\nb/c.txt\r\n\n/d",
                   "{\"path\": \"a\", \"samples\": 3}\n{\"path\": \"b\", \"x\": [1, {}]}\n",
                   "s3://bucket/a\ns3://bucket/b\n"};
    },
    [](Bytes input) {
      const auto path = write_file("list", input);
      succeeds({invalid_argument, not_found}, [&] {
        std::size_t names = 0;
        const auto add = [&](std::string_view directory, std::string_view name) {
          EXPECT_TRUE(directory.empty() && !name.empty() && name.find('\0') == name.npos);
          ++names;
        };
        const auto samples = list_manifest(path.native(), {}, add).samples;
        EXPECT_TRUE(samples.empty() || samples.size() == names);
      });
    });

// Tables of file names.
const bool kNames = add_target(
    "names",
    [] {
      Seeds seeds;
      for (const int count : {0, 3, 1500}) {
        NameTableBuilder builder;
        for (int i = 0; i < count; ++i) builder.add("d/", fmt::format("name-{}", i * i));
        seeds.push_back(to_text(builder.finish().bytes()));
      }
      return seeds;
    },
    [](Bytes input) {
      constexpr std::size_t kMost = 5000;
      succeeds({corrupt}, [&] {
        const NameTable table(input, nullptr);
        NameReader reader(table);
        for (std::size_t i = 0; i < std::min(table.size(), kMost); ++i) {
          const std::string in_order = reader[i];
          if (i % 97 == 0) {
            EXPECT_EQ(table[i], in_order);
          }
        }
      });
    });

// Patterns, and names that they make.
const bool kPattern = add_target(
    "pattern",
    [] {
      return Seeds{"train/{folder+1:02}/img_{index:08}_of_{total}.npz", "{{a}}/{index}", "no field at all"};
    },
    [](Bytes input) {
      succeeds({invalid_argument}, [&] {
        const NamePattern pattern(to_text(input));
        EXPECT_GE(pattern.total_in(pattern.name({.total = 3})), 0);
        pattern.require_names();
        EXPECT_TRUE(pattern.has(&NameNumbers::index));
      });
    });

// A catalog of some files in which one format has found something.
Catalog some_files(int files) {
  for (int i = 0; i < files; ++i) directory().write("data/" + std::to_string(i), "a\nb\n");
  Catalog catalog(directory() / "data");
  static_cast<void>(open(catalog, "lines"));
  return catalog;
}

std::string saved(int files) {
  const auto path = directory() / "saved";
  some_files(files).save(path);
  return read_file(path);
}

// Saved catalogs, whose checksum is made right.
const bool kSaved = add_file_target(
    "saved",
    [] {
      return Seeds{saved(1), saved(40)};
    },
    [](Bytes input) {
      constexpr std::size_t kBytesAt = 16;
      constexpr std::size_t kDigestAt = 32;
      constexpr std::size_t kContentAt = 48;
      if (input.size() < kContentAt) return;
      std::vector<std::byte> bytes(input.begin(), input.end());
      const std::uint64_t content = input.size() - kContentAt;
      const XXH128_hash_t digest = XXH3_128bits(bytes.data() + kContentAt, content);
      const std::array words = {digest.high64, digest.low64};
      std::memcpy(bytes.data() + kBytesAt, &content, sizeof(content));
      std::memcpy(bytes.data() + kDigestAt, words.data(), sizeof(words));
      const auto path = write_file("fuzzed", bytes);
      succeeds({corrupt, unsupported}, [&] {
        const SavedCatalog catalog = read_catalog(path.native(), {});
        EXPECT_FALSE(compare(*catalog.files, *catalog.files).any());
        for (const auto& [signature, index] : catalog.kept.indices) {
          for (std::size_t i = 0; i < index->files().size(); ++i) static_cast<void>((*index)[i]);
        }
      });
    });

std::string computed() {
  for (int i = 0; i < 6; ++i) directory().write(fmt::format("folder{}/{}", i % 2, i / 2), "a");
  const auto pattern = directory() / "folder{folder}" / "{index}";
  return Catalog::from_pattern(pattern.native(), {.files = 6, .folders = 2, .layout = FolderLayout::restart})
      .serialize();
}

// Catalogs as they are sent, whose checksum is made right. What is saved in them has a checksum of its own.
const bool kSent = add_target(
    "sent",
    [] {
      return Seeds{some_files(1).serialize(), some_files(40).serialize(), computed()};
    },
    [](Bytes input) {
      constexpr std::size_t kDigestAt = 16;
      constexpr std::size_t kDigestEnd = kDigestAt + sizeof(Fingerprint);
      if (input.size() < kDigestEnd) return;
      std::string bytes = to_text(input);
      const Fingerprint digest =
          FingerprintBuilder().add(std::string_view(bytes).substr(kDigestEnd)).finish();
      std::memcpy(bytes.data() + kDigestAt, &digest, sizeof(digest));
      // The directory in the bytes is opened: a mutant's may not be there.
      succeeds({corrupt, unsupported, not_found, io}, [&] {
        const Catalog catalog = Catalog::deserialize(bytes);
        for (std::int64_t i = 0; i < std::min<std::int64_t>(catalog.size(), 100); ++i) {
          static_cast<void>(catalog.path(i));
        }
        static_cast<void>(catalog.path(catalog.size() - 1));
        const Catalog again = Catalog::deserialize(catalog.serialize());
        EXPECT_TRUE(again.size() == catalog.size() && again.fingerprint() == catalog.fingerprint());
      });
    });

const char* const kPage =
    "l<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
    "<NextContinuationToken>t</NextContinuationToken><Contents><Key>a%20b</Key><Size>3</Size>"
    "<ETag>&quot;x-1&quot;</ETag></Contents></ListBucketResult>";
const char* const kKeys =
    "j{\"AccessKeyId\": \"a\", \"SecretAccessKey\": \"b\", \"Token\": \"c\", "
    "\"Expiration\": \"2030-01-02T03:04:05Z\"}";
const char* const kIdentity =
    "x<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>a"
    "</AccessKeyId><SecretAccessKey>b</SecretAccessKey></Credentials></AssumeRoleWithWebIdentityResult>"
    "</AssumeRoleWithWebIdentityResponse>";

void look_at_page(std::string_view text) {
  std::string trouble;
  const auto page = parse_page(text, "bucket", "token", trouble);
  for (const auto& file : page.files) EXPECT_TRUE(file.name.starts_with("bucket/"));
  EXPECT_TRUE(page.next != "token" && (trouble.empty() || page.files.empty()));
}

// What servers answer, and files of credentials. The first letter says what it is.
const bool kRemote = add_target(
    "remote",
    [] {
      return Seeds{kPage,
                   kKeys,
                   kIdentity,
                   "l<Error><Code>SlowDown</Code></Error>",
                   "hbytes 0-9/100",
                   "hbytes 0-9/*",
                   "p[default]\naws_access_key_id = a\n[profile b]\n# no\nregion=c\n s3 =\n  x = y\n"};
    },
    [](Bytes input) {
      if (input.empty()) return;
      const std::string text = to_text(input.subspan(1));
      const char kind = static_cast<char>(input[0]);
      if (kind == 'l') {
        look_at_page(text);
      } else if (kind == 'h') {
        const auto range = parse_content_range(text);
        EXPECT_TRUE(!range || range->begin < range->end);
      } else if (kind == 'p') {
        for (const auto& [name, section] : parse_profiles(text)) EXPECT_EQ(name.find('\n'), name.npos);
      } else {
        succeeds({io}, [&] {
          const auto found = kind == 'j' ? parse_credentials(text, "ask") : parse_identity(text, "ask");
          EXPECT_FALSE(found.access_key.empty() || found.secret_key.empty());
        });
      }
    });

}  // namespace rota::test::catalog_targets
