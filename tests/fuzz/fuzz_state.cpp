// States as text: of a loader, of a mixture, of streams and of a dispatch. What is taken can be gone on from,
// and gives a state that is taken again.

#include "format_target.hpp"
#include "rota/resume.hpp"
#include "source/told_source.hpp"
#include "stream/numbered_stream.hpp"

namespace {

rota::Loader make_loader() { return {rota::test::counting(100), {.shards = 9, .workers = 0}}; }
rota::Loader make_mixture() {
  return {{.datasets = {{rota::test::counting(20), 1}, {rota::test::counting(30), 2}}},
          {.shards = 3, .workers = 0}};
}
rota::StreamLoader make_stream() {
  const auto source = std::make_shared<rota::test::NumberedStream>(std::vector<std::int64_t>{5, 0, 9});
  return rota::StreamLoader(rota::shuffle_buffer(source, 2, 1), {.global_batch_size = 4, .workers = 0});
}
rota::StreamLoader make_dispatch() {
  const auto source = std::make_shared<rota::test::NumberedStream>(std::vector<std::int64_t>{12});
  return rota::StreamLoader(rota::Dispatch{.source = source, .shards = 5},
                            {.global_batch_size = 4, .workers = 0});
}

template <typename Make>
void take(Make make, std::string_view text) {
  auto loader = make();
  try {
    restore(loader, text);
  } catch (const rota::Error& error) {
    const auto code = error.code();
    ROTA_FUZZ_EXPECT(code == rota::ErrorCode::corrupt || code == rota::ErrorCode::unsupported ||
                     code == rota::ErrorCode::mismatch);
    return;
  }
  try {
    const std::string then = state(loader);
    auto again = make();
    restore(again, then);
    ROTA_FUZZ_EXPECT(again.position() == loader.position());
    static_cast<void>(loader.next());
  } catch (const rota::Error&) {
    // a cursor that the source does not know
  }
}

template <typename Make>
std::string state_after_steps(Make make) {
  auto loader = make();
  for (int k = 0; k < 2; ++k) static_cast<void>(loader.next());
  return state(loader);
}

}  // namespace

std::vector<std::string> rota::test::seeds() {
  return {state_after_steps(make_loader), state_after_steps(make_mixture), state_after_steps(make_stream),
          state_after_steps(make_dispatch)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  take(make_loader, text);
  take(make_mixture, text);
  take(make_stream, text);
  take(make_dispatch, text);
  return 0;
}
