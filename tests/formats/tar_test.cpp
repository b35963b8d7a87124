#include "formats/python.hpp"

namespace rota::test::tar_test {

class Tar : public PythonTest {
 protected:
  Tar() : PythonTest("import tarfile\nfrom writers import add, write_tar as write\n") {}
  auto opening(const TarOptions& options = {}) const {
    return error_of([&] { open(directory_.path(), options); });
  }
};

// What Python's tarfile reads is what there is, whatever wrote it.
TEST_F(Tar, GivesWhatTarfileGivesInEveryFormat) {
  const auto told = write(R"(
random.seed(1)
for f, format in enumerate([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT]):
    long = '' if format == tarfile.USTAR_FORMAT else 'l' * 200 + '/' + 'm' * 90
    write(f'{f}.tar', [(f'{long}dir/{i:06}.{e}', random.randbytes(random.randrange(3000)))
                       for i in range(40) for e in ('jpg', 'cls', 'seg.png')], format)
    tar = tarfile.open(f'{f}.tar')
    members = tar.getmembers()
    for jpg, cls, png in zip(members[::3], members[1::3], members[2::3]):
        tell(*(tar.extractfile(member).read() for member in (cls, jpg, png)), jpg.name[:-4].encode())
)");
  const auto source = open(directory_.path(), TarOptions{.keys = true});
  EXPECT_THAT(field_names(*source), ElementsAre("cls", "jpg", "seg.png", "__key__"));
  ASSERT_EQ(source->size(), 120);
  expect_samples(*source, told);
}

TEST_F(Tar, IsKnownByWhatItIs) {
  write("write('a.dat', [('0.txt', b'zero')])");
  const auto source = open(directory_.path());
  EXPECT_THAT(field_names(*source), ElementsAre("txt"));
  EXPECT_EQ(contents(*source), Contents{{"zero"}});
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
    add(tar, 'd/link', type=tarfile.SYMTYPE, linkname='0.txt')
    add(tar, 'd/hard', type=tarfile.LNKTYPE, linkname='d/0.txt')
    add(tar, 'd/1.txt', b'one')
)");
  EXPECT_EQ(contents(*open(directory_.path(), "tar")), (Contents{{"zero"}, {"one"}}));
}

TEST_F(Tar, TakesExtensionsInLowerCase) {
  write("write('a.tar', [('0.JPG', b'0'), ('1.jpg', b'1')])");
  EXPECT_THAT(field_names(*open(directory_.path(), "tar")), ElementsAre("jpg"));
  EXPECT_EQ(contents(*open(directory_.path(), "tar")), (Contents{{"0"}, {"1"}}));
}

TEST_F(Tar, LeavesEmptyWhatASampleLacks) {
  write("write('a.tar', [('0.a', b'0a'), ('0.b', b''), ('1.b', b'1b'), ('2.a', b'2a')])");
  EXPECT_EQ(contents(*open(directory_.path(), "tar")), (Contents{{"0a", ""}, {"", "1b"}, {"2a", ""}}));
}

TEST_F(Tar, ReadsTheFieldsThatAreNamedInTheirOrder) {
  write("write('a.tar', [('0.a', b'A'), ('0.b', b'B'), ('0.c', b'C')])");
  const auto source = open(directory_.path(), TarOptions{.fields = {"c", "a"}});
  EXPECT_THAT(field_names(*source), ElementsAre("c", "a"));
  EXPECT_EQ(contents(*source), (Contents{{"C", "A"}}));
  EXPECT_ERROR(open(directory_.path(), TarOptions{.fields = {"c", "none"}}), invalid_argument,
               {"\"none\"", "a, b, c", "first dot"});
}

TEST_F(Tar, ReadsSeveralExtensionsAsOneField) {
  write(R"(
write('a.tar', [('0.jpg', b'J'), ('0.cls', b'0'), ('1.JPEG', b'E'), ('1.cls', b'1'), ('2.cls', b'2')])
write('b.tar', [('3.cls', b'3'), ('3.png', b'P'), ('3.txt', b'else')])
)");
  const TarOptions options{.fields = {{"image", {"jpg", "jpeg", "png", "gif"}}, "cls"}, .keys = true};
  const auto source = open(directory_.path(), options);
  EXPECT_THAT(field_names(*source), ElementsAre("image", "cls", "__key__"));
  EXPECT_EQ(contents(*source), (Contents{{"J", "0", "0"}, {"E", "1", "1"}, {"", "2", "2"}, {"P", "3", "3"}}));
  EXPECT_EQ(contents(*open(directory_.path(), TarOptions{.fields = {{"cls", {"jpg", "cls.gz", "png"}}}})),
            (Contents{{"J"}, {""}, {""}, {"P"}}));
}

