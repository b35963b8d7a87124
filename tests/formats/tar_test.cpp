#include "formats/python.hpp"
#include "source/reading.hpp"
#include "test.hpp"

namespace rota::test::tar_test {

constexpr std::string_view kWriter = R"(
import tarfile
def add(tar, name, data=b'', **more):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in more.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))
def write(name, members, format=tarfile.GNU_FORMAT, **options):
    with tarfile.open(name, 'w', format=format, **options) as tar:
        for member, data in members:
            add(tar, member, data)
)";

std::vector<std::string> field_names(const Source& source) {
  std::vector<std::string> names;
  for (const Field& field : source.fields()) names.push_back(field.name);
  return names;
}

class Tar : public testing::Test {
 protected:
  auto write(const std::string& script) { return python(directory_, std::string(kWriter) + script); }
  [[nodiscard]] std::string at(std::string_view name) const { return (directory_ / name).string(); }
  static std::string only(const Source& source, std::int64_t id, std::size_t field = 0) {
    return Samples(source, ids({id})).sample(field, 0);
  }

  TemporaryDirectory directory_;
};

// What Python's tarfile reads is what there is, whatever wrote it.
TEST_F(Tar, GivesWhatTarfileGivesInEveryFormat) {
  const auto parts = write(R"(
random.seed(1)
for f, format in enumerate([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT]):
    long = '' if format == tarfile.USTAR_FORMAT else 'l' * 200 + '/' + 'm' * 90
    write(f'{f}.tar', [(f'{long}dir/{i:06}.{e}', random.randbytes(random.randrange(3000)))
                       for i in range(40) for e in ('jpg', 'cls', 'seg.png')], format)
    for member in tarfile.open(f'{f}.tar'):
        stem, _, extension = os.path.basename(member.name).partition('.')
        data = tarfile.open(f'{f}.tar').extractfile(member).read()
        tell(extension.encode(), os.path.join(os.path.dirname(member.name), stem).encode(), data)
)");
  const auto source = open_tar(directory_.path(), {.keys = true});
  EXPECT_THAT(field_names(*source), ElementsAre("cls", "jpg", "seg.png", "__key__"));
  ASSERT_EQ(source->size(), 120);
  const Samples samples(*source, all_ids(*source));
  ASSERT_EQ(parts.size(), 3U * 360);
  const std::map<std::string, std::size_t> number = {{"cls", 0}, {"jpg", 1}, {"seg.png", 2}};
  for (std::size_t i = 0; i < 360; ++i) {
    EXPECT_EQ(samples.sample(number.at(parts[3 * i]), i / 3), parts[3 * i + 2]);
    EXPECT_EQ(samples.sample(3, i / 3), parts[3 * i + 1]);
  }
}

TEST_F(Tar, IsKnownByWhatItIs) {
  write("write('a.dat', [('0.txt', b'zero')])");
  const auto source = open(directory_.path());
  EXPECT_THAT(field_names(*source), ElementsAre("txt"));
  EXPECT_EQ(only(*source, 0), "zero");
  EXPECT_EQ(source->where({0}), at("a.dat") + ", record 0 at byte 512, \"0\"");
}

TEST_F(Tar, PassesOverWhatIsOfNoSample) {
  write(R"(
with tarfile.open('a.tar', 'w') as tar:
    add(tar, 'd', type=tarfile.DIRTYPE)
    add(tar, 'README', b'no dot')
    add(tar, '.hidden.txt', b'hidden')
    add(tar, '__meta.json__', b'{}')
    add(tar, 'd/0.txt', b'zero')
    add(tar, 'd/link.txt', type=tarfile.SYMTYPE, linkname='0.txt')
    add(tar, 'd/hard.txt', type=tarfile.LNKTYPE, linkname='d/0.txt')
    add(tar, 'd/1.txt', b'one')
)");
  const auto source = open_tar(directory_.path());
  ASSERT_EQ(source->size(), 2);
  EXPECT_EQ(only(*source, 1), "one");
}

