#include "hdf5/hdf5.hpp"

#include <algorithm>
#include <array>

#include "core/caught.hpp"
#include "core/failure.hpp"

namespace rota::hdf5 {
namespace {

herr_t first_entry(unsigned /*n*/, const H5E_error2_t* entry, void* text) {
  *static_cast<std::string*>(text) = entry->desc != nullptr ? entry->desc : "";
  return 1;  // stop: the walk goes upward from the deepest entry
}

std::recursive_mutex& process_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

// In the order of DType. Booleans and float16 have types of their own.
hid_t standard_type(DType dtype) {
  const std::array types{H5T_STD_U8LE,  H5T_STD_I8LE,   H5T_STD_I16LE, H5T_STD_I32LE, H5T_STD_I64LE,
                         H5T_STD_U8LE,  H5T_STD_U16LE,  H5T_STD_U32LE, H5T_STD_U64LE, H5T_IEEE_F32LE,
                         H5T_STD_U16LE, H5T_IEEE_F32LE, H5T_IEEE_F64LE};
  return types.at(static_cast<std::size_t>(dtype));
}

Datatype boolean_type() {
  Datatype type(H5Tenum_create(H5T_STD_I8LE), "make HDF5's boolean type");
  signed char value = 0;
  check(H5Tenum_insert(type.get(), "FALSE", &value), "make HDF5's boolean type");
  value = 1;
  check(H5Tenum_insert(type.get(), "TRUE", &value), "make HDF5's boolean type");
  return type;
}

// IEEE binary16, which HDF5 1.10 has no name for.
Datatype half_type() {
  Datatype type(H5Tcopy(H5T_IEEE_F32LE), "make HDF5's half type");
  check(H5Tset_fields(type.get(), 15, 10, 5, 0, 10), "make HDF5's half type");
  check(H5Tset_size(type.get(), 2), "make HDF5's half type");
  check(H5Tset_ebias(type.get(), 15), "make HDF5's half type");
  return type;
}

// HDF5 reads its own part, `base`, and hands the whole back to our callbacks.
struct OpenFile {
  H5FD_t base;
  haddr_t end_of_allocation;
  Medium* medium;
};

OpenFile& ours(H5FD_t* file) { return *reinterpret_cast<OpenFile*>(file); }
const OpenFile& ours(const H5FD_t* file) { return *reinterpret_cast<const OpenFile*>(file); }

H5FD_t* open_callback(const char* /*name*/, unsigned /*flags*/, hid_t access, haddr_t /*limit*/) {
  const auto* medium = static_cast<Medium* const*>(H5Pget_driver_info(access));
  if (medium == nullptr) return nullptr;
  auto* file = new (std::nothrow) OpenFile{.base = {}, .end_of_allocation = 0, .medium = *medium};
  return file == nullptr ? nullptr : &file->base;
}

herr_t close_callback(H5FD_t* file) {
  delete &ours(file);
  return 0;
}

// NOLINTNEXTLINE(google-runtime-int): HDF5 has it so
herr_t query_callback(const H5FD_t* file, unsigned long* flags) {
  *flags = file == nullptr ? 0 : ours(file).medium->features();
  return 0;
}

haddr_t get_allocation(const H5FD_t* file, H5FD_mem_t /*type*/) { return ours(file).end_of_allocation; }

herr_t set_allocation(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t address) {
  ours(file).end_of_allocation = address;
  ours(file).medium->set_end(address);
  return 0;
}

haddr_t get_end(const H5FD_t* file, H5FD_mem_t /*type*/) { return ours(file).medium->end(); }

// Nothing may be thrown through C.
herr_t status_of(const auto& work) { return internal::thrown_by(work) == nullptr ? 0 : -1; }

herr_t read_callback(H5FD_t* file, H5FD_mem_t type, hid_t /*transfer*/, haddr_t address, size_t bytes,
                     void* to) {
  return status_of([&] {
    ours(file).medium->read(address, {static_cast<std::byte*>(to), bytes}, type == H5FD_MEM_DRAW);
  });
}

herr_t write_callback(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t address, size_t bytes,
                      const void* from) {
  return status_of([&] { ours(file).medium->write(address, {static_cast<const std::byte*>(from), bytes}); });
}

}  // namespace

std::unique_lock<std::recursive_mutex> lock() {
  std::unique_lock guard(process_mutex());
  thread_local const bool silent = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  static_cast<void>(silent);
  return guard;
}

void fail(std::string_view what) {
  const auto guard = lock();
  std::string detail;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first_entry, &detail);
  H5Eclear2(H5E_DEFAULT);
  throw internal::failure(ErrorCode::io, "{}: HDF5: {}", what, detail.empty() ? "failed" : detail);
}

