#pragma once

// A writer of Megatron-LM's pairs of files that is not ours, by NumPy.

namespace rota::test {

/// In Python: `write(name, dtype, code, documents)` writes name.idx and name.bin, where a document is a list
/// of the lengths of its sequences, and returns the bytes of each sequence. What is given as `index`, the
/// document index, or `places`, of sequences, stands in place of what is right; `modes` stand at the end.
/// `joined(documents, sequences)` are the bytes of each document.
inline constexpr const char* kMegatronWriter = R"(
import numpy as np
def write(name, dtype, code, documents, version=1, index=None, places=None, modes=b''):
    lengths = [length for document in documents for length in document]
    sequences = [np.random.default_rng(i).integers(0, 100, n).astype(dtype).tobytes() for i, n in enumerate(lengths)]
    if index is None:
        index = np.cumsum([0] + [len(document) for document in documents])
    if places is None:
        places = np.cumsum([0] + [len(sequence) for sequence in sequences])[:-1]
    open(name + '.bin', 'wb').write(b''.join(sequences))
    with open(name + '.idx', 'wb') as out:
        out.write(b'MMIDIDX\0\0' + struct.pack('<QBQQ', version, code, len(lengths), len(index)))
        out.write(np.array(lengths, 'i4').tobytes() + np.array(places, 'i8').tobytes())
        out.write(np.array(index, 'i8').tobytes() + modes)
    return sequences
def joined(documents, sequences):
    rest = iter(sequences)
    return [b''.join(next(rest) for _ in document) for document in documents]
)";

}  // namespace rota::test