TEST_F(Tar, TakesExtensionsInLowerCase) {
  write("write('a.tar', [('0.JPG', b'0'), ('1.jpg', b'1')])");
  const auto source = open_tar(directory_.path());
  EXPECT_THAT(field_names(*source), ElementsAre("jpg"));
  EXPECT_EQ(only(*source, 0) + only(*source, 1), "01");
}

TEST_F(Tar, LeavesEmptyWhatASampleLacks) {
  write("write('a.tar', [('0.a', b'0a'), ('0.b', b''), ('1.b', b'1b'), ('2.a', b'2a')])");
  const auto source = open_tar(directory_.path());
  const Samples samples(*source, all_ids(*source));
  EXPECT_THAT((std::vector{samples.sample(0, 0), samples.sample(0, 1), samples.sample(0, 2)}),
              ElementsAre("0a", "", "2a"));
  EXPECT_THAT((std::vector{samples.sample(1, 0), samples.sample(1, 1), samples.sample(1, 2)}),
              ElementsAre("", "1b", ""));
}

TEST_F(Tar, ReadsTheFieldsThatAreNamedInTheirOrder) {
  write("write('a.tar', [('0.a', b'A'), ('0.b', b'B'), ('0.c', b'C')])");
  const auto source = open_tar(directory_.path(), {.fields = {"c", "a", "none"}});
  EXPECT_THAT(field_names(*source), ElementsAre("c", "a", "none"));
  EXPECT_EQ(only(*source, 0, 0) + only(*source, 0, 1) + only(*source, 0, 2), "CA");
}

TEST_F(Tar, RefusesAnExtensionThatTheFirstFileHasNot) {
  write("write('a.tar', [('0.a', b'')])\nwrite('b.tar', [('0.a', b''), ('0.new', b'')])");
  EXPECT_THAT(error_of([&] { open_tar(directory_.path()); }),
              is_error(ErrorCode::invalid_argument, {at("b.tar"), "0.new", "TarOptions::fields"}));
  EXPECT_EQ(open_tar(directory_.path(), {.fields = {"a"}})->size(), 2);
}

TEST_F(Tar, RefusesAnExtensionTwiceInASample) {
  write("write('a.tar', [('0.a', b''), ('0.a', b'')])");
  EXPECT_THAT(error_of([&] { open_tar(directory_.path()); }),
              is_error(ErrorCode::corrupt, {at("a.tar"), "byte 1024", "sample \"0\" has \"a\" twice"}));
}

TEST_F(Tar, RefusesAnArchiveBehindTheEndOfAnother) {
  write(R"(
write('a.tar', [('0.a', b'A')])
write('b.tar', [('1.a', b'B')])
with open('a.tar', 'ab') as out: out.write(open('b.tar', 'rb').read())
os.remove('b.tar')
)");
  EXPECT_THAT(error_of([&] { open_tar(directory_.path()); }),
              is_error(ErrorCode::corrupt, {at("a.tar"), "byte 10240", "another archive"}));
}

TEST_F(Tar, TakesAKeyThatComesBackForAnotherSample) {
  write("write('a.tar', [('0.a', b'first'), ('1.a', b'second'), ('0.a', b'third')])");
  const auto source = open_tar(directory_.path());
  ASSERT_EQ(source->size(), 3);
  EXPECT_EQ(only(*source, 0) + only(*source, 1) + only(*source, 2), "firstsecondthird");
}

TEST_F(Tar, MayHaveAnyBytesInItsNames) {
  const std::vector<std::string> names = {"a b", "new\nline", "\xC3\xA9t\xC3\xA9", "not\xFF\xFEutf8", "*?["};
  write(R"(
for f, format in enumerate([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]):
    with tarfile.open(f'{f}.tar', 'w', format=format, encoding='utf-8', errors='surrogateescape') as tar:
        for name in [b'a b', b'new\nline', b'\xC3\xA9t\xC3\xA9', b'not\xFF\xFEutf8', b'*?[']:
            add(tar, (name + b'.x').decode('utf-8', 'surrogateescape'), name)
)");
  const auto source = open_tar(directory_.path(), {.keys = true});
  ASSERT_EQ(source->size(), 10);
  const Samples samples(*source, all_ids(*source));
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(samples.sample(0, i), names[i % 5]);
    EXPECT_EQ(samples.sample(1, i), names[i % 5]);
  }
}

