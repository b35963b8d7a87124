// main of the tests of several ranks: every rank runs every test, and the program fails where any rank
// failed. mpirun starts it once for each rank; or it is started once, as `--threads=N`.

#include "ranks_main.hpp"

#include <barrier>

#include "thread_ranks.hpp"

namespace rota::test {

namespace {

thread_local const Communicator* of_this_thread = nullptr;
int threads = 0;

/// Prints only failures, headed by the rank: rank 0 prints all else.
class FailuresOnly : public ::testing::EmptyTestEventListener {
 public:
  explicit FailuresOnly(int rank) : rank_(rank) {}
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed()) {
      std::fprintf(stderr, "[rank %d] %s:%d: %s\n", rank_, result.file_name(), result.line_number(),
                   result.message());
    }
  }

 private:
  int rank_;
};

// ---- tests on threads: GoogleTest makes and runs one object for each test, and not one for each rank ----

// A member that is not public, which only an explicit instantiation may name.
template <auto Member, typename Name>
struct Opened {
  friend auto opened(Name /*of*/) { return Member; }
};
struct OfFactory {};
struct OfSetUp {};
struct OfBody {};
struct OfTearDown {};
auto opened(OfFactory of);
auto opened(OfSetUp of);
auto opened(OfBody of);
auto opened(OfTearDown of);
template struct Opened<&::testing::TestInfo::factory_, OfFactory>;
template struct Opened<&::testing::Test::SetUp, OfSetUp>;
template struct Opened<&::testing::Test::TestBody, OfBody>;
template struct Opened<&::testing::Test::TearDown, OfTearDown>;

class OnAllThreads : public ::testing::Test {
 public:
  explicit OnAllThreads(::testing::internal::TestFactoryBase& one) : one_(&one) {}
  // As Test::Run, which reads the test's results while other threads may be adding to them.
  void TestBody() override {
    std::barrier all(threads);
    on_thread_ranks(threads, [&](const Communicator& comm) {
      of_this_thread = &comm;
      const std::unique_ptr<::testing::Test> test(one_->CreateTest());
      (test.get()->*opened(OfSetUp()))();
      all.arrive_and_wait();
      const bool is_ready = !HasFatalFailure() && !IsSkipped();
      all.arrive_and_wait();
      if (is_ready) (test.get()->*opened(OfBody()))();
      (test.get()->*opened(OfTearDown()))();
    });
  }

 private:
  ::testing::internal::TestFactoryBase* one_;
};

class FactoryForThreads : public ::testing::internal::TestFactoryBase {
 public:
  explicit FactoryForThreads(::testing::internal::TestFactoryBase* one) : one_(one) {}
  ::testing::Test* CreateTest() override { return new OnAllThreads(*one_); }

 private:
  std::unique_ptr<::testing::internal::TestFactoryBase> one_;
};

void run_tests_on_threads() {
  const auto& all = *::testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    for (int t = 0; t < all.GetTestSuite(s)->total_test_count(); ++t) {
      auto& test = const_cast<::testing::TestInfo&>(*all.GetTestSuite(s)->GetTestInfo(t));
      auto& factory = const_cast<::testing::internal::TestFactoryBase*&>(test.*opened(OfFactory()));
      factory = new FactoryForThreads(factory);
    }
  }
}

// A filter may name what is gone.
int run_all() {
  const int failed = RUN_ALL_TESTS();
  return ::testing::UnitTest::GetInstance()->test_to_run_count() == 0 ? 1 : failed;
}

#ifdef ROTA_MPI
int run_under_mpi(int& argc, char** argv) {
  rota::mpi::Session session(argc, argv);
  of_this_thread = &session.comm();
  ::testing::InitGoogleTest(&argc, argv);
  if (session.world().rank != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    listeners.Append(new FailuresOnly(session.world().rank));
    delete listeners.Release(listeners.default_result_printer());
  }
  std::int64_t failed = run_all();
  session.comm().max(std::span(&failed, 1));
  return static_cast<int>(failed);
}
#endif

}  // namespace

const Communicator& everyone() {
  static const Communicator alone;  // outside of tests, such as what prepares them
  return of_this_thread == nullptr ? alone : *of_this_thread;
}
bool are_threads() { return threads > 0; }

}  // namespace rota::test

int main(int argc, char** argv) {
  using namespace rota::test;  // NOLINT(google-build-using-namespace)
  constexpr std::string_view kThreads = "--threads=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kThreads)) threads = std::stoi(argv[i] + kThreads.size());
  }
#ifdef ROTA_MPI
  if (threads == 0) return run_under_mpi(argc, argv);
#endif
  ::testing::InitGoogleTest(&argc, argv);
  run_tests_on_threads();
  return run_all();
}
