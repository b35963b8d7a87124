// Lines of text become tokens, and each batch becomes blocks of one length. A Transform makes of every line
// as many tokens as it has; a Collate puts the tokens of a batch one behind the other and cuts them into
// blocks.
//
//   tokenize notes.txt          # a token is a word
//   tokenize notes.txt bytes    # a token is a byte

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rota/rota.hpp"

namespace {

constexpr std::int64_t kBlock = 64;
constexpr std::int32_t kVocabulary = 50'000;
constexpr std::int32_t kEnd = 0;  // of a line; words are 1 to kVocabulary
constexpr std::int32_t kPadding = -1;

/// A word's number: a hash (FNV-1a), in place of a vocabulary.
std::int32_t number_of(std::string_view word) {
  std::uint32_t hash = 2166136261U;
  for (const char c : word) hash = (hash ^ static_cast<std::uint8_t>(c)) * 16777619U;
  return 1 + static_cast<std::int32_t>(hash % kVocabulary);
}

/// Runs in the loader's workers.
void tokenize_words(const rota::TransformContext& /*context*/, const rota::SampleView& in,
                    rota::SampleOutput& out) {
  const auto bytes = in.as<std::uint8_t>(0);
  const std::string_view line(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto tokens = out.resize<std::int32_t>(0, std::ssize(line) / 2 + 2);  // the most that it can be
  std::size_t count = 0;
  for (std::size_t begin = 0; (begin = line.find_first_not_of(" \t", begin)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t", begin), line.size());
    tokens[count++] = number_of(line.substr(begin, end - begin));
    begin = end;
  }
  tokens[count++] = kEnd;
  out.resize(0, static_cast<std::int64_t>(count));
}

void tokenize_bytes(const rota::TransformContext& /*context*/, const rota::SampleView& in,
                    rota::SampleOutput& out) {
  const auto bytes = in.as<std::uint8_t>(0);
  const auto tokens = out.resize<std::int32_t>(0, std::ssize(bytes) + 1);
  std::ranges::transform(bytes, tokens.begin(), [](std::uint8_t byte) { return 1 + byte; });
  tokens.back() = kEnd;
}

/// Blocks [blocks, kBlock] of a batch, and which line each token is of. A block belongs to the line in which
/// it begins; the rest of the last one is padding.
void make_blocks(const rota::Batch& in, rota::BatchOutput& out) {
  const rota::Tensor lines = in.tensor("tokens");
  const auto tokens = lines.as<std::int32_t>();
  std::vector<std::int64_t> begun(static_cast<std::size_t>(in.size()));  // blocks that begin in each line
  const auto blocks_before = [](std::int64_t token) { return (token + kBlock - 1) / kBlock; };
  for (std::size_t i = 0; i < begun.size(); ++i) {
    begun[i] = blocks_before(lines.offsets[i + 1]) - blocks_before(lines.offsets[i]);
  }
  out.resize(0, begun);
  out.resize(1, begun);
  const auto blocks = out.as<std::int32_t>(0);
  const auto segments = out.as<std::int32_t>(1);
  std::ranges::fill(std::ranges::copy(tokens, blocks.begin()).out, blocks.end(), kPadding);
  std::ranges::fill(segments, kPadding);
  for (std::size_t i = 0; i < begun.size(); ++i) {
    std::fill(segments.begin() + lines.offsets[i], segments.begin() + lines.offsets[i + 1],
              static_cast<std::int32_t>(i));
  }
}

int run(const std::string& path, bool is_bytes) {
  const rota::Field tokens{.name = "tokens", .dtype = rota::DType::int32, .shape = {}, .ragged = true};
  const rota::Field block{.name = "tokens", .dtype = rota::DType::int32, .shape = {kBlock}, .ragged = true};
  rota::Field segments = block;
  segments.name = "segment_ids";
  rota::Loader loader(rota::open(path, "lines"),
                      {.global_batch_size = 64,
                       .workers = 2,
                       .transform = {.apply = is_bytes ? tokenize_bytes : tokenize_words, .fields = {tokens}},
                       .collate = {.apply = make_blocks, .fields = {block, segments}}});
  std::int64_t lines = 0;
  std::int64_t blocks = 0;
  std::int64_t real = 0;
  for (const rota::Batch& batch : loader) {
    const auto made = batch.tensor("tokens").as<std::int32_t>();  // train on it: [blocks, kBlock]
    lines += batch.size();
    blocks += std::ssize(made) / kBlock;
    real += std::ssize(made) - std::ranges::count(made, kPadding);
  }
  fmt::print("{} lines, {} tokens, {} blocks of {}\n", lines, real, blocks, kBlock);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  rota::mpi::Session session(argc, argv);
  return session.run([&] {
    if (argc < 2) throw rota::Error(rota::ErrorCode::invalid_argument, "usage: tokenize FILE [bytes]");
    return run(argv[1], argc > 2 && std::string_view(argv[2]) == "bytes");
  });
}
