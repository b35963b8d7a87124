// Saves of which one system call fails: the library's calls come by here.

#include <sys/syscall.h>

#include "source/reading.hpp"

namespace rota::test::saved_faults_test {

/// What is called while it lives; the call of number `fails`, counted from 0, fails, a write half way.
struct Watch {
  std::size_t fails = std::string::npos;
  std::vector<std::string> calls = {};
};
Watch* watch = nullptr;

// Whether the call that is made now is to fail.
bool is_to_fail(const char* name) {
  if (watch == nullptr) return false;
  watch->calls.emplace_back(name);
  if (watch->calls.size() - 1 != watch->fails) return false;
  errno = ENOSPC;
  return true;
}

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the C library's are reserved
extern "C" ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  const bool is_rest = watch != nullptr && !watch->calls.empty() && watch->calls.back() == "half a write";
  if (is_to_fail(is_rest ? "write" : "half a write")) return -1;
  return ::syscall(SYS_pwrite64, fd, data, is_rest || watch == nullptr ? size : size / 2, at);
}
extern "C" int fsync(int fd) { return is_to_fail("fsync") ? -1 : static_cast<int>(::syscall(SYS_fsync, fd)); }
extern "C" int rename(const char* from, const char* to) noexcept {
  return is_to_fail("rename") ? -1
                              : static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

class SavedFaults : public Test {
 protected:
  SavedFaults() {
    directory_.write("data/a", "1");
    Catalog(data()).save(saved());
    directory_.write("data/b", "22");
  }
  fs::path data() const { return directory_ / "data"; }
  fs::path saved() const { return directory_ / "catalog.rota"; }
  /// Saves two files over what was saved of one; call number `fails` fails.
  std::optional<Error> save(std::size_t fails) {
    const Catalog catalog(data());
    watch_ = {.fails = fails};
    watch = &watch_;
    auto error = error_of([&] { catalog.save(saved()); });
    watch = nullptr;
    return error;
  }
  std::int64_t files_saved() const {
    const CatalogChanges changes = Catalog(saved()).changes();
    return 2 - changes.appeared;
  }

  TemporaryDirectory directory_;
  Watch watch_;
};

TEST_F(SavedFaults, AreOnDiskBeforeTheyTakeTheirPlace) {
  EXPECT_FALSE(save(std::string::npos));
  EXPECT_THAT(watch_.calls, ElementsAre("half a write", "write", "fsync", "rename", "fsync"));
  EXPECT_EQ(files_saved(), 2);
}

TEST_F(SavedFaults, LeaveWhatWasThereAndNothingElse) {
  for (const std::size_t fails : {0U, 1U, 2U, 3U}) {
    EXPECT_THAT(save(fails), is_error(io, {"save a catalog", saved().string(), "No space left"}));
    EXPECT_EQ(files_saved(), 1) << fails;
    EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), {}), 2) << fails;
  }
}

TEST_F(SavedFaults, SayThatTheDirectoryMayNotBeOnDisk) {
  EXPECT_THAT(save(4),
              is_error(io, {"save a catalog", saved().string(), "fsync " + directory_.path().string()}));
  EXPECT_EQ(files_saved(), 2);
}

}  // namespace rota::test::saved_faults_test
