"""Makes a small dataset in the current directory: write.py FORMAT. None of rota's code has a part in it.

Each has odd file names where the format allows them, empty samples, and a file of a single sample.
"""

import io
import json
import os
import random
import struct
import sys
import tarfile

import h5py
import numpy as np

# In byte-wise order.
ODD_NAMES = [b"a b", b"new\nline", b"not\xff\xfeutf8", "\u00e9t\u00e9".encode()]


def names(suffix):
    return [os.fsdecode(name + suffix) for name in ODD_NAMES]


def some_bytes(i):
    return b"" if i % 7 == 3 else random.randbytes(random.randrange(1, 2000))


def files():
    for i in range(60):
        directory = os.fsdecode(ODD_NAMES[i % 4])
        os.makedirs(directory, exist_ok=True)
        name = (b"%d" % i, b"%d file" % i, b"%d\nfile" % i, b"%d\xff" % i)[i // 4 % 4]
        with open(os.path.join(directory, os.fsdecode(name)), "wb") as out:
            out.write(some_bytes(i))


def hdf5():
    for name, rows in zip(names(b".h5"), (30, 1, 0, 33)):
        lengths = [i * i % 11 for i in range(rows)]
        with h5py.File(name, "w") as out:
            out["x"] = np.random.default_rng(rows).random((rows, 3, 2))
            out.create_dataset("group/packed", data=np.arange(rows * 5).reshape(rows, 5), maxshape=(None, 5),
                               chunks=(4, 3), compression="gzip", shuffle=True)
            out["text"] = np.frombuffer(random.randbytes(sum(lengths)), "u1")
            out["text_offsets"] = np.cumsum([0] + lengths)


def tar():
    formats = (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT)
    first = 0
    for name, samples, kind in zip(names(b".tar"), (25, 1, 24, 14), formats):
        with tarfile.open(name, "w", format=kind, encoding="utf-8", errors="surrogateescape") as out:
            for i in range(first, first + samples):
                stem = os.fsdecode(ODD_NAMES[i % 4] + b"/%03d" % i)
                if i == 0 or i % 5:
                    add_member(out, stem + ".cls", b"%d" % i)
                add_member(out, stem + ".JPG", some_bytes(i))
        first += samples


def add_member(out, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    out.addfile(member, io.BytesIO(data))


def tfrecord():
    for name, records in zip(names(b".tfrecord"), (30, 1, 0, 33)):
        with open(name, "wb") as out:
            for i in range(records):
                data = some_bytes(i)
                length = struct.pack("<Q", len(data))
                out.write(length + masked_crc32c(length) + data + masked_crc32c(data))


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def lines():
    for name, count in zip(names(b".txt"), (30, 1, 0, 33)):
        ends = [random.choice((b"\n", b"\r\n")) for _ in range(count)]
        text = b"".join(some_bytes(i).translate(None, b"\r\n") + end for i, end in enumerate(ends))
        with open(name, "wb") as out:
            out.write(text if count != 30 else text + b"a last line without an end")


def npy():
    for name, rows in zip(names(b".npy"), (30, 1, 0, 33)):
        with open(name, "wb") as out:
            array = np.random.default_rng(rows).random((rows, 4, 3)).astype("f4")
            np.lib.format.write_array(out, array, version=(2, 0) if rows == 30 else (1, 0))


def npz():
    for i in range(60):
        name = os.fsdecode(ODD_NAMES[i % 4] + b" %d.npz" % i)
        save = np.savez if i % 3 else np.savez_compressed
        save(name, **{"a label": np.int64(i), "tokens": np.arange(i % 6, dtype="u2"),
                      "x": np.asfortranarray(np.random.default_rng(i).random((5, 4)))})


def tokens():
    length = 2048
    for name, count in zip(names(b".bin"), (30 * length + 7, length, length - 1, 29 * length)):
        np.random.default_rng(count).integers(0, 1 << 16, count, dtype="u2").tofile(name)


def megatron():
    for idx, data, count in zip(names(b".idx"), names(b".bin"), (30, 1, 0, 33)):
        # Documents of 0 to 3 sequences, some of them empty.
        splits = [1 if count == 1 else i % 4 for i in range(count)]
        lengths = [i * 37 % 50 for i in range(sum(splits))]
        sequences = [np.random.default_rng(n).integers(0, 100, n).astype("i4") for n in lengths]
        with open(data, "wb") as out:
            out.write(b"".join(sequence.tobytes() for sequence in sequences))
        with open(idx, "wb") as out:
            out.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, len(lengths), count + 1))
            out.write(np.array(lengths, "i4").tobytes())
            out.write((np.cumsum([0] + lengths)[:len(lengths)] * 4).astype("i8").tobytes())
            out.write(np.cumsum([0] + splits).astype("i8").tobytes())


# The names are of JSON, and in an order of their own.
def mds():
    shards = []
    config = {"column_encodings": ["int", "str", "ndarray:uint16"], "column_names": ["id", "text", "tokens"],
              "column_sizes": [8, None, None], "compression": None, "format": "mds", "hashes": [],
              "size_limit": 1 << 20, "version": 2}
    first = 0
    for name, count in zip(("\u00e9t\u00e9.mds", "new\nline.mds", "a b.mds", "0.mds"), (30, 1, 0, 33)):
        bodies = []
        for i in range(first, first + count):
            text = ("\u00e9" * (i % 5)).encode()
            tokens = bytes([1 << 2, i % 7]) + np.arange(i % 7, dtype="u2").tobytes()
            bodies.append(struct.pack("<IIq", len(text), len(tokens), -i) + text + tokens)
        head = json.dumps(config).encode()
        offsets = np.cumsum([4 + 4 * (count + 1) + len(head)] + [len(body) for body in bodies]).astype("u4")
        shard = struct.pack("<I", count) + offsets.tobytes() + head + b"".join(bodies)
        with open(name, "wb") as out:
            out.write(shard)
        raw = {"basename": name, "bytes": len(shard), "hashes": {}}
        shards.append(dict(config, raw_data=raw, samples=count, zip_data=None))
        first += count
    with open("index.json", "w") as out:
        json.dump({"version": 2, "shards": shards}, out)


random.seed(1)
globals()[sys.argv[1]]()
