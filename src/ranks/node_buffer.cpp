#include "ranks/node_buffer.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "core/caught.hpp"
#include "core/failure.hpp"
#include "files/memory_file.hpp"
#include "ranks/collectives.hpp"

namespace rota::internal {
namespace {

constexpr std::size_t kPieceBytes = 1 << 18;

NodeBuffer map(const MemoryFile& file) {
  auto memory = file.map();
  return {.bytes = {memory.get(), file.bytes()}, .owner = std::move(memory)};
}

// What this rank throws is thrown later, when all have come.
template <typename Work>
void attempt(std::exception_ptr& error, Work&& work) {
  if (!error) error = thrown_by(work);
}

// Rank 0's end of the way to the leaders: pieces, each after its size, and a size of zero. What is put is
// kept in `file`, too.
void send_pieces(const Communicator& leaders, const std::function<void(const ByteSink&)>& produce,
                 std::optional<MemoryFile>& file, std::exception_ptr& error) {
  std::vector<std::byte> piece;
  const auto send = [&] {
    static_cast<void>(ranks::broadcast(leaders, piece.size()));
    ranks::broadcast_bytes(leaders, piece);
    piece.clear();
  };
  const auto put = [&](std::span<const std::byte> bytes) {
    file->append(bytes);
    while (leaders.size() > 1 && !bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), kPieceBytes - piece.size());
      piece.insert(piece.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
      bytes = bytes.subspan(count);
      if (piece.size() == kPieceBytes) send();
    }
  };
  attempt(error, [&] {
    file.emplace();
    produce(put);
  });
  if (!piece.empty()) send();
  send();
}

// The other leaders' end: takes all pieces, also where they cannot be kept.
void take_pieces(const Communicator& leaders, std::optional<MemoryFile>& file, std::exception_ptr& error) {
  attempt(error, [&] { file.emplace(); });
  for (std::vector<std::byte> piece;;) {
    piece.resize(ranks::broadcast(leaders, std::size_t{0}));
    if (piece.empty()) return;
    ranks::broadcast_bytes(leaders, piece);
    attempt(error, [&] { file->append(piece); });
  }
}

// Has the other ranks of a node open what its leader has at `address`; what fails is thrown later.
void open_on_node(const ranks::Nodes& nodes, MemoryFile::Address& address, std::exception_ptr& error,
                  const std::function<void()>& open) {
  address = ranks::broadcast(nodes.node(), address);
  if (!nodes.leads() && address.bytes > 0) attempt(error, open);
  std::int64_t failures = error ? 1 : 0;  // and so the leader keeps it until all have it
  nodes.node().sum(std::span(&failures, 1));
}

// The leader's file on all ranks of its node.
NodeBuffer share_on_node(const ranks::Nodes& nodes, const std::optional<MemoryFile>& file,
                         std::exception_ptr& error) {
  NodeBuffer shared;
  MemoryFile::Address address;
  if (nodes.leads()) {
    attempt(error, [&] {
      file->seal();
      shared = map(*file);
      address = file->address();
    });
  }
  open_on_node(nodes, address, error, [&] { shared = map(MemoryFile(address)); });
  return shared;
}

}  // namespace

void require_same_bytes(const Communicator& comm, std::string_view phase, std::span<const std::byte> bytes) {
  if (ranks::is_same(comm, phase, {reinterpret_cast<const char*>(bytes.data()), bytes.size()})) return;
  throw failure(ErrorCode::corrupt,
                "{}: the ranks did not get the same {} bytes; check the network and the memory", phase,
                bytes.size());
}

NodeBuffer broadcast_to_nodes(const ranks::Nodes& nodes, std::string_view phase,
                              const std::function<void(const ByteSink&)>& produce) {
  std::exception_ptr error;
  std::optional<MemoryFile> file;
  if (nodes.all().rank() == 0) {
    send_pieces(nodes.leaders(), produce, file, error);
  } else if (nodes.leads()) {
    take_pieces(nodes.leaders(), file, error);
  }
  ranks::agree(nodes.all(), phase, error);
  NodeBuffer shared = share_on_node(nodes, file, error);
  ranks::agree(nodes.all(), phase, error);
  require_same_bytes(nodes.all(), phase, shared.bytes);
  return shared;
}

NodeBuffer all_gather_to_nodes(const ranks::Nodes& nodes, std::string_view phase,
                               std::span<const std::byte> mine) {
  const ranks::Messages parts = ranks::exchange(nodes.all(), phase, [&](ranks::Messages& messages) {
    messages.front().assign(mine.begin(), mine.end());
  });
  return broadcast_to_nodes(nodes, phase, [&](const ByteSink& sink) {
    for (const auto& part : parts) sink(part);
  });
}

NodeMemory make_node_memory(const ranks::Nodes& nodes, std::size_t bytes) {
  NodeMemory room{.ranks = nodes.node().size(), .is_first = nodes.leads()};
  std::optional<MemoryFile> file;
  MemoryFile::Address address;
  std::exception_ptr error;
  if (nodes.leads()) {
    attempt(error, [&] {
      file.emplace().resize(bytes);
      file->allot(0, bytes);  // else a full /dev/shm would be a signal
      room.memory = file->map_to_write();
      address = file->address();
    });
  }
  open_on_node(nodes, address, error,
               [&] { room.memory = MemoryFile(address, MemoryFile::Access::write).map_to_write(); });
  ranks::agree(nodes.all(), "share memory", error);
  return room;
}

}  // namespace rota::internal
