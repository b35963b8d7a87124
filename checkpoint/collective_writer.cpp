#include "collective_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "mpi/collectives.hpp"
#include "rota/error.hpp"

namespace rota::checkpoint {
namespace {

// Written in one go. ROMIO gathers as much before it writes, so it has no second round, in which ranks could
// wait for one that has failed in the first.
constexpr std::uint64_t kWindowBytes = 32 << 20;

// A control variable of MPI's tools interface, while this lives. The interface is not ended again: Open MPI
// would load all of its components anew each time.
class ControlVariable {
 public:
  explicit ControlVariable(const char* name) {
    int level = 0;
    const bool is_running = MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS;
    int index = 0;
    int count = 0;
    if (is_running && MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS) {
      exists_ = MPI_T_cvar_handle_alloc(index, nullptr, &handle_, &count) == MPI_SUCCESS;
      text_.resize(static_cast<std::size_t>(std::max(count, 1)) + 1);
    }
  }
  ~ControlVariable() {
    if (exists_) MPI_T_cvar_handle_free(&handle_);
  }
  ControlVariable(const ControlVariable&) = delete;
  ControlVariable& operator=(const ControlVariable&) = delete;

  [[nodiscard]] bool exists() const { return exists_; }
  [[nodiscard]] std::string read() {
    if (MPI_T_cvar_read(handle_, text_.data()) != MPI_SUCCESS) return "?";
    return text_.substr(0, text_.find('\0'));
  }
  // Open MPI refuses it once a file has been opened.
  bool write(const char* value) { return MPI_T_cvar_write(handle_, value) == MPI_SUCCESS; }

 private:
  bool exists_ = false;
  MPI_T_cvar_handle handle_{};
  std::string text_;
};

bool exists(const std::string& variable) {
  int index = 0;
  return MPI_T_cvar_get_index(variable.c_str(), &index) == MPI_SUCCESS;
}

// Whether a list of Open MPI's io components leaves OMPIO out.
bool is_romio(std::string_view components) {
  return components == "^ompio" ||
         (components.starts_with("romio") && components.find("ompio") == std::string_view::npos);
}

MPI_Info make_hints() {
  MPI_Info hints = MPI_INFO_NULL;
  mpi::check(MPI_Info_create(&hints), "MPI_Info_create");
  const std::string window = std::to_string(kWindowBytes);
  MPI_Info_set(hints, "romio_cb_write", "enable");
  MPI_Info_set(hints, "romio_ds_write", "disable");  // it would read, and write back what is not its own
  MPI_Info_set(hints, "cb_buffer_size", window.c_str());
  return hints;
}

// Pieces of memory or of a file, by their addresses.
class Pieces {
 public:
  void add(MPI_Aint at, std::uint64_t bytes) {
    places_.push_back(at);
    lengths_.push_back(static_cast<int>(bytes));
  }
  [[nodiscard]] bool empty() const { return places_.empty(); }
  [[nodiscard]] MPI_Datatype type() const {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    mpi::check(MPI_Type_create_hindexed(static_cast<int>(places_.size()), lengths_.data(), places_.data(),
                                        MPI_BYTE, &made),
               "MPI_Type_create_hindexed");
    mpi::check(MPI_Type_commit(&made), "MPI_Type_commit");
    return made;
  }

