// A state knows what its dataset holds, and not by names and sizes alone.

#include "source/content.hpp"
#include "formats/python.hpp"
#include "source/told_source.hpp"

namespace rota::test::content_test {

Loader loader_of(std::shared_ptr<const Source> source, World world = {}) {
  return Loader(std::move(source), {.global_batch_size = 5, .workers = 0}, world);
}

std::string state_of(const std::shared_ptr<const Source>& source, World world = {}) {
  return state(loader_of(source, world));
}

void go_on(const std::shared_ptr<const Source>& source, const std::string& from, World world = {}) {
  Loader loader = loader_of(source, world);
  restore(loader, from);
}

/// Flips a bit of each of these bytes that is in a file under `directory`.
int change_in_place(const fs::path& directory, const std::string& sought) {
  int changed = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const auto at = read_file(entry.path()).rfind(sought);
    if (at == std::string::npos) continue;
    flip(entry.path(), at);
    ++changed;
  }
  return changed;
}

class ContentOf : public TestWithParam<const char*> {
 protected:
  std::shared_ptr<const Source> open_data(const fs::path& data) const {
    return GetParam() == std::string("tar") ? open(data, TarOptions{.fields = {"jpg"}})
                                            : open(data, GetParam());
  }
  TemporaryDirectory directory_;
};

TEST_P(ContentOf, IsKnownWhereverItLiesAndWhateverIsMadeOfIt) {
  write_dataset(directory_, GetParam());
  const auto source = open_data(directory_.path());
  const auto all = contents(*source);
  const auto whole = state_of(source);
  const auto part = state_of(split(source, {0.5, 0.5}, 1)[0]);
  const auto joined = state_of(join({source, source}));
  EXPECT_THAT(whole, HasSubstr("\"content\":["));
  const TemporaryDirectory copy;
  fs::copy(directory_.path(), copy.path(), fs::copy_options::recursive);
  EXPECT_NO_THROW(go_on(open_data(copy.path()), whole));

  std::string sought = all.back().back().substr(0, 64);  // which is looked at
  if (GetParam() == std::string("mds")) sought = "\u00e9\u00e9";
  if (GetParam() == std::string("megatron")) sought = all[42].back();
  ASSERT_THAT(change_in_place(copy.path(), sought), Gt(0));
  const auto changed = open_data(copy.path());
  const auto refused = is_error(mismatch, {"content", copy.path().string(), "has changed"});
  EXPECT_THAT(error_of([&] { go_on(changed, whole); }), refused);
  EXPECT_THAT(error_of([&] { go_on(split(changed, {0.5, 0.5}, 1)[0], part); }), refused);
  EXPECT_THAT(error_of([&] { go_on(join({source, changed}), joined); }), refused);
}
INSTANTIATE_TEST_SUITE_P(Formats, ContentOf,
                         Values("files", "hdf5", "lines", "mds", "megatron", "npy", "tar", "tokens"),
                         [](const auto& one) { return std::string(one.param); });

class Content : public Test {
 protected:
  void write(char content, int files = 100) {
    for (int i = 0; i < files; ++i) directory_.write(fmt::format("data/{:03}", i), std::string(9, content));
  }
  std::shared_ptr<const Source> open_data() const { return open(directory_ / "data", "files"); }
  TemporaryDirectory directory_;
};

TEST_F(Content, IsTheSameInTheStatesOfAllRanks) {
  write('a');
  const std::string first = state_of(open_data(), {0, 2});
  EXPECT_EQ(state_of(open_data(), {1, 2}), first);
  write('b');
  for (const int rank : {0, 1}) EXPECT_ERROR(go_on(open_data(), first, {rank, 3}), mismatch, {"content"});
}

TEST_F(Content, OfFilesIsThatOfTheirBytes) {
  write('a');
  EXPECT_NO_THROW(go_on(open(directory_ / "data", FilesOptions{.keys = true}), state_of(open_data())));
}

TEST_F(Content, OfACheckpointIsCompared) {
  write('a');
  CheckpointDirectory checkpoints({}, directory_ / "checkpoints");
  checkpoints.save_all(1, loader_of(open_data()));
  write('b');
  Loader loader = loader_of(open_data());
  EXPECT_ERROR(checkpoints.restore_all(loader), mismatch, {"content", "checkpoint-000000000000.h5"});
}

TEST_F(Content, TheSameUnderOtherNamesIsRefusedInOtherWords) {
  write('a');
  const std::string before = state_of(open_data());
  fs::rename(directory_ / "data/007", directory_ / "data/0070");
  EXPECT_ERROR(go_on(open_data(), before), mismatch, {"the files hold the same"});
  write('b');
  fs::remove(directory_ / "data/007");
  EXPECT_ERROR(go_on(open_data(), before), mismatch, {"100 samples with fingerprint"});
}

TEST_F(Content, OfWhatCannotBeReadDoesNotCount) {
  write('a');
  const auto open_by_name = [&] {
    return open(Catalog(directory_ / "data", {.change_detection = ChangeDetection::by_name}), "files");
  };
  const auto source = open_by_name();
  fs::remove(directory_ / "data/000");
  const std::string before = state_of(source);
  directory_.write("data/000", "anything");
  EXPECT_NO_THROW(go_on(open_by_name(), before));
  directory_.write("data/099", "another");
  EXPECT_ERROR(go_on(open_by_name(), before), mismatch, {"data/099"});
}

TEST(ReadContent, LooksAtFewSamplesFromTheFirstToTheLast) {
  for (const std::int64_t size : {0, 1, 2, 31, 32, 33, 1'000'000'007}) {
    Numbers read;
    const auto source = told(size, {{.name = "x", .shape = {5000}}});
    source->fill = [&](SampleId id, std::size_t, std::int64_t, std::span<std::byte> to) {
      read.push_back(id.value);
      std::ranges::fill(to, std::byte{1});
      to.back() = static_cast<std::byte>(id.value);  // which is too far from the first
    };
    const auto content = internal::read_content(*source, 32, {.begin = 0, .end = source->size()}, false);
    EXPECT_EQ(std::ssize(content), std::min<std::int64_t>(size, 32));
    EXPECT_EQ(read.size(), content.size());
    if (size > 0) EXPECT_THAT(std::pair(read.front(), read.back()), Pair(0, size - 1));
    for (const auto& sample : content) EXPECT_EQ(sample.digest, content.front().digest);
  }
}

TEST(ReadContent, ReadsAtMost64MiB) {
  std::int64_t reads = 0;
  const auto source = told(32, {{.name = "x", .shape = {20 << 20}}});
  source->fill = [&](SampleId, std::size_t, std::int64_t, std::span<std::byte>) { ++reads; };
  const auto content = internal::read_content(*source, 32, {.begin = 0, .end = source->size()}, false);
  EXPECT_EQ(reads, 3);
  EXPECT_NE(content[2].digest, 0);
  EXPECT_EQ(content[3].digest, 0);
}

TEST_F(Content, OfALargeFileIsThatOfItsBeginning) {
  for (const char* const name : {"data/a", "data/b"}) {
    directory_.write(name, "begin");
    fs::resize_file(directory_ / name, std::uintmax_t{1} << 40);
  }
  const std::string before = state_of(open_data());
  EXPECT_NO_THROW(go_on(open_data(), before));
  directory_.write("data/b", "other");
  fs::resize_file(directory_ / "data/b", std::uintmax_t{1} << 40);
  EXPECT_ERROR(go_on(open_data(), before), mismatch, {"data/b"});
}

}  // namespace rota::test::content_test
