#pragma once

// A writer of MosaicML's shards that is not ours, by NumPy.

namespace rota::test {

/// In Python: `write(columns, shards)` writes shards and their index; `pack(numbers, options)` compresses
/// some of them by the tool zstd, and `change(number, **values)` changes what the index says of one.
inline constexpr const char* kMdsWriter = R"(
import json, subprocess, numpy as np
def encode(encoding, value):
    kind, _, arguments = encoding.partition(':')
    if kind == 'str':
        return value.encode()
    if kind == 'int':
        return np.int64(value).tobytes()
    if kind == 'ndarray':
        array, shape = np.asarray(value, arguments.split(':')[0]), b''
        if arguments.count(':') == 0:
            code = 0 if max(array.shape) < 256 else 1 if max(array.shape) < 65536 else 2
            shape = bytes([array.ndim << 2 | code]) + np.array(array.shape, f'u{1 << code}').tobytes()
        return shape + array.tobytes()
    return value if isinstance(value, bytes) else np.dtype(kind).type(value).tobytes()
def size_of(encoding):
    kind, _, arguments = encoding.partition(':')
    if kind == 'int':
        return 8
    if kind == 'ndarray':
        parts = arguments.split(':')
        return int(np.prod([int(n) for n in parts[1].split(',')])) * np.dtype(parts[0]).itemsize if len(parts) > 1 else None
    return None if kind in ('str', 'bytes', 'json', 'jpeg', 'pkl') else np.dtype(kind).itemsize
def write(columns, shards, **more):
    names = sorted(columns)
    config = dict(column_names=names, column_encodings=[columns[n] for n in names],
                  column_sizes=[size_of(columns[n]) for n in names], compression=None, format='mds', hashes=[],
                  size_limit=1 << 26, version=2)
    text = json.dumps(config).encode()
    index = []
    for number, samples in enumerate(shards):
        bodies = []
        for sample in samples:
            data = [encode(columns[n], sample[n]) for n in names]
            sizes = [len(d) for n, d in zip(names, data) if size_of(columns[n]) is None]
            bodies.append(np.array(sizes, 'u4').tobytes() + b''.join(data))
        begin = 4 + 4 * (len(samples) + 1) + len(text)
        offsets = np.array([begin] + [len(b) for b in bodies]).cumsum().astype('u4')
        shard = np.uint32(len(samples)).tobytes() + offsets.tobytes() + text + b''.join(bodies)
        name = f'shard.{number:05}.mds'
        open(name, 'wb').write(shard)
        index.append(dict(config, raw_data=dict(basename=name, bytes=len(shard), hashes={}),
                          samples=len(samples), zip_data=None, **more))
    json.dump(dict(version=2, shards=index), open('index.json', 'w'))
def change(number, **values):
    index = json.load(open('index.json'))
    index['shards'][number].update(values)
    json.dump(index, open('index.json', 'w'))
def pack(numbers, *options, keep=False):
    names = [f'shard.{number:05}.mds' for number in numbers]
    subprocess.run(['zstd', '-q', '-f', *options, *([] if keep else ['--rm']), *names], check=True)
    index = json.load(open('index.json'))
    for number, name in zip(numbers, names):
        size = os.path.getsize(name + '.zst')
        os.rename(name + '.zst', name + '.zstd')
        index['shards'][number].update(compression='zstd:3', zip_data=dict(basename=name + '.zstd', bytes=size, hashes={}))
    json.dump(index, open('index.json', 'w'))
)";

}  // namespace rota::test