TEST_F(Tar, RefusesOneThatIsCompressedInOtherWaysOrSparse) {
  for (const std::string packing : {"bz2", "xz"}) {
    write(fmt::format("import tarfile as t\nt.open('a.tar.{0}', 'w:{0}').close()", packing));
    EXPECT_THAT(error_of([&] { open_tar(directory_.path()); }),
                is_error(ErrorCode::unsupported, {at("a.tar." + packing), "compressed (", "unpack it"}));
    fs::remove(directory_ / ("a.tar." + packing));
  }
}

// Of two samples of one block each, and what stands behind them.
constexpr const char* kBehind = R"(
def tar(*names):
    return b''.join(tarfile.TarInfo(name).tobuf() for name in names)
def put(behind):
    open('a.tar', 'wb').write(tar('0.a', '1.a') + behind)
)";

TEST_F(Tar, WithoutItsEndIsCutShort) {
  write(std::string(kBehind) + "put(b'')");
  EXPECT_THAT(error_of([&] { open_tar(directory_.path()); }),
              is_error(ErrorCode::corrupt, {at("a.tar"), "byte 1024", "two blocks of zeros", "cut short",
                                            "TarOptions::allow_missing_end"}));
  EXPECT_EQ(open_tar(directory_.path(), {.allow_missing_end = true})->size(), 2);
}

TEST_F(Tar, EndsWhereGnuTarFindsItsEnd) {
  for (const char* end :
       {"bytes(512)", "bytes(600)", "bytes(1024)", "bytes(10240)", "bytes(1024) + b'garbage'"}) {
    write(kBehind + fmt::format("put({})", end));
    EXPECT_EQ(open_tar(directory_.path())->size(), 2) << end;
  }
}

// GNU tar warns of the lone block, or fails.
TEST_F(Tar, WithSomethingElseForAnEndIsDamaged) {
  for (const char* end : {"bytes(511)", "bytes(512) + b'x'", "bytes(512) + tar('2.a') + bytes(1024)",
                          "bytes(1023) + b'x'", "b'garbage'", "tar('2.a')[:300]"}) {
    write(kBehind + fmt::format("put({})", end));
    for (const bool allow_missing_end : {false, true}) {
      EXPECT_THAT(error_of([&] { open_tar(directory_.path(), {.allow_missing_end = allow_missing_end}); }),
                  is_error(ErrorCode::corrupt, {at("a.tar"), "byte 1024"}))
          << end;
    }
  }
}

// What stands before the end, and is of no member.
TEST_F(Tar, MayHaveAHeadForAllMembersBeforeItsEnd) {
  for (const char* head : {"tarfile.TarInfo.create_pax_global_header({'comment': 'x'})", "label.tobuf()"}) {
    write(kBehind +
          fmt::format("label = tarfile.TarInfo('v')\nlabel.type = b'V'\nput({} + bytes(1024))", head));
    EXPECT_EQ(open_tar(directory_.path())->size(), 2) << head;
    write(kBehind + fmt::format("label = tarfile.TarInfo('v')\nlabel.type = b'V'\nput({})", head));
    EXPECT_THAT(error_of([&] { open_tar(directory_.path()); }),
                is_error(ErrorCode::corrupt, {at("a.tar"), "two blocks of zeros"}));
  }
}

// One member was to follow the name that is longer than a head can hold.
TEST_F(Tar, CutBehindTheHeadOfALongNameIsDamaged) {
  write(R"(
long = tarfile.TarInfo('l' * 200 + '.a').tobuf(tarfile.GNU_FORMAT)
open('a.tar', 'wb').write(tarfile.TarInfo('0.a').tobuf() + long[:1024])
)");
  EXPECT_THAT(error_of([&] { open_tar(directory_.path(), {.allow_missing_end = true}); }),
              is_error(ErrorCode::corrupt, {at("a.tar"), "byte 1536", "damaged"}));
}

