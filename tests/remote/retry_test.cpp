// How long a store that does not answer is asked again, and what is told meanwhile.

#include <netinet/in.h>

#include "messages.hpp"
#include "remote/reading.hpp"

namespace rota::test::retry_test {

using Clock = std::chrono::steady_clock;

/// A port that nobody has.
int free_port() {
  const int made = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  ::bind(made, reinterpret_cast<const sockaddr*>(&address), bytes);
  ::getsockname(made, reinterpret_cast<sockaddr*>(&address), &bytes);
  ::close(made);
  return ntohs(address.sin_port);
}

TEST(S3Retry, AStoreThatStartsLateIsWaitedFor) {
  const int port = free_port();
  S3Server server({"--port", std::to_string(port)});
  server.put("b/x", "x");
  const auto storage = s3_storage({.endpoint = fmt::format("http://127.0.0.1:{}", port),
                                   .access_key = "AKIDEXAMPLE",
                                   .secret_key = "test-secret"});
  const std::jthread starts([&] {
    std::this_thread::sleep_for(3s);
    server.port();
  });
  EXPECT_TRUE(storage->find("b/x"));
}

TEST(S3Retry, AStoreThatIsNotThereIsAnErrorInTheEnd) {
  const auto start = Clock::now();
  const auto storage = http_storage("http", {.deadline = 120s});
  EXPECT_ERROR(storage->find(fmt::format("127.0.0.1:{}/x", free_port())), io, {"tries in 1", "connect"});
  EXPECT_GE(Clock::now() - start, 10s);
}

TEST_F(S3, WhatIsTriedAgainForLongIsToldOnce) {
  S3Options options = server.options();
  for (const auto& [fault, word] : {std::pair{"503", "status 503: SlowDown"}, {"hang", "no answer yet"}}) {
    server.become({"--fault", fault, "--kind", "range", "--times", "1000"});
    server.put("b/x", "x");
    options.http.deadline = std::string(fault) == "503" ? 13s : 8s;  // the last try comes before it
    const auto storage = s3_storage(options);
    const auto x = storage->find("b/x");
    const StoredFile y{.name = "b/y", .bytes = 1};
    Wanted wanted;
    wanted.add(*x, 0, 1);
    wanted.add(y, 0, 1);
    const SinkMessages messages;
    wanted.read(*storage);
    EXPECT_THAT(messages.lines, ElementsAre(AllOf(HasSubstr("read s3://b/"), HasSubstr(": not done after"),
                                                  HasSubstr(word))));
  }
}

// The last try is cut by the deadline, and says nothing.
TEST_F(S3, ADeadlineTellsWhatFailedBeforeIt) {
  server.put("b/x", "x");
  S3Options options = server.options();
  options.http.deadline = 2s;
  const auto storage = s3_storage(options);
  const auto file = storage->find("b/x");
  server.become({"--delay", "1.2", "--fault", "503", "--kind", "range"});
  EXPECT_ERROR(read(*storage, *file, 0, 1), timeout, {"2 tries", "the last failed with: status 503"});
}

TEST_F(S3, TheEndOfAWriteThatFailedIsWaitedForBriefly) {
  server.become({"--fault", "503", "--kind", "abort", "--times", "1000"});
  const auto start = Clock::now();
  EXPECT_THROW(
      storage()->write("b/x", std::uint64_t{20} << 20,
                       [](std::uint64_t, std::span<std::byte>) { throw std::runtime_error("full"); }),
      std::runtime_error);
  EXPECT_GE(server.count("abort"), 2);
  EXPECT_LT(Clock::now() - start, 20s);
}

}  // namespace rota::test::retry_test
