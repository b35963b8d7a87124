#include "sparse_image.hpp"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include <algorithm>
#include <cstring>

namespace rota::checkpoint {
namespace {

constexpr std::uint64_t kImagePageBytes = 4096;

// What HDF5 knows of an open image. C code owns it and casts it, so it begins with HDF5's own part.
struct OpenImage {
  H5FD_t hdf5;
  SparseImage* image;
};

struct AccessInfo {
  SparseImage* image;
};

OpenImage* opened(H5FD_t* file) { return reinterpret_cast<OpenImage*>(file); }
const OpenImage* opened(const H5FD_t* file) { return reinterpret_cast<const OpenImage*>(file); }

H5FD_t* open_image(const char* /*name*/, unsigned /*flags*/, hid_t access, haddr_t /*max*/) {
  const auto* info = static_cast<const AccessInfo*>(H5Pget_driver_info(access));
  if (info == nullptr) return nullptr;
  auto* file = new (std::nothrow) OpenImage{};
  if (file == nullptr) return nullptr;
  file->image = info->image;
  return &file->hdf5;
}

herr_t close_image(H5FD_t* file) {
  delete opened(file);
  return 0;
}

// NOLINTNEXTLINE(google-runtime-int): HDF5 has it so
herr_t query(const H5FD_t* /*file*/, unsigned long* flags) {
  *flags = 0;  // nothing is gained from HDF5's caches, and nothing is set aside unused
  return 0;
}

haddr_t get_end(const H5FD_t* file, H5FD_mem_t /*type*/) { return opened(file)->image->end(); }

herr_t set_end(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t end) {
  opened(file)->image->set_end(end);
  return 0;
}

herr_t read_image(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t at, std::size_t bytes,
                  void* out) {
  opened(file)->image->read(at, {static_cast<std::byte*>(out), bytes});
  return 0;
}

herr_t write_image(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t at, std::size_t bytes,
                   const void* data) {
  try {
    opened(file)->image->write(at, {static_cast<const std::byte*>(data), bytes});
  } catch (const std::exception&) {
    return -1;  // C code calls this
  }
  return 0;
}

H5FD_class_t driver_class() {
  H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(511);  // for private use; address_file.cpp has 510
#endif
  driver.name = "rota_sparse_image";
  driver.maxaddr = haddr_t{1} << 62;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.fapl_size = sizeof(AccessInfo);
  driver.open = open_image;
  driver.close = close_image;
  driver.query = query;
  driver.get_eoa = get_end;
  driver.set_eoa = set_end;
  driver.get_eof = get_end;
  driver.read = read_image;
  driver.write = write_image;
  std::ranges::fill(driver.fl_map, H5FD_MEM_DEFAULT);
  return driver;
}

}  // namespace

void SparseImage::read(std::uint64_t at, std::span<std::byte> out) const {
  while (!out.empty()) {
    const std::uint64_t in_page = at % kImagePageBytes;
    const std::size_t count = std::min<std::uint64_t>(out.size(), kImagePageBytes - in_page);
    if (const auto page = pages_.find(at / kImagePageBytes); page != pages_.end()) {
      std::memcpy(out.data(), page->second.data() + in_page, count);
    } else {
      std::memset(out.data(), 0, count);
    }
    out = out.subspan(count);
    at += count;
  }
}

void SparseImage::write(std::uint64_t at, std::span<const std::byte> data) {
  while (!data.empty()) {
    const std::uint64_t in_page = at % kImagePageBytes;
    const std::size_t count = std::min<std::uint64_t>(data.size(), kImagePageBytes - in_page);
    std::vector<std::byte>& page = pages_[at / kImagePageBytes];
    page.resize(kImagePageBytes);
    std::memcpy(page.data() + in_page, data.data(), count);
    data = data.subspan(count);
    at += count;
  }
}

SparseImageDriver::SparseImageDriver(SparseImage& image) : image_(&image) {
  const H5FD_class_t driver = driver_class();
  driver_ = {H5FDregister(&driver), "register an HDF5 driver"};
}

void SparseImageDriver::use(const hdf5::Properties& access) const {
  const AccessInfo info{image_};
  hdf5::check(H5Pset_driver(access.get(), driver_.get(), &info), "set an HDF5 driver");
}

}  // namespace rota::checkpoint