TEST_F(Tar, WithoutItsEndIsNotTakenFromACatalogThatAllowedIt) {
  write(std::string(kBehind) + "put(b'')");
  const TemporaryDirectory elsewhere;
  const Catalog catalog(directory_.path());
  const auto source = open_tar(catalog, {.allow_missing_end = true});
  catalog.save(elsewhere / "saved");
  const Catalog saved(elsewhere / "saved");
  EXPECT_EQ(open_tar(saved, {.allow_missing_end = true})->fingerprint(), source->fingerprint());
  EXPECT_THAT(error_of([&] { open_tar(saved); }), is_error(ErrorCode::corrupt, {at("a.tar")}));
}

TEST_F(Tar, FieldsAreNamedOnceAndAsTheyAreRead) {
  write("write('a.tar', [('0.a', b''), ('0.__key__', b'')])");
  const auto refused = [&](const TarOptions& options) {
    return error_of([&] { open_tar(directory_.path(), options); });
  };
  EXPECT_THAT(refused({.fields = {"a", "b", "a"}}),
              is_error(ErrorCode::invalid_argument, {"TarOptions::fields", "\"a\"", "named twice"}));
  EXPECT_THAT(refused({.fields = {""}}), is_error(ErrorCode::invalid_argument, {"no name"}));
  EXPECT_THAT(refused({.fields = {"JPG"}}), is_error(ErrorCode::invalid_argument, {"\"JPG\"", "lower case"}));
  EXPECT_THAT(refused({.fields = {"__key__"}}), is_error(ErrorCode::invalid_argument, {"TarOptions::keys"}));
  EXPECT_THAT(refused({.keys = true}), is_error(ErrorCode::invalid_argument, {at("a.tar"), "__key__"}));
}

TEST_F(Tar, WithAFlippedByteInAHeadIsDamaged) {
  write("write('a.tar', [('0.a', b'x' * 700), ('1.a', b'y')])");
  std::mt19937_64 random(1);
  std::string bytes(10'240, '\0');
  std::ifstream(directory_ / "a.tar", std::ios::binary).read(bytes.data(), std::ssize(bytes));
  for (int i = 0; i < 200; ++i) {
    std::string damaged = bytes;
    damaged[1536 + random() % 512] ^= static_cast<char>(1U << random() % 8);
    directory_.write("a.tar", damaged);
    EXPECT_THAT(error_of([&] { open_tar(directory_.path()); }), is_error(ErrorCode::corrupt, {"byte"}));
  }
}

TEST_F(Tar, WithoutAnyBytesIsDamagedAndNotWithoutSamples) {
  write("write('a.tar', [('0.a', b'')])\nopen('b.tar', 'wb').close()");
  EXPECT_THAT(error_of([&] { open_tar(directory_.path()); }),
              is_error(ErrorCode::corrupt, {at("b.tar"), "byte 0", "no tar file"}));
}

TEST_F(Tar, WithAPaxRecordThatIsNoneIsDamaged) {
  for (const auto* record : {"31 path=a.x\\n", "x path=a.x\\n", "999999999999 path=a.x\\n", "12 path=a.xx"}) {
    write(fmt::format(R"(
file = tarfile.TarInfo('0.a').tobuf()
info = tarfile.TarInfo('header')
info.size, info.type = len(b'{0}'), tarfile.XHDTYPE
open('a.tar', 'wb').write(info.tobuf() + b'{0}'.ljust(512, b'\0') + file + bytes(1024))
)",
                      record));
    EXPECT_THAT(error_of([&] { open_tar(directory_.path()); }),
                is_error(ErrorCode::corrupt, {at("a.tar"), "byte"}))
        << record;
  }
}

TEST_F(Tar, OfNoSamplesIsNotFound) {
  write("write('a.tar', [('README', b'')])");
  EXPECT_THAT(error_of([&] { open_tar(directory_.path()); }), is_error(ErrorCode::not_found, {at("a.tar")}));
}

}  // namespace rota::test::tar_test