Datatype file_type(DType dtype) {
  const auto guard = lock();
  if (dtype == DType::boolean) return boolean_type();
  if (dtype == DType::float16) return half_type();
  return {H5Tcopy(standard_type(dtype)), "copy an HDF5 type"};
}

Driver drive(const Properties& access, Medium* medium, std::string_view what) {
  H5FD_class_t callbacks{};
#ifdef H5FD_CLASS_VERSION
  callbacks.version = H5FD_CLASS_VERSION;
  callbacks.value = static_cast<H5FD_class_value_t>(510);  // for private use
#endif
  callbacks.name = "rota_medium";
  callbacks.maxaddr = haddr_t{1} << 62;
  callbacks.fc_degree = H5F_CLOSE_WEAK;
  callbacks.fapl_size = sizeof(void*);  // of a Medium*
  callbacks.open = open_callback;
  callbacks.close = close_callback;
  callbacks.query = query_callback;
  callbacks.get_eoa = get_allocation;
  callbacks.set_eoa = set_allocation;
  callbacks.get_eof = get_end;
  callbacks.read = read_callback;
  callbacks.write = write_callback;
  std::ranges::fill(callbacks.fl_map, H5FD_MEM_DEFAULT);
  Driver driver(H5FDregister(&callbacks), what);
  check(H5Pset_driver(access.get(), driver.get(), static_cast<const void*>(&medium)), what);
  return driver;
}

AddressFile::AddressFile(const std::string& path, FileBytes bytes, bool is_growing)
    : bytes_(std::move(bytes)) {
  const auto guard = lock();
  const auto what = fmt::format("open {}", path);
  const Properties access(H5Pcreate(H5P_FILE_ACCESS), what);
  driver_ = drive(access, this, what);
  const unsigned flags = H5F_ACC_RDONLY | (is_growing ? H5F_ACC_SWMR_READ : 0U);
  file_ = {H5Fopen(path.c_str(), flags, access.get()), what};
}

void AddressFile::read(std::uint64_t at, std::span<std::byte> out, bool is_data) {
  if (is_tracing_ && is_data) {
    last_ = {at, out.size(), 0};
    return;
  }
  const bool is_there = at <= bytes_.size && out.size() <= bytes_.size - at;
  if (!is_there || !bytes_.read(at, out)) throw std::bad_alloc();  // HDF5 says that it failed
}

std::optional<ChunkExtent> AddressFile::chunk(hid_t dataset, const hsize_t* origin, std::string_view what) {
  const auto guard = lock();
  hsize_t bytes = 0;
  if (H5Dget_chunk_storage_size(dataset, origin, &bytes) < 0) H5Eclear2(H5E_DEFAULT);
  if (bytes == 0) return std::nullopt;
  if (bytes > bytes_.size) {
    throw internal::failure(ErrorCode::corrupt,
                            "{} has a chunk of {} bytes in a file of {}; fetch or write it again", what,
                            bytes, bytes_.size);
  }
  if (untouched_bytes_ < bytes) {
    untouched_.reset(new char[bytes]);
    untouched_bytes_ = bytes;
  }
  std::uint32_t filter_mask = 0;
  last_ = {};
  is_tracing_ = true;
  const herr_t status = H5Dread_chunk(dataset, H5P_DEFAULT, origin, &filter_mask, untouched_.get());
  is_tracing_ = false;
  check(status, what);
  if (last_.bytes != bytes) fail(what);
  return ChunkExtent{last_.address, bytes, filter_mask};
}

std::uint64_t AddressFile::stored_chunks(hid_t dataset, std::string_view what) const {
  const auto guard = lock();
  const Dataspace all(H5Dget_space(dataset), what);  // 1.10 does not know H5S_ALL here
  hsize_t chunks = 0;
  check(H5Dget_num_chunks(dataset, all.get(), &chunks), what);
  return chunks;
}

}  // namespace rota::hdf5
