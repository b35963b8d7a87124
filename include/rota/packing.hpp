#pragma once

// Documents of all lengths packed into sequences of one length, no token lost or repeated. Next: windows.hpp.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "rota/source.hpp"

namespace rota {

namespace mpi {
class Communicator;
}

/// How documents are packed. All but `threads` makes the dataset, and must be the same on resume.
struct PackOptions {
  std::int64_t length = 2048;  ///< tokens in a sequence: 1 to 2^31 - 1
  /// Tokens put before and after every document, empty ones included; they belong to their document.
  std::optional<std::int64_t> bos = {};
  std::optional<std::int64_t> eos = {};
  std::int64_t pad = 0;           ///< fills up the last sequence
  std::uint64_t seed = 0;         ///< of the order of documents, which is one for the whole run
  bool shuffle_documents = true;  ///< else documents stand as they do in their source
  std::string field = {};         ///< that holds the tokens; empty: the only ragged one of integers
  int threads = 8;                ///< of each rank, up to 4,096, that ask for the lengths of documents

  /// Throws Error{invalid_argument} naming the option, its value and what it may be.
  void validate() const;
};

/// The tokens of `documents` as sequences of `options.length`: all documents, in an order of their own, stand
/// one behind the other, and sequence i is tokens [i x length, (i + 1) x length) of that. So there are
/// ceil(tokens / length) of them, each token is in one of them, once, and a Loader over them shuffles them
/// anew each epoch, and resumes at any world, to the token. A document may go on in the next sequence, and
/// documents without any token are nowhere. The fields, all [length]:
///
/// - the tokens, under the name and in the type of their field in `documents`, whose other fields are left
/// out;
/// - `segment_ids`, int32: 1 for the tokens of the first document that has some in this sequence, 2 for the
///   second, and so on; 0 for padding, which only the last sequence has, at its end. So it is the mask, too;
/// - `position_ids`, int32: how many tokens of the same segment come before, in this sequence: it begins at 0
///   with each segment, also with one that goes on from the sequence before; 0 for padding.
///
/// Tokens are read by Source::read_rows straight into the batch. Where sequences begin follows from where
/// documents end, which takes 8 bytes a document, once on each node, in memory that its ranks share (twice
/// that while it is made), and is found out by all ranks and threads together: Source::rows is asked once for
/// each document, by several threads. The fingerprint is of that of `documents`, the options and the number
/// of tokens; `where` names the first document of a sequence.
///
/// Ranks that pack together share this work, and the memory on each node: **collective** over `comm`, which
/// is not kept. Without it each process does it all. Throws on all ranks what it throws on one: as
/// `options.validate()` and Source::rows do; Error{invalid_argument} for null `documents`, a token that the
/// type of the field does not hold, a field that is not one of integers and ragged, or where it is not clear
/// which, Error{mismatch} for documents or options that differ from rank to rank; Error{not_found} for a
/// field that there is not, Error{out_of_range} for more than 2^62 tokens, Error{callback} for a size or
/// fields that cannot be, and Error{io} where there is no memory for where documents end.
std::shared_ptr<const Source> pack(const mpi::Communicator& comm, std::shared_ptr<const Source> documents,
                                   const PackOptions& options);
std::shared_ptr<const Source> pack(std::shared_ptr<const Source> documents, const PackOptions& options);

}  // namespace rota