 private:
  std::vector<MPI_Aint> places_;
  std::vector<int> lengths_;
};

MPI_Aint address_of(const std::byte* byte) {
  MPI_Aint address = 0;
  mpi::check(MPI_Get_address(byte, &address), "MPI_Get_address");
  return address;
}

}  // namespace

void require_romio() {
  const auto refuse = [](std::string_view why) {
    throw Error(ErrorCode::unsupported,
                fmt::format("write checkpoints collectively: {}, or use Writer::direct", why));
  };
  int level = MPI_THREAD_SINGLE;
  mpi::check(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level < MPI_THREAD_MULTIPLE) {
    refuse(
        "a deadline holds only with MPI_THREAD_MULTIPLE, and MPI was started with less; start it with "
        "Session(argc, argv, ThreadLevel::multiple) or MPI_Init_thread");
  }
  ControlVariable io("io");
  if (!io.exists()) return;  // no Open MPI; the others have ROMIO alone
  const std::string chosen = io.read();
  if (is_romio(chosen)) return;
  if (chosen.empty()) {
    for (const char* romio : {"romio341", "romio321"}) {
      if (exists(fmt::format("io_{}_priority", romio)) && io.write(romio)) return;
    }
  }
  refuse(
      fmt::format("Open MPI's MPI-IO is {}, whose collective writes can damage files in silence; set "
                  "OMPI_MCA_io=romio321 in the environment of mpirun",
                  chosen.empty() ? "OMPIO" : fmt::format("chosen as \"{}\"", chosen)));
}

// What this rank writes of one window.
struct CollectiveWrite::Window {
  MPI_Offset before = 0;  ///< of this rank's own bytes, how many come before
  MPI_Datatype memory = MPI_DATATYPE_NULL;
};

CollectiveWrite::CollectiveWrite(std::string path, std::span<const Slab> slabs, std::uint64_t end)
    : path_(std::move(path)), windows_((end + kWindowBytes - 1) / kWindowBytes) {
  std::vector<Slab> in_order(slabs.begin(), slabs.end());
  std::ranges::sort(in_order, {}, &Slab::offset);
  Pieces view;
  std::vector<Pieces> memory(windows_.size());
  MPI_Offset done = 0;
  std::size_t next = 0;  // of whose windows `before` is not yet known
  for (const Slab& slab : in_order) {
    for (std::uint64_t at = 0; at < slab.bytes.size();) {
      const std::uint64_t place = slab.offset + at;
      const std::size_t window = place / kWindowBytes;
      const std::uint64_t bytes = std::min(slab.bytes.size() - at, (window + 1) * kWindowBytes - place);
      for (; next <= window; ++next) windows_[next].before = done;
      view.add(static_cast<MPI_Aint>(place), bytes);
      memory[window].add(address_of(slab.bytes.data() + at), bytes);
      done += static_cast<MPI_Offset>(bytes);
      at += bytes;
    }
  }
  if (!view.empty()) view_ = view.type();
  hints_ = make_hints();
  for (std::size_t w = 0; w < windows_.size(); ++w) {
    if (!memory[w].empty()) windows_[w].memory = memory[w].type();
  }
}

CollectiveWrite::~CollectiveWrite() {
  if (hints_ != MPI_INFO_NULL) MPI_Info_free(&hints_);
  if (view_ != MPI_DATATYPE_NULL) MPI_Type_free(&view_);
  for (Window& window : windows_) {
    if (window.memory != MPI_DATATYPE_NULL) MPI_Type_free(&window.memory);
  }
}

void CollectiveWrite::run(MPI_Comm comm) {
  MPI_File file = MPI_FILE_NULL;
  mpi::check(MPI_File_open(comm, path_.c_str(), MPI_MODE_RDWR, hints_, &file),
             fmt::format("MPI_File_open {}", path_));
  int error = MPI_SUCCESS;  // the first of calls of which none is left out
  std::string failed;
  const auto note = [&](int code, std::string_view call) {
    if (error != MPI_SUCCESS) return;
    error = code;
    failed = call;
  };
  note(MPI_File_set_view(file, 0, MPI_BYTE, view_ == MPI_DATATYPE_NULL ? MPI_BYTE : view_, "native",
                         MPI_INFO_NULL),
       "MPI_File_set_view");
  for (const Window& window : windows_) {
    const bool has_data = window.memory != MPI_DATATYPE_NULL;
    note(MPI_File_write_at_all(file, window.before, MPI_BOTTOM, has_data ? 1 : 0,
                               has_data ? window.memory : MPI_BYTE, MPI_STATUS_IGNORE),
         fmt::format("MPI_File_write_at_all {}", path_));
  }
  note(MPI_File_close(&file), fmt::format("MPI_File_close {}", path_));
  mpi::check(error, failed);
}

}  // namespace rota::checkpoint
