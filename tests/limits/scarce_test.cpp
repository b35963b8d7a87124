// What an allocator gives, and what the system has no more of.

#include "core/parallel.hpp"
#include "limits/refusals.hpp"
#include "limits/told_stream.hpp"

namespace rota::test::scarce_test {

/// Memory that is `shift` bytes off.
struct Shifted {
  std::ptrdiff_t shift;
  std::shared_ptr<std::atomic<int>> live = std::make_shared<std::atomic<int>>(0);
  Allocator allocator() const {
    return {.allocate = [*this](std::size_t bytes) -> void* {
              ++*live;
              return static_cast<std::byte*>(::operator new (bytes + 64, std::align_val_t{64})) + shift;
            },
            .release =
                [*this](void* memory, std::size_t) {
                  --*live;
                  ::operator delete (static_cast<std::byte*>(memory) - shift, std::align_val_t{64});
                }};
  }
};

void expect_refused_by_loaders(const Allocator& allocator, const std::string& why) {
  const auto source = told(10);
  for (const int workers : {0, 2}) {
    Loader loader(source, {.workers = workers, .allocator = allocator});
    StreamLoader stream(as_stream(source, 2), {.workers = workers, .allocator = allocator});
    const Words words{"bytes for the tensors of a batch: ", why};
    for (int time = 0; time < 2; ++time) refused(kCallback, words, [&] { (void)loader.next(); });
    refused(kCallback, words, [&] { (void)stream.next(); });
  }
}

TEST(Allocators, ThatGiveMemoryOutOfLineAreRefusedByName) {
  for (const std::ptrdiff_t shift : {1, 8, 16, 32, 63}) {
    const Shifted shifted{shift};
    expect_refused_by_loaders(shifted.allocator(), "no multiple of 64");
    EXPECT_EQ(*shifted.live, 0);
  }
  const Shifted right{0};
  EXPECT_EQ((*Loader(told(10), {.allocator = right.allocator()}).next()).size(), 10);
  EXPECT_EQ(*right.live, 0);
}

TEST(Allocators, ThatGiveNoneOrThrowAreRefusedByName) {
  const auto release = [](void*, std::size_t) {};
  expect_refused_by_loaders({.allocate = [](std::size_t) { return nullptr; }, .release = release},
                            "returned null");
  expect_refused_by_loaders(
      {.allocate = [](std::size_t) -> void* { throw std::runtime_error("none left"); }, .release = release},
      "none left");
  expect_refused_by_loaders({.allocate = [](std::size_t) -> void* { throw 5; }, .release = release},
                            "unknown type");
}

TEST(Batches, OfMoreThan2To50BytesAreRefused) {
  const auto source = told(10, {{.name = "x", .shape = {std::int64_t{1} << 49}}});
  const std::string each = "3 samples of 562949953421312 bytes";
  refused({each, "global_batch_size"},
          [&] { (void)Loader(source, {.global_batch_size = 3, .workers = 0}).next(); });
  refused({each}, [&] { StreamLoader(as_stream(source, 2), {.global_batch_size = 3, .workers = 0}).next(); });
}

// Sanitizers take all addresses that there are.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROTA_HAS_LIMITS 0
#else
#define ROTA_HAS_LIMITS 1
#endif

/// Runs `call` in a process of its own with little more memory than it has, and prints what it throws.
void run_scarce(const std::function<void()>& call) {
  std::ifstream pages("/proc/self/statm");
  std::size_t used = 0;
  pages >> used;
  const rlim_t bytes = used * 4096 + (std::size_t{128} << 20);
  const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
  try {
    call();
    std::cerr << "nothing was thrown";
  } catch (const Error& error) {
    std::cerr << to_string(error.code()) << ": " << error.what();
  } catch (const std::exception& error) {
    std::cerr << "no rota::Error: " << error.what();
  }
  std::_Exit(0);
}

void expect_scarce(const std::function<void()>& call, const std::string& words) {
  if (ROTA_HAS_LIMITS == 0) GTEST_SKIP() << "sanitizers need the memory that is to be scarce";
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_EXIT(run_scarce(call), ExitedWithCode(0), words);
}

TEST(Scarce, ThreadsAreAnErrorThatNamesWhatTheyWereFor) {
  expect_scarce([] { Loader(told(10), {.workers = 4096}); },
                "^io: start the workers of a loader: .*no more threads");
  expect_scarce([] { StreamLoader(as_stream(told(10), 2), {.workers = 4096}); },
                "^io: start the workers of a stream loader: .*no more threads");
  const auto documents = told(1 << 20, {{.name = "t", .dtype = DType::int32, .ragged = true}});
  expect_scarce([&] { pack(documents, {.threads = 4096}); },
                "^io: ask for the lengths of documents: .*no more threads");
}

// Those that there were would be at it for hours.
TEST(Scarce, ThreadsForALoopEndItForThoseThatThereAre) {
  constexpr std::int64_t kMany = 400'000'000;
  expect_scarce(
      [] {
        std::atomic<std::int64_t> calls = 0;
        try {
          parallel_for("go round", std::int64_t{1} << 40, 1, 4096, [&](const LoopPart& /*part*/) {
            if (++calls > kMany) throw std::runtime_error("enough");
          });
        } catch (const Error&) {
          if (calls > kMany) throw std::runtime_error("the threads that there were went on");
          throw;
        }
      },
      "^io: go round: .*no more threads");
}

TEST(Scarce, MemoryIsAnErrorThatNamesWhatItWasFor) {
  const LoaderOptions padded{.global_batch_size = kMaxBatchSize, .tail = Tail::pad, .workers = 0};
  expect_scarce([&] { Loader(told(10), padded).next(); }, "^io: lay out a batch, of 2147483647 slots");
  const auto large = told(10, {{.name = "x", .shape = {std::int64_t{1} << 40}}});
  expect_scarce([&] { (void)Loader(large, {.global_batch_size = 2, .workers = 0}).next(); },
                "^io: take 2[0-9]* bytes for the tensors of a batch: .*not so much memory");
  expect_scarce([&] { StreamLoader(as_stream(large, 1), {.global_batch_size = 2, .workers = 0}).next(); },
                "^io: .*not so much memory");
  expect_scarce(
      [&] {
        StreamLoader(as_stream(told(10), 1), {.global_batch_size = kMaxBatchSize, .workers = 0}).next();
      },
      "^io: open a batch of 2147483647 samples: .*not so much memory");
  expect_scarce([&] { StreamSample sample(large->fields()); }, "^io: take .* bytes for a field of a sample");
}

}  // namespace rota::test::scarce_test
