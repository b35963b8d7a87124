#include "catalog/names.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rota {

void NameList::add(std::string_view directory, std::string_view name) {
  starts_.push_back(text_.size());
  if (!directory.empty()) text_.append(directory).push_back('/');
  text_.append(name).push_back('\0');
}

void NameList::sort() {
  const char* text = text_.data();
  std::sort(starts_.begin(), starts_.end(),
            [text](std::uint64_t a, std::uint64_t b) { return std::strcmp(text + a, text + b) < 0; });
  std::string ordered;
  ordered.reserve(text_.size());
  for (std::uint64_t& start : starts_) {
    const char* name = text + start;
    start = ordered.size();
    ordered.append(name).push_back('\0');
  }
  text_ = std::move(ordered);
  starts_.shrink_to_fit();
}

}  // namespace rota
