#pragma once

// Packs documents of any length into sequences of one length. No token is lost or repeated. Next:
// windows.hpp.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rota/lengths.hpp"
#include "rota/source.hpp"

namespace rota {

class Communicator;

/// How documents are laid into sequences.
enum class Fit {
  concat,  ///< one behind the other, and cut where a sequence is full
  best,    ///< whole, the longest first, each where it leaves the least room
};

/// How documents are packed. All but `cut_longer` and `threads` define the dataset, and must be the same on
/// resume.
struct PackOptions {
  std::int64_t length = 2048;  ///< tokens in a sequence: 1 to 2^31 - 1
  /// Tokens put before and after every document, even an empty one. They belong to their document.
  std::optional<std::int64_t> bos = {};
  std::optional<std::int64_t> eos = {};
  std::int64_t pad = 0;  ///< fills up what no document does
  Fit fit = Fit::concat;
  bool cut_longer = true;         ///< Fit::best cuts documents longer than a sequence; else it refuses them
  std::uint64_t seed = 0;         ///< of the order of documents
  bool shuffle_documents = true;  ///< else they keep the order of their source; Fit::best: by length
  std::string field = {};         ///< of the tokens; empty: the only ragged field of integers
  /// More ragged fields of scalars with a value for each token, such as labels, packed alike. By name, what
  /// stands at bos, eos and padding: {{"labels", -100}}.
  std::map<std::string, std::int64_t> fields = {};
  int threads = 8;  ///< of each rank, to ask for documents' lengths; up to 4,096

  /// Throws Error{invalid_argument} naming the option, its value and what it may be.
  void validate() const;
};

/// Packs the tokens of `documents` into sequences of `options.length`. No token is lost or repeated, and none
/// waits in a buffer. A Loader shuffles the sequences anew each epoch, and resumes to the token in any world.
///
/// **Fit::concat** puts documents one behind the other, and cuts every `length` tokens. A document may
/// continue in the next sequence. For length 4 and the documents `a a a`, `b b b` and `c`:
///
///      tokens        a a a b | b b c 0      Fit::best:   a a a c | b b b 0
///      segment_ids   1 1 1 2 | 1 1 2 0                   1 1 1 2 | 1 1 1 0
///      position_ids  0 1 2 0 | 0 1 0 0                   0 1 2 0 | 0 1 2 0
///
/// **Fit::best** lays documents whole. One that is longer than a sequence is cut into whole sequences and a
/// rest, which is laid like a document. Which lengths stand together depends on lengths alone. So size and
/// fingerprint stay, and in each epoch documents of the same length change places. Without shuffle_documents
/// they keep the order of their source. The sequences are numbered at random either way, lest the longest
/// documents come first. Where most documents exceed half a sequence it fills badly, which it says once.
///
/// All fields are [length]:
/// - The tokens, with the name and type of their field in `documents`. Other fields are dropped.
/// - `segment_ids`, int32: the documents with tokens in this sequence, numbered from 1. 0 is padding, at the
///   end; under Fit::concat of the last sequence only. So this is the mask, too.
/// - `position_ids`, int32: the token's number in its segment, from 0 in each sequence. 0 for padding.
/// - `options.fields`, in the order of their names.
///
/// Cost: one call of Source::rows for each document, and for each of `options.fields`, by all ranks and
/// threads together. Where documents are takes 8 bytes a document in memory that a node's ranks share, and 20
/// while it is computed; under Fit::best mostly 4 and 12. Source::read_rows reads tokens straight into the
/// batch. The fingerprint covers that of `documents`, the options and the number of tokens, under Fit::best
/// all lengths. `where` names a sequence's first document, under Fit::best that of epoch 0.
///
/// **Collective** over `comm`, which is not kept. Without it, this process does all the work. Throws on all
/// ranks what it throws on one:
/// - what `options.validate()` and Source::rows throw
/// - Error{invalid_argument}: null `documents`; no single ragged field of integers; bos, eos or pad outside
///   its type; one of `options.fields` that is not ragged, of scalars; a document that is too long
///   (cut_longer)
/// - Error{mismatch}: documents or options differ between ranks; a document has fewer or more values in one
///   of `options.fields` than tokens
/// - Error{not_found}: no field named `options.field`, or as one of `options.fields`
/// - Error{out_of_range}: more than 2^62 tokens
/// - Error{callback}: an impossible size or fields
/// - Error{io}: no memory for where documents end
std::shared_ptr<const Source> pack(const Communicator& comm, std::shared_ptr<const Source> documents,
                                   const PackOptions& options);
std::shared_ptr<const Source> pack(std::shared_ptr<const Source> documents, const PackOptions& options);

/// The documents with tokens in sequence `id`, in order, as numbered in what was packed. Throws
/// Error{invalid_argument} where `packed` is not of `pack`, Error{out_of_range} without such a sequence.
/// `epoch`: of the sequence; only under Fit::best other documents are in it in each.
std::vector<SampleId> documents_of(const Source& packed, SampleId id, std::int64_t epoch = 0);

/// Of each sequence, the sum of the squares of what it has of each document: what attention inside documents
/// costs; and its tokens without padding, which divide a loss. Columns of a Balance. The same in all epochs.
/// O(documents). Throw as `packing_of` does.
Lengths squares_of(const Source& packed);
Lengths tokens_of(const Source& packed);

/// What packing made of the documents.
struct PackFacts {
  std::int64_t sequences = 0;
  std::int64_t documents = 0;  ///< that have tokens, bos and eos included
  std::int64_t cut = 0;        ///< of these, in more than one sequence
  std::int64_t tokens = 0;     ///< of all sequences, without padding
  double fill = 1;             ///< tokens / (sequences * length)
};

/// Under Fit::concat it looks at each document. Throws Error{invalid_argument} where `packed` is not of
/// `pack`.
PackFacts packing_of(const Source& packed);

}  // namespace rota
