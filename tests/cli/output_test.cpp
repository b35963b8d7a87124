#include "cli/output.hpp"
#include "test.hpp"

namespace rota::test::output_test {

// In a process of its own, whose standard streams are closed.
int code_without_streams(const std::function<int()>& program) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
    ::_exit(rota::cli::run_with_output(program));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Output, OfClosedStreamsGoesIntoNoFileThatTheProgramOpens) {
  const TemporaryDirectory dir;
  const auto file = dir / "file";
  const int code = code_without_streams([&] {
    for (int i = 0; i < 3; ++i) ::open(file.c_str(), O_WRONLY | O_CREAT, 0666);
    std::puts("lost");
    std::fputs("lost", stderr);
    std::fflush(stdout);
    return 0;
  });
  EXPECT_EQ(code, 1);
  EXPECT_EQ(fs::file_size(file), 0U);
}

TEST(Output, ThatIsNoneCannotBeLost) {
  EXPECT_EQ(code_without_streams([] { return 0; }), 0);
  EXPECT_EQ(code_without_streams([] { return 7; }), 7);
}

}  // namespace rota::test::output_test