TEST_F(Tar, RefusesASampleWithTwoExtensionsOfOneField) {
  write("write('a.tar', [('0.jpg', b''), ('1.JPG', b''), ('1.txt', b't'), ('1.png', b'P')])");
  EXPECT_THAT(opening({.fields = {{"image", {"png", "jpg"}}}}),
              is_error(corrupt, {at("a.tar"), "byte 2560", "sample \"1\"", "\"1.JPG\" and \"1.png\"",
                                 "the field \"image\"", "leave one out"}));
  EXPECT_EQ(open(directory_.path(), TarOptions{.fields = {{"image", {"txt", "jpeg"}}}})->size(), 2);
  EXPECT_THAT(opening({.fields = {{"image", {"gif", "jpeg"}}}}),
              is_error(invalid_argument, {"\"image\"", "for gif, jpeg", "jpg, png, txt"}));
}

// By what it was before there were such, and by the extensions of each field, however they are listed.
TEST_F(Tar, IsKnownByTheExtensionsOfItsFields) {
  write("write('a.tar', [('0.jpg', b'J'), ('1.png', b'P')])");
  const Catalog catalog(directory_.path());
  const auto of = [&](const std::vector<TarField>& fields) {
    return open(catalog, TarOptions{.fields = fields})->fingerprint();
  };
  FingerprintBuilder plain;
  plain.add("tar").add(to_string(catalog.fingerprint()));
  plain.add("jpg").add("uint8").add(std::span<const std::int64_t>()).add(1).add(2);
  EXPECT_EQ(of({"jpg"}), plain.finish());
  EXPECT_EQ(of({{"jpg", {"jpg"}}}), of({"jpg"}));
  EXPECT_NE(of({{"jpg", {"jpg", "png"}}}), of({"jpg"}));
  EXPECT_NE(of({{"jpg", {"png"}}}), of({"jpg"}));
  EXPECT_NE(of({{"jpg", {"jpg", "png"}}}), of({{"jpg", {"jpg", "gif"}}}));
  EXPECT_EQ(of({{"jpg", {"jpg", "png"}}}), of({{"jpg", {"png", "jpg"}}}));
  // What the catalog keeps of one is not taken for another.
  const TemporaryDirectory elsewhere;
  catalog.save(elsewhere / "saved");
  const Catalog saved(elsewhere / "saved");
  EXPECT_EQ(contents(*open(saved, TarOptions{.fields = {{"jpg", {"jpg", "png"}}}})),
            (Contents{{"J"}, {"P"}}));
  EXPECT_EQ(contents(*open(saved, TarOptions{.fields = {{"jpg", {"jpg", "gif"}}}})), (Contents{{"J"}, {""}}));
  EXPECT_EQ(contents(*open(saved, TarOptions{.fields = {"jpg"}})), (Contents{{"J"}, {""}}));
}

TEST_F(Tar, RefusesAnExtensionThatTheFirstFileHasNot) {
  write("write('a.tar', [('0.a', b'')])\nwrite('b.tar', [('0.a', b''), ('0.new', b'')])");
  EXPECT_THAT(opening(), is_error(invalid_argument, {at("b.tar"), "0.new", "the option fields"}));
  EXPECT_EQ(open(directory_.path(), TarOptions{.fields = {"a"}})->size(), 2);
}

TEST_F(Tar, RefusesArchivesThatAreDamagedOrOfNoSamples) {
  expect_refused(
      {Refused("write('a.tar', [('0.a', b''), ('0.a', b'')])", corrupt,
               {"a.tar", "byte 1024", "sample \"0\" has \"a\" twice"}),
       Refused("write('a.tar', [('0.a', b'A')])\nwrite('b.tar', [('1.a', b'B')])\n"
               "with open('a.tar', 'ab') as out: out.write(open('b.tar', 'rb').read())\nos.remove('b.tar')",
               corrupt, {"a.tar", "byte 10240", "another archive"}),
       Refused("write('a.tar', [('0.a', b'')])\nopen('b.tar', 'wb').close()", corrupt,
               {"b.tar", "byte 0", "no tar file"}),
       Refused("write('a.tar', [('README', b'')])", not_found, {"a.tar"})},
      [](const fs::path& path) { open(path, "tar"); });
}

