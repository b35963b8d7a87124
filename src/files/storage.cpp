#include "rota/storage.hpp"

#include "rota/error.hpp"

namespace rota {

void Storage::write(std::string_view name, std::uint64_t /*bytes*/,
                    const std::function<void(std::uint64_t, std::span<std::byte>)>& /*fill*/) const {
  throw Error(ErrorCode::unsupported, "write " + std::string(name) + ": this storage is only read");
}

void Storage::remove(std::string_view name) const {
  throw Error(ErrorCode::unsupported, "remove " + std::string(name) + ": this storage is only read");
}

}  // namespace rota
