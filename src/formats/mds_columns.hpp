#pragma once

// The columns of MosaicML's shards (MDS): how their encodings lie in a sample, and as what fields they are
// read.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/records.hpp"
#include "rota/source.hpp"

namespace rota::internal {

/// One column of a sample.
struct MdsColumn {
  std::string name;
  std::string encoding;               ///< as index.json has it
  std::optional<std::uint32_t> size;  ///< in bytes; nothing: it differs, and stands before the columns
  std::optional<Field> field;         ///< nothing: rota cannot read it
  bool has_shape = false;             ///< an array, with its shape before its values
  bool is_list = false;               ///< encoded images, with their sizes before them

  friend bool operator==(const MdsColumn&, const MdsColumn&) = default;
};

/// The column `name` of this encoding and size. Throws Error{corrupt}, headed by `where`, where the two
/// disagree.
MdsColumn make_mds_column(std::string name, std::string encoding, std::optional<std::uint32_t> size,
                          const std::string& where);

/// The encoding of a column that is read as this field; empty without one.
std::string mds_encoding(const Field& field);

/// Puts the shape of an array of one dimension, which stands before its values.
void append_mds_shape(std::string& to, std::size_t elements);

/// A field, and what of which column it is.
struct ChosenField {
  std::size_t column = 0;
  bool is_head = false;  ///< what stands before the values
  Field field;
};
inline constexpr std::string_view kShape = ".shape";

/// The `wanted` columns, or all, in order; of lists, the sizes behind them. Throws Error{unsupported} for one
/// that rota cannot read, Error{not_found}; `path` is that of the index.
std::vector<ChosenField> choose_fields(const std::vector<MdsColumn>& columns,
                                       const std::vector<std::string>& wanted, const std::string& path);

/// What stands before the values, and these.
struct MdsParts {
  ByteRange head;
  ByteRange values;
  std::uint64_t count = 0;  ///< of extents or sizes
};
/// Of an array, a byte and its extents; of a list, the sizes of what is in it. In `range` of `file`. Throws
/// Error{corrupt}.
MdsParts split_mds_value(const DatasetFile& file, const MdsColumn& column, ByteRange range);

}  // namespace rota::internal