TEST_F(Tar, RefusesMembersOfASampleThatDoNotStandTogetherAndLinks) {
  expect_refused({Refused("write('a.tar', [('0.a', b''), ('1.a', b''), ('0.b', b'')])", corrupt,
                          {"a.tar", "byte 1536", "\"0.b\"", "--sort=name"}),
                  Refused("with tarfile.open('a.tar', 'w') as tar:\n"
                          "    add(tar, '0.txt', b'zero')\n"
                          "    add(tar, '1.txt', type=tarfile.LNKTYPE, linkname='0.txt')\n",
                          unsupported, {"\"1.txt\" is a link", "--hard-dereference"}),
                  Refused("with tarfile.open('a.tar', 'w') as tar:\n"
                          "    add(tar, '1.txt', type=tarfile.SYMTYPE, linkname='0.txt')\n",
                          unsupported, {"\"1.txt\" is a link"})},
                 [](const fs::path& path) { open(path, "tar"); });
}

TEST_F(Tar, MayHaveAnyBytesInItsNames) {
  const std::vector<std::string> names = {"a b", "new\nline", "\xC3\xA9t\xC3\xA9", "not\xFF\xFEutf8", "*?["};
  write(R"(
for f, format in enumerate([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]):
    with tarfile.open(f'{f}.tar', 'w', format=format, encoding='utf-8', errors='surrogateescape') as tar:
        for name in [b'a b', b'new\nline', b'\xC3\xA9t\xC3\xA9', b'not\xFF\xFEutf8', b'*?[']:
            add(tar, (name + b'.x').decode('utf-8', 'surrogateescape'), name)
)");
  const Contents found = contents(*open(directory_.path(), TarOptions{.keys = true}));
  ASSERT_EQ(found.size(), 10);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_THAT(found[i], ElementsAre(names[i % 5], names[i % 5]));
}

// Of two samples of one block each, and what stands behind them.
class TarEnd : public Tar {
 protected:
  TarEnd() {
    preamble_ += R"(
def tar(*names):
    return b''.join(tarfile.TarInfo(name).tobuf() for name in names)
def put(behind):
    open('a.tar', 'wb').write(tar('0.a', '1.a') + behind)
label = tarfile.TarInfo('v')
label.type = b'V'
)";
  }
};

// Behind a head for all members, too.
TEST_F(TarEnd, ThatIsMissingIsCutShort) {
  std::vector<Refused> cases;
  for (const auto& [behind, place] :
       {std::pair{"b''", "byte 1024"},
        {"label.tobuf()", "byte "},
        {"tarfile.TarInfo.create_pax_global_header({'comment': 'x'})", "byte "}}) {
    cases.push_back(
        Refused(fmt::format("put({})", behind), corrupt,
                {"a.tar", place, "two blocks of zeros", "cut short", "the option allow_missing_end"}));
  }
  expect_refused(cases, [](const fs::path& path) {
    EXPECT_EQ(open(path, TarOptions{.allow_missing_end = true})->size(), 2);
    open(path, "tar");
  });
}

// What stands before it may be of no member, and be a head for all.
TEST_F(TarEnd, IsWhereGnuTarFindsIt) {
  for (const fs::path& path :
       write_each({"put(bytes(512))", "put(bytes(600))", "put(bytes(1024))", "put(bytes(10240))",
                   "put(bytes(1024) + b'garbage')", "put(label.tobuf() + bytes(1024))",
                   "put(tarfile.TarInfo.create_pax_global_header({'comment': 'x'}) + bytes(1024))"})) {
    EXPECT_EQ(open(path, "tar")->size(), 2) << path;
  }
}

