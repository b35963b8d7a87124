#include "formats/hdf5/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/failure.hpp"
#include "files/descriptor.hpp"

namespace rota::internal {
namespace {

constexpr int kMostLinks = 16;  // as HDF5 has it

// From the root, without what means nothing.
std::string clean(std::string_view name) {
  std::string result;
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('/'));
    name.remove_prefix(std::min(part.size() + 1, name.size()));
    if (!part.empty() && part != ".") result.append("/").append(part);
  }
  return result.empty() ? "/" : result;
}

// What a link says.
std::vector<char> value_of(hid_t file, const std::string& name, std::size_t bytes, const std::string& what) {
  std::vector<char> value(bytes + 1);  // ends with a zero, whatever the file has
  hdf5::check(H5Lget_val(file, name.c_str(), value.data(), bytes, H5P_DEFAULT), what);
  return value;
}

// A callback of C, through which nothing may be thrown: adds the name of what is of a type, or `is_not`.
template <int type, bool is_not = false, typename Info>
herr_t add_name(hid_t /*root*/, const char* name, const Info* info, void* names) noexcept {
  if ((info->type == type) == is_not) return 0;
  auto& all = *static_cast<std::vector<std::string>*>(names);
  return thrown_by([&] { all.push_back(fmt::format("/{}", name)); }) == nullptr ? 0 : -1;
}

}  // namespace

/// Another file.
struct Hdf5Links::Other {
  Other(DatasetFile opened, Hdf5Reads& reads)
      : bytes(std::move(opened)),
        file(bytes.path(), reads.of(bytes)),
        subject{file, bytes.path(), bytes.bytes()} {}

  DatasetFile bytes;
  hdf5::AddressFile file;
  Hdf5Subject subject;
};

Hdf5Object Hdf5Links::follow(const std::string& name) {
  const std::string what = from_.what(name);
  Hdf5Object at{.subject = &from_, .name = clean(name)};
  for (int links = 0; links <= kMostLinks; ++links) {
    if (!step(at, what)) return at;
  }
  throw failure(ErrorCode::unsupported, "{} leads through more than {} links; link to the data", what,
                kMostLinks);
}

std::vector<std::string> Hdf5Links::external() const {
  std::vector<std::string> names;
  hdf5::check(H5Lvisit(from_.file.get(), H5_INDEX_NAME, H5_ITER_NATIVE, add_name<H5L_TYPE_EXTERNAL>, &names),
              fmt::format("list the links of {}", from_.path));
  return names;
}

std::vector<std::string> Hdf5Links::datasets() const {
  std::vector<std::string> names;
  if (from_.may_leave) names = external();
  hdf5::check(H5Ovisit2(from_.file.get(), H5_INDEX_NAME, H5_ITER_NATIVE, add_name<H5O_TYPE_DATASET>, &names,
                        H5O_INFO_BASIC),
              fmt::format("list the datasets of {}", from_.path));
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Hdf5Links::datasets_by_all_names() const {
  constexpr std::size_t kMostNames = 10'000'000;  // of links to what has many
  const std::vector<std::string> known = datasets();
  std::set<std::string> all(known.begin(), known.end());
  std::vector<std::string> links;
  const std::string what = fmt::format("list the links of {}", from_.path);
  hdf5::check(
      H5Lvisit(from_.file.get(), H5_INDEX_NAME, H5_ITER_NATIVE, add_name<H5L_TYPE_EXTERNAL, true>, &links),
      what);
  for (const std::string& link : links) {
    const auto next = all.lower_bound(link);
    if (next != all.end() && (*next == link || next->starts_with(link + "/"))) continue;
    const hid_t id = H5Oopen(from_.file.get(), link.c_str(), H5P_DEFAULT);
    H5Eclear2(H5E_DEFAULT);
    if (id < 0) continue;  // it leads nowhere
    const hdf5::Object object(id, what);
    std::vector<std::string> below;
    if (H5Iget_type(id) == H5I_DATASET) below.emplace_back();
    if (H5Iget_type(id) == H5I_GROUP)
      hdf5::check(
          H5Ovisit2(id, H5_INDEX_NAME, H5_ITER_NATIVE, add_name<H5O_TYPE_DATASET>, &below, H5O_INFO_BASIC),
          what);
    for (const std::string& name : below) all.insert(link + name);
    if (all.size() > kMostNames)
      throw failure(ErrorCode::unsupported, "{}: they give its datasets more than {} names", what,
                    kMostNames);
  }
  return {all.begin(), all.end()};
}

// Puts what the first link in the name leads to in its place; false where there is none.
bool Hdf5Links::step(Hdf5Object& at, const std::string& what) {
  const hid_t file = at.subject->file.get();
  for (std::size_t end = 0; end != std::string::npos;) {
    end = at.name.find('/', end + 1);
    const std::string part = at.name.substr(0, end);
    const std::string rest = end == std::string::npos ? "" : at.name.substr(end);
    H5L_info_t info{};
    const herr_t status = H5Lget_info(file, part.c_str(), &info, H5P_DEFAULT);
    H5Eclear2(H5E_DEFAULT);
    if (status < 0) return false;
    if (info.type == H5L_TYPE_SOFT) {
      const std::string target = value_of(file, part, info.u.val_size, what).data();
      const std::string group = target.starts_with('/') ? "" : part.substr(0, part.rfind('/') + 1);
      at.name = clean(fmt::format("{}{}{}", group, target, rest));
      return true;
    }
    if (info.type == H5L_TYPE_EXTERNAL) {
      const std::vector<char> value = value_of(file, part, info.u.val_size, what);
      const char* name = nullptr;
      const char* object = nullptr;
      hdf5::check(H5Lunpack_elink_val(value.data(), info.u.val_size, nullptr, &name, &object), what);
      at.name = clean(object + rest);
      at.is_linked = at.is_linked || rest.empty();
      leave(at, name, what);
      return true;
    }
  }
  return false;
}

// `at.name` is already that in the other file.
void Hdf5Links::leave(Hdf5Object& at, const std::string& file, const std::string& what) {
  if (!from_.may_leave) {
    throw failure(ErrorCode::unsupported,
                  "{} leads by an external link into another file, {}; open that file, copy the data, or "
                  "follow such links with the option allow_external_links",
                  what, file);
  }
  if (at.subject->is_stored) {
    throw failure(ErrorCode::unsupported,
                  "{} leads by an external link into another file, {}; from a storage they are not followed: "
                  "copy the data",
                  what, file);
  }
  const std::filesystem::path from = at.subject->path;
  std::filesystem::path path = from.parent_path() / file;
  std::error_code error;
  bool is_file = std::filesystem::is_regular_file(path, error);
  if (const auto real = std::filesystem::canonical(from, error).parent_path() / file; !is_file && !error) {
    is_file = std::filesystem::is_regular_file(real, error);  // beside what a symbolic link leads to
    if (is_file) path = real;
  }
  Descriptor opened = is_file ? open_for_reading(AT_FDCWD, path.c_str()) : Descriptor();
  if (!opened.is_open()) {
    throw failure(ErrorCode::not_found,
                  "{} leads by an external link in {} to \"{}\" in {}, which is no file that can be read; "
                  "restore it, or write the link anew",
                  what, at.subject->path, at.name, path.native());
  }
  std::shared_ptr<Other>& other = others_[path.native()];
  if (other == nullptr) {
    other = std::make_shared<Other>(DatasetFile(path.native(), 0, std::move(opened)), reads_);
    require_finished(other->bytes, reads_.of(other->bytes));
  }
  at.subject = &other->subject;
  at.link = file;
}

}  // namespace rota::internal
