#pragma once

#include <map>
#include <string>

#include "files/dataset_file.hpp"

namespace rota::internal {

/// What an index.json of MDS says of the bytes of a file: hexadecimal digits, by the name of the function.
using MdsHashes = std::map<std::string, std::string>;

/// Reads all of `file`. Throws Error{corrupt} where a hash is not what it should be, Error{unsupported} where
/// there is none that rota can check.
void verify_mds_hash(const DatasetFile& file, const MdsHashes& hashes);

}  // namespace rota::internal