// GNU tar warns of the lone block, or fails.
TEST_F(TarEnd, IsDamagedWhereItIsSomethingElse) {
  std::vector<Refused> cases;
  for (const char* end : {"bytes(511)", "bytes(512) + b'x'", "bytes(512) + tar('2.a') + bytes(1024)",
                          "bytes(1023) + b'x'", "b'garbage'", "tar('2.a')[:300]"}) {
    cases.push_back(Refused(fmt::format("put({})", end), corrupt, {"a.tar", "byte 1024"}));
  }
  expect_refused(cases, [](const fs::path& path) {
    EXPECT_ERROR(open(path, TarOptions{.allow_missing_end = true}), corrupt, {path / "a.tar", "byte 1024"});
    open(path, "tar");
  });
}

// One member was to follow the name that is longer than a head can hold.
TEST_F(Tar, CutBehindTheHeadOfALongNameIsDamaged) {
  write(R"(
long = tarfile.TarInfo('l' * 200 + '.a').tobuf(tarfile.GNU_FORMAT)
open('a.tar', 'wb').write(tarfile.TarInfo('0.a').tobuf() + long[:1024])
)");
  EXPECT_THAT(opening({.allow_missing_end = true}), is_error(corrupt, {at("a.tar"), "byte 1536", "damaged"}));
}

TEST_F(TarEnd, ThatIsMissingIsNotTakenFromACatalogThatAllowedIt) {
  write("put(b'')");
  const TemporaryDirectory elsewhere;
  const Catalog catalog(directory_.path());
  const auto source = open(catalog, TarOptions{.allow_missing_end = true});
  catalog.save(elsewhere / "saved");
  const Catalog saved(elsewhere / "saved");
  EXPECT_EQ(open(saved, TarOptions{.allow_missing_end = true})->fingerprint(), source->fingerprint());
  EXPECT_ERROR(open(saved, "tar"), corrupt, {at("a.tar")});
}

TEST_F(Tar, FieldsAreNamedOnceAndAsTheyAreRead) {
  write("write('a.tar', [('0.a', b''), ('0.__key__', b'')])");
  EXPECT_THAT(opening({.fields = {"a", "b", "a"}}),
              is_error(invalid_argument, {"the option fields", "\"a\"", "named twice"}));
  EXPECT_THAT(opening({.fields = {""}}), is_error(invalid_argument, {"no name"}));
  EXPECT_THAT(opening({.fields = {"JPG"}}), is_error(invalid_argument, {"\"JPG\"", "lower case"}));
  EXPECT_THAT(opening({.fields = {"__key__"}}), is_error(invalid_argument, {"the option keys"}));
  EXPECT_THAT(opening({.keys = true}), is_error(invalid_argument, {at("a.tar"), "__key__"}));
  EXPECT_THAT(opening({.fields = {{"x", {"a"}}, {"y", {"b", "a"}}}}),
              is_error(invalid_argument, {"the option fields", "\"a\"", "named twice"}));
  EXPECT_THAT(opening({.fields = {{"x", {"a", "b"}}, {"x", {"c", "d"}}}}),
              is_error(invalid_argument, {"\"x\"", "named twice"}));
  EXPECT_THAT(opening({.fields = {{"x", std::vector<std::string>()}}}),
              is_error(invalid_argument, {"\"x\" has no extensions", "at least one"}));
  EXPECT_THAT(opening({.fields = {{"b", {"a", "c"}}, {"x", {"b", "d"}}}}),
              is_error(invalid_argument, {"\"b\" is a field without", "call it otherwise"}));
  EXPECT_THAT(opening({.fields = {{"x", {"a", ""}}}}), is_error(invalid_argument, {"no name"}));
  EXPECT_THAT(opening({.fields = {{"Image", {"a", "B"}}}}),
              is_error(invalid_argument, {"\"B\"", "lower case"}));
  EXPECT_THAT(opening({.fields = {{"__key__", {"a", "b"}}}}),
              is_error(invalid_argument, {"the option keys"}));
}

TEST_F(Tar, WithAFlippedByteInAHeadIsDamaged) {
  write("write('a.tar', [('0.a', b'x' * 700), ('1.a', b'y')])");
  std::mt19937_64 random(1);
  const std::string bytes = read_file(directory_ / "a.tar");
  for (int i = 0; i < 200; ++i) {
    std::string damaged = bytes;
    damaged[1536 + random() % 512] ^= static_cast<char>(1U << random() % 8);
    directory_.write("a.tar", damaged);
    EXPECT_THAT(opening(), is_error(corrupt, {"byte"}));
  }
}

}  // namespace rota::test::tar_test
