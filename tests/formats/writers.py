"""Writers of formats, by their descriptions or Python's own libraries: none of rota's code has a part in them.

write.py and the scripts of tests import them; NumPy is imported where it is needed, for it takes its time.
"""

import io
import json
import math
import os
import struct
import subprocess
import tarfile


def add(tar, name, data=b"", **more):
    """Adds a member to an open tar file."""
    member = tarfile.TarInfo(name)
    member.size = len(data)
    for key, value in more.items():
        setattr(member, key, value)
    tar.addfile(member, io.BytesIO(data))


def write_tar(name, members, form=tarfile.GNU_FORMAT):
    """Writes a tar file of pairs of a name and bytes."""
    with tarfile.open(name, "w", format=form, encoding="utf-8", errors="surrogateescape") as tar:
        for member, data in members:
            add(tar, member, data)


def zstd(data, *options):
    return subprocess.run(["zstd", "-q", *options], input=data, stdout=subprocess.PIPE, check=True).stdout


def write_tfrecord(name, records):
    with open(name, "wb") as out:
        for record in records:
            length = struct.pack("<Q", len(record))
            out.write(length + masked_crc32c(length) + record + masked_crc32c(record))


def masked_crc32c(data):
    """CRC32C by its definition, as it stands in a TFRecord file."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_OF_BYTE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def crc_of_byte(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC_OF_BYTE = [crc_of_byte(byte) for byte in range(256)]


def write_megatron(name, dtype, code, documents, version=1, index=None, places=None, modes=b""):
    """Writes name.idx and name.bin, where a document is a list of the lengths of its sequences. Returns the
    bytes of each sequence. What is given as `index`, the document index, or `places`, of sequences, stands in
    place of what is right; `modes` stand at the end.
    """
    import numpy as np

    lengths = [length for document in documents for length in document]
    sequences = [np.random.default_rng(i).integers(0, 100, n).astype(dtype).tobytes() for i, n in enumerate(lengths)]
    if index is None:
        index = np.cumsum([0] + [len(document) for document in documents])
    if places is None:
        places = np.cumsum([0] + [len(sequence) for sequence in sequences])[:-1]
    with open(name + ".bin", "wb") as out:
        out.write(b"".join(sequences))
    with open(name + ".idx", "wb") as out:
        out.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", version, code, len(lengths), len(index)))
        out.write(np.array(lengths, "i4").tobytes() + np.array(places, "i8").tobytes())
        out.write(np.array(index, "i8").tobytes() + modes)
    return sequences


def joined(documents, sequences):
    """The bytes of each document."""
    rest = iter(sequences)
    return [b"".join(next(rest) for _ in document) for document in documents]


def encode(encoding, value):
    import numpy as np

    kind, _, arguments = encoding.partition(":")
    if kind == "str":
        return value.encode()
    if kind == "int":
        return np.int64(value).tobytes()
    if kind == "ndarray" and not isinstance(value, bytes):
        array, shape = np.asarray(value, arguments.split(":")[0]), b""
        if arguments.count(":") == 0:
            code = 0 if max(array.shape) < 256 else 1 if max(array.shape) < 65536 else 2
            shape = bytes([array.ndim << 2 | code]) + np.array(array.shape, f"u{1 << code}").tobytes()
        return shape + array.tobytes()
    return value if isinstance(value, bytes) else np.dtype(kind).type(value).tobytes()


def size_of(encoding):
    """Of a column of a fixed size, else None."""
    kind, _, arguments = encoding.partition(":")
    if kind == "ndarray" and ":" in arguments:
        dtype, shape = arguments.split(":")
        return len(encode("ndarray:" + dtype + ":", 0)) * math.prod(int(extent) for extent in shape.split(","))
    return 8 if kind in ("int", "float64") else None


def write_mds(columns, shards, names=None):
    """Writes MosaicML's shards, called `names`, and their index."""
    fields = sorted(columns)
    sizes = [size_of(columns[field]) for field in fields]
    config = dict(column_names=fields, column_encodings=[columns[field] for field in fields], column_sizes=sizes,
                  compression=None, format="mds", hashes=[], size_limit=1 << 26, version=2)
    text = json.dumps(config).encode()
    index = []
    for number, samples in enumerate(shards):
        bodies = []
        for sample in samples:
            data = [encode(columns[field], sample[field]) for field in fields]
            lengths = [len(part) for part, size in zip(data, sizes) if size is None]
            bodies.append(struct.pack(f"<{len(lengths)}I", *lengths) + b"".join(data))
        offsets = [8 + 4 * len(samples) + len(text)]
        for body in bodies:
            offsets.append(offsets[-1] + len(body))
        shard = struct.pack(f"<{len(offsets) + 1}I", len(samples), *offsets) + text + b"".join(bodies)
        name = names[number] if names else f"shard.{number:05}.mds"
        with open(name, "wb") as out:
            out.write(shard)
        raw = dict(basename=name, bytes=len(shard), hashes={})
        index.append(dict(config, raw_data=raw, samples=len(samples), zip_data=None))
    write_index(index)


def write_index(shards):
    with open("index.json", "w") as out:
        json.dump(dict(version=2, shards=shards), out)


def read_index():
    with open("index.json") as file:
        return json.load(file)["shards"]


def change(number, **values):
    """Changes what the index says of a shard."""
    shards = read_index()
    shards[number].update(values)
    write_index(shards)


def pack(numbers, *options, keep=False):
    """Compresses some shards by the tool zstd."""
    names = [f"shard.{number:05}.mds" for number in numbers]
    subprocess.run(["zstd", "-q", "-f", *options, *([] if keep else ["--rm"]), *names], check=True)
    shards = read_index()
    for number, name in zip(numbers, names):
        os.rename(name + ".zst", name + ".zstd")
        zipped = dict(basename=name + ".zstd", bytes=os.path.getsize(name + ".zstd"), hashes={})
        shards[number].update(compression="zstd:3", zip_data=zipped)
    write_index(shards)
