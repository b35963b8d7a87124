// Saves a checkpoint and restores it; finds rows in it, and in chunks, as the HDF5 source does; has S3
// refused.

#include <fcntl.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "files/dataset_file.hpp"
#include "formats/hdf5/file.hpp"
#include "hdf5/hdf5.hpp"
#include "rota/catalog.hpp"
#include "rota/checkpoint_directory.hpp"
#include "rota/error.hpp"

#ifndef H5_HAVE_PARALLEL
#error "this is to be built with a parallel HDF5"
#endif

namespace {

using Values = std::vector<std::int32_t>;

const Values kValues{1, -2, 3, -4, 5, -6, 7, -8};

void require(bool holds, const char* what) {
  if (!holds) throw rota::Error(rota::ErrorCode::corrupt, what);
}

Values read_at(const std::filesystem::path& file, std::uint64_t address, std::size_t count) {
  Values values(count);
  const auto bytes = std::as_writable_bytes(std::span(values));
  std::ifstream(file, std::ios::binary)
      .seekg(static_cast<std::streamoff>(address))
      .read(reinterpret_cast<char*>(bytes.data()), std::ssize(bytes));
  return values;
}

rota::internal::Hdf5Dataset ask(const std::filesystem::path& file, const std::string& dataset) {
  rota::internal::Hdf5Choice choice{.datasets = {dataset}};
  const rota::internal::DatasetFile opened(file.string(), 0,
                                           rota::internal::open_for_reading(AT_FDCWD, file.c_str()));
  return rota::internal::ask_file(opened, choice, false).fields.at(0).values;
}

std::filesystem::path save_and_restore(const std::filesystem::path& path) {
  rota::CheckpointDirectory directory({}, path);
  rota::Snapshot snapshot;
  snapshot.tensor("model/w", {2}, 4, kValues);
  snapshot.blob("state", "some text");
  const auto file = directory.save(7, snapshot).info.path;
  const auto checkpoint = directory.latest();
  require(checkpoint && checkpoint->read<std::int32_t>("model/w") == kValues, "restore a tensor");
  require(checkpoint->blob("state") == "some text", "restore a blob");
  return file;
}

// Of the second chunk of two; the first is never written.
std::filesystem::path write_chunks(const std::filesystem::path& path) {
  const auto guard = rota::hdf5::lock();
  const rota::hdf5::Properties creation(H5Pcreate(H5P_DATASET_CREATE), "make properties");
  const std::array<hsize_t, 1> rows{8};
  const std::array<hsize_t, 1> chunk{4};
  rota::hdf5::check(H5Pset_chunk(creation.get(), 1, chunk.data()), "set chunks");
  rota::hdf5::File file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "create a file");
  const rota::hdf5::Dataspace space(H5Screate_simple(1, rows.data(), nullptr), "make a space");
  const rota::hdf5::Dataset dataset(
      H5Dcreate2(file.get(), "x", H5T_STD_I32LE, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
      "create a dataset");
  rota::hdf5::check(
      H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, chunk.data(), nullptr, chunk.data(), nullptr),
      "select a chunk");
  const rota::hdf5::Dataspace memory(H5Screate_simple(1, chunk.data(), nullptr), "make a space");
  rota::hdf5::check(
      H5Dwrite(dataset.get(), H5T_NATIVE_INT32, memory.get(), space.get(), H5P_DEFAULT, kValues.data()),
      "write a chunk");
  return path;
}

std::string refusal_of(const char* path) {
  try {
    const rota::Catalog catalog(path);
    return "";
  } catch (const rota::Error& error) {
    return error.what();
  }
}

void run(const std::filesystem::path& work) {
  std::filesystem::remove_all(work);
  const auto saved = save_and_restore(work);
  require(read_at(saved, ask(saved, "/model/w").address, 8) == kValues, "find the rows of a tensor");
  const auto file = write_chunks(work / "chunks.h5");
  const auto chunks = ask(file, "/x").chunks;
  require(chunks.size() == 1 && chunks[0].number == 1, "find the chunk that is written");
  require(read_at(file, chunks[0].address, 4) == Values(kValues.begin(), kValues.begin() + 4),
          "find its rows");
  require(refusal_of("s3://bucket/x").ends_with("build it with -DROTA_REMOTE=ON"), "refuse S3");
}

}  // namespace

int main(int /*argc*/, char** argv) {
  try {
    run(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
