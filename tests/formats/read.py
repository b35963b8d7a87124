"""Compares traces with a dataset: read.py FORMAT DATA TRACES. None of rota's code has a part in it.

Reads the dataset by libraries that are not ours, or by the format's description, in the order that rota
promises, and expects every sample that was delivered to have the digest of what was read here.
"""

import ctypes
import json
import os
import struct
import sys
import tarfile

import h5py
import numpy as np

xxhash = ctypes.CDLL("libxxhash.so.0")
xxhash.XXH3_64bits.restype = ctypes.c_uint64
xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def paths(data, suffix=b""):
    found = []
    for directory, _, names in os.walk(data):
        found += [os.path.join(directory, name) for name in names if name.endswith(suffix)]
    return [os.fsdecode(path) for path in sorted(found)]


def content(path):
    with open(path, "rb") as file:
        return file.read()


def files(data):
    for path in paths(data):
        yield content(path)


def hdf5(data):
    for path in paths(data):
        with h5py.File(path) as file:
            offsets = file["text_offsets"][()]
            for i in range(len(offsets) - 1):
                text = file["text"][offsets[i]:offsets[i + 1]]
                yield file["group/packed"][i].tobytes() + text.tobytes() + file["x"][i].tobytes()


def tar(data):
    for path in paths(data):
        samples = {}
        with tarfile.open(path, encoding="utf-8", errors="surrogateescape") as file:
            for member in file:
                stem, extension = member.name.split(".")
                samples.setdefault(stem, {})[extension.lower()] = file.extractfile(member).read()
        for sample in samples.values():
            yield sample.get("cls", b"") + sample.get("jpg", b"")


def tfrecord(data):
    for path in paths(data):
        text = content(path)
        at = 0
        while at < len(text):
            length = struct.unpack_from("<Q", text, at)[0]
            yield text[at + 12:at + 12 + length]
            at += length + 16


def lines(data):
    for path in paths(data):
        *whole, last = content(path).replace(b"\r\n", b"\n").split(b"\n")
        yield from whole + ([last] if last else [])


def npy(data):
    for path in paths(data):
        for row in np.load(path):
            yield row.tobytes()


def npz(data):
    for path in paths(data):
        with np.load(path) as file:
            yield b"".join(file[name].astype(file[name].dtype.newbyteorder("=")).tobytes("C") for name in sorted(file))


def tokens(data):
    for path in paths(data):
        all_tokens = np.fromfile(path, "u2")
        for at in range(0, len(all_tokens) - 2047, 2048):
            yield all_tokens[at:at + 2048].tobytes()


def megatron(data):
    for path in paths(data, b".idx"):
        index, text = content(path), content(path[:-4] + ".bin")
        count, entries = struct.unpack_from("<QQ", index, 18)
        lengths = np.frombuffer(index, "i4", count, 34)
        places = np.frombuffer(index, "i8", count, 34 + 4 * count)
        firsts = np.frombuffer(index, "i8", entries, 34 + 12 * count)
        for first, last in zip(firsts, firsts[1:]):
            yield b"".join(text[places[i]:places[i] + 4 * lengths[i]] for i in range(first, last))


def mds(data):
    index = json.loads(content(os.path.join(data, b"index.json")))
    for shard in index["shards"]:
        text = content(os.path.join(data, shard["raw_data"]["basename"].encode()))
        count = struct.unpack_from("<I", text)[0]
        for at in np.frombuffer(text, "u4", count + 1, 4)[:-1]:
            text_bytes, array_bytes = struct.unpack_from("<II", text, at)
            number = text[at + 8:at + 16]
            rest = text[at + 16:at + 16 + text_bytes + array_bytes]
            yield number + rest[:text_bytes] + rest[text_bytes + 2:]


def delivered(traces):
    for name in sorted(os.listdir(traces)):
        with open(os.path.join(traces, name)) as file:
            for record in map(json.loads, file):
                if record["event"] == "batch":
                    for id, digest in zip(record["ids"], record["digests"]):
                        yield name, id, digest


def main(form, data, traces):
    samples = list(globals()[form](os.fsencode(data)))
    expected = ["%016x" % xxhash.XXH3_64bits(sample, len(sample)) for sample in samples]
    seen = set()
    for name, id, digest in delivered(traces):
        if digest != expected[id]:
            sys.exit(f"{name}: sample {id} is {digest}, and {expected[id]} in the dataset")
        seen.add(id)
    if seen != set(range(len(expected))):
        sys.exit(f"{len(seen)} of {len(expected)} samples were delivered")
    print(f"{len(expected)} samples, {len(set(expected))} of them different, as they are in the dataset")


main(*sys.argv[1:])
