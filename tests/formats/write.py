"""Makes a small dataset in the current directory: write.py FORMAT. None of rota's code has a part in it.

Each has odd file names where the format allows them, empty samples, and a file of a single sample.
"""

import os
import random
import sys
import tarfile

import h5py
import numpy as np

sys.dont_write_bytecode = True  # beside the sources
import writers  # noqa: E402

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
    for name, samples, form in zip(names(b".tar"), (25, 1, 24, 14), formats):
        members = []
        for i in range(first, first + samples):
            stem = os.fsdecode(ODD_NAMES[i % 4] + b"/%03d" % i)
            if i == 0 or i % 5:
                members.append((stem + ".cls", b"%d" % i))
            members.append((stem + ".JPG", some_bytes(i)))
        writers.write_tar(name, members, form)
        first += samples


def tfrecord():
    for name, records in zip(names(b".tfrecord"), (30, 1, 0, 33)):
        writers.write_tfrecord(name, [some_bytes(i) for i in range(records)])


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
        save(name, **{"a label": np.int64(i), "tokens": np.arange(i % 6, dtype=">u2"),
                      "x": np.asfortranarray(np.random.default_rng(i).random((5, 4)))})


def tokens():
    length = 2048
    for name, count in zip(names(b".bin"), (30 * length + 7, length, length - 1, 29 * length)):
        np.random.default_rng(count).integers(0, 1 << 16, count, dtype="u2").tofile(name)


def megatron():
    for name, count in zip(names(b""), (30, 1, 0, 33)):
        # Documents of 0 to 3 sequences, some of them empty.
        splits = [1 if count == 1 else i % 4 for i in range(count)]
        lengths = iter([i * 37 % 50 for i in range(sum(splits))])
        writers.write_megatron(name, "i4", 4, [[next(lengths) for _ in range(split)] for split in splits])


# The names are of JSON, and in an order of their own.
def mds():
    samples = [{"id": -i, "text": "\u00e9" * (i % 5), "tokens": np.arange(i % 7)} for i in range(64)]
    writers.write_mds({"id": "int", "text": "str", "tokens": "ndarray:uint16"},
                      [samples[:30], samples[30:31], [], samples[31:]],
                      ("\u00e9t\u00e9.mds", "new\nline.mds", "a b.mds", "0.mds"))


random.seed(1)
globals()[sys.argv[1]]()
