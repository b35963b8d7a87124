#include "mpi/node_buffer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "core/caught.hpp"
#include "core/failure.hpp"
#include "files/memory_file.hpp"
#include "mpi/collectives.hpp"

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

/// Rank 0's end of the way to the leaders: pieces, each after its size, and a size of zero.
class Outlet {
 public:
  explicit Outlet(const mpi::Communicator& leaders) : leaders_(leaders) {}

  void put(std::span<const std::byte> bytes) {
    file().append(bytes);
    while (leaders_.size() > 1 && !bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), kPieceBytes - piece_.size());
      piece_.insert(piece_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
      bytes = bytes.subspan(count);
      if (piece_.size() == kPieceBytes) send();
    }
  }
  /// To be called whatever was thrown before.
  void end() {
    if (!piece_.empty()) send();
    send();
  }
  /// What was put, here.
  [[nodiscard]] MemoryFile& file() { return file_ ? *file_ : file_.emplace(); }

 private:
  void send() {
    static_cast<void>(mpi::broadcast(leaders_, piece_.size()));
    mpi::broadcast_bytes(leaders_, piece_);
    piece_.clear();
  }

  const mpi::Communicator& leaders_;
  std::optional<MemoryFile> file_;
  std::vector<std::byte> piece_;
};

// The other leaders' end: takes all pieces, also where they cannot be kept.
void take_pieces(const mpi::Communicator& leaders, std::optional<MemoryFile>& file,
                 std::exception_ptr& error) {
  attempt(error, [&] { file.emplace(); });
  for (std::vector<std::byte> piece;;) {
    piece.resize(mpi::broadcast(leaders, std::size_t{0}));
    if (piece.empty()) return;
    mpi::broadcast_bytes(leaders, piece);
    attempt(error, [&] { file->append(piece); });
  }
}

// What the leader has, a copy for each rank; nothing where one of them lacks the memory, which all ranks hear
// of when all have come.
NodeBuffer copy_on_node(const mpi::Nodes& nodes, const NodeBuffer& shared, std::size_t bytes,
                        std::exception_ptr& error) {
  std::shared_ptr<std::vector<std::byte>> copy;
  attempt(error, [&] {
    try {
      copy = std::make_shared<std::vector<std::byte>>(bytes);
    } catch (const std::bad_alloc&) {
      throw sharing_failed(fmt::format("copy {} bytes", bytes), ENOMEM);
    }
  });
  std::int64_t failures = error ? 1 : 0;
  sum(nodes.node(), std::span(&failures, 1));
  if (failures > 0) return {};
  if (nodes.leads()) std::copy(shared.bytes.begin(), shared.bytes.end(), copy->begin());
  mpi::broadcast_bytes(nodes.node(), *copy);
  return {.bytes = *copy, .owner = copy};
}

// Has the other ranks of a node open what its leader has at `address`. Whether all of them could. Collective
// over the node.
bool open_on_node(const mpi::Nodes& nodes, MemoryFile::Address& address, const std::function<void()>& open) {
  address = mpi::broadcast(nodes.node(), address);
  std::exception_ptr failure;
  if (!nodes.leads() && address.bytes > 0) {
    attempt(failure, [&] {
      if (!nodes.can_share_memory()) throw sharing_failed("open", EACCES);
      open();
    });
  }
  std::int64_t failures = failure ? 1 : 0;
  sum(nodes.node(), std::span(&failures, 1));
  return failures == 0;
}

// The leader's file on all ranks of its node, or a copy where they cannot open it.
NodeBuffer share_on_node(const mpi::Nodes& nodes, const std::optional<MemoryFile>& file,
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
  if (open_on_node(nodes, address, [&] { shared = map(MemoryFile(address)); })) return shared;
  return copy_on_node(nodes, shared, static_cast<std::size_t>(address.bytes), error);
}

}  // namespace

void require_same_bytes(const mpi::Communicator& comm, std::string_view phase,
                        std::span<const std::byte> bytes) {
  if (mpi::is_same(comm, {reinterpret_cast<const char*>(bytes.data()), bytes.size()})) return;
  throw failure(ErrorCode::corrupt,
                "{}: the ranks did not get the same {} bytes; check the network and the memory", phase,
                bytes.size());
}

NodeBuffer broadcast_to_nodes(const mpi::Nodes& nodes, std::string_view phase,
                              const std::function<void(const ByteSink&)>& produce) {
  std::exception_ptr error;
  std::optional<MemoryFile> file;
  if (nodes.all().rank() == 0) {
    Outlet outlet(nodes.leaders());
    attempt(error, [&] { produce([&](std::span<const std::byte> bytes) { outlet.put(bytes); }); });
    outlet.end();
    attempt(error, [&] { file = std::move(outlet.file()); });
  } else if (nodes.leads()) {
    take_pieces(nodes.leaders(), file, error);
  }
  mpi::agree(nodes.all(), phase, error);
  NodeBuffer shared = share_on_node(nodes, file, error);
  mpi::agree(nodes.all(), phase, error);
  require_same_bytes(nodes.all(), phase, shared.bytes);
  return shared;
}

NodeBuffer all_gather_to_nodes(const mpi::Nodes& nodes, std::string_view phase,
                               std::span<const std::byte> mine) {
  const mpi::Messages parts = mpi::exchange(nodes.all(), phase, [&](mpi::Messages& messages) {
    messages.front().assign(mine.begin(), mine.end());
  });
  return broadcast_to_nodes(nodes, phase, [&](const ByteSink& sink) {
    for (const auto& part : parts) sink(part);
  });
}

NodeMemory make_node_memory(const mpi::Nodes& nodes, std::size_t bytes) {
  NodeMemory room{.ranks = nodes.node().size(), .is_first = nodes.leads()};
  const auto make_room = [bytes](MemoryFile& file) {
    file.resize(bytes);
    file.allot(0, bytes);  // else a full /dev/shm would be a signal
    return file.map_to_write();
  };
  std::optional<MemoryFile> file;
  MemoryFile::Address address;
  mpi::together(nodes.all(), "share memory", [&] {
    if (!nodes.leads()) return;
    room.memory = make_room(file.emplace());
    address = file->address();
  });
  const bool is_shared = open_on_node(
      nodes, address, [&] { room.memory = MemoryFile(address, MemoryFile::Access::write).map_to_write(); });
  mpi::together(nodes.all(), "share memory", [&] {
    if (is_shared) return;
    MemoryFile own;
    room = {.memory = make_room(own)};
  });
  return room;
}

}  // namespace rota::internal
