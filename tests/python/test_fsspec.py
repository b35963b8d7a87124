"""Datasets, shards and checkpoints in file systems of fsspec."""

import asyncio
import errno
import pickle
import threading

import numpy as np
import pytest
import rota
from runs import in_child, python, refused
from test_open import OPTIONS, write

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
from fsspec.asyn import AsyncFileSystem  # noqa: E402
from fsspec.implementations.dirfs import DirFileSystem  # noqa: E402
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem  # noqa: E402

FORMATS = ("lines", *OPTIONS)


class Table(AbstractFileSystem):
    """Files in a dict, of (bytes, etag). `on` is called with the name of each call and its path, and may raise."""

    protocol = "table"
    cachable = False

    def __init__(self, files=(), on=lambda call, path: None):
        super().__init__()
        self.files = {name: (data, "1") for name, data in dict(files).items()}
        self.on, self.calls = on, []

    def see(self, call, path):
        self.calls.append((call, path))
        self.on(call, path)

    def info(self, path, **_):
        self.see("info", path)
        if path in self.files:
            data, etag = self.files[path]
            return {"name": path, "size": len(data), "type": "file", "ETag": f'"{etag}"'}
        if any(name.startswith(f"{path}/") for name in self.files):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def ls(self, path, detail=True, **_):
        self.see("ls", path)
        top = f"{path}/" if path else ""
        below = {name[: (name + "/").index("/", len(top))] for name in self.files if name.startswith(top)}
        if not below:
            raise FileNotFoundError(path)
        return [self.info(name) for name in sorted(below)]

    def cat_file(self, path, start=None, end=None, **_):
        self.see("cat", path)
        return self.files[path][0][start:end]

    def _open(self, path, mode="rb", **_):
        self.see("open", path)
        return Upload(self, path, mode)

    def _rm(self, path):
        self.files.pop(path)


class Upload(AbstractBufferedFile):
    """Is there when it is closed, as in an object store."""

    def _upload_chunk(self, final=False):
        self.fs.see("upload", self.path)
        self.parts = getattr(self, "parts", b"") + self.buffer.getvalue()
        if final:
            self.fs.files[self.path] = self.parts, "new"


class Together(AsyncFileSystem):
    """Files "<i>" of i bytes, none of which comes before `most` are asked for."""

    cachable = False

    def __init__(self, most):
        super().__init__()
        self.most, self.under_way, self.infos = most, 0, 0

    async def _info(self, path, **_):
        self.infos += 1
        return {"name": path, "size": int(path), "type": "file", "mtime": 1.5}

    async def _ls(self, path, **_):
        return [await self._info(str(i)) for i in range(100, 100 + self.most)]

    async def _cat_file(self, path, start=None, end=None, **_):
        self.under_way += 1
        while self.under_way < self.most:
            await asyncio.sleep(0.001)
        return b"x" * (end - start)


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    del system.pseudo_dirs[1:]


def samples(source):
    return [{name: np.asarray(value).tobytes() for name, value in source[i].items()} for i in range(len(source))]


def names(path, **options):
    return list(rota.Catalog(path, **options))


def lines(table, path="t://", **options):
    return rota.open(path, "lines", storages={"t": table}, **options)


def put(table, name, data, etag):
    table.files[name] = data, etag


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_read_as_from_a_directory(format, tmp_path, memory):
    directory = tmp_path / "data"
    write(directory, format)
    memory.put(str(directory), "/bucket/data", recursive=True)
    local, stored = rota.open(directory, format), rota.open("memory://bucket/data", format)
    assert stored.fields == local.fields
    if format != "files":  # whose keys are paths
        assert samples(stored) == samples(local)
    assert samples(pickle.loads(pickle.dumps(stored))) == samples(stored)
    system = fsspec.filesystem("file")
    storages = {"l": system, "d": DirFileSystem(str(directory), system)}
    for path in f"l://{directory}", "d://":
        if format != "files":
            assert samples(rota.open(path, format, storages=storages)) == samples(local)


def test_paths_are_as_in_a_bucket(memory):
    for name in "b/x/1.txt", "b/x/2.txt", "b/x/deep/3.txt", "b/xy/4.txt", "b/x.txt":
        memory.pipe(f"/{name}", name.encode())
    memory.mkdir("/b/empty")
    assert names("memory://b/x") == ["memory://b/x/1.txt", "memory://b/x/2.txt", "memory://b/x/deep/3.txt"]
    assert names("memory://b/x/1.txt") == ["memory://b/x/1.txt"]
    assert names("memory://b/x*/*.txt") == ["memory://b/x/1.txt", "memory://b/x/2.txt", "memory://b/xy/4.txt"]
    assert names("memory://b/x/{1..2}.txt") == names("memory://b/x/?.txt")
    assert len(names("memory://")) == 5
    assert names(["memory://b/xy/4.txt", "memory://b/x.txt"])[0] == "memory://b/xy/4.txt"
    assert len(rota.Catalog.from_pattern("memory://b/x/{index+1}.txt", files=2)) == 2
    for path in "memory://b/empty", "memory://none", "memory://b/z*", "memory://b/x/1.txt/2":
        refused(lambda: rota.Catalog(path), rota.NotFoundError, "no file")


def test_names_may_be_odd(memory):
    odd = ["ä b.txt", "%41.txt", "[1].txt", "a'\"b", "a#b?c=d&e", "\udcff\udcfe.txt", "\U00010000", "\uffff", "x\\y", "-"]
    for i, name in enumerate(odd):
        memory.store["/b/" + name] = type(memory.open("/w", "wb"))(memory, "/b/" + name, b"%d\n" % i)
    found = rota.open("memory://b", "lines")
    order = sorted(odd, key=lambda name: name.encode(errors="surrogateescape"))
    assert [int(bytes(found[i]["text"])) for i in range(len(odd))] == [odd.index(name) for name in order]
    assert names("memory://b/[[]1].txt") == names("memory://b/[1].txt") == ["memory://b/[1].txt"]


def test_a_catalog_and_a_manifest_lead_to_them(tmp_path, memory):
    memory.pipe("/b/x/1.txt", b"one\ntwo\n")
    for file in str(tmp_path / "data.rota"), "memory://b/data.rota":
        rota.Catalog("memory://b/x").save(file)
        assert len(rota.open(file, "lines")) == 2
    (tmp_path / "list").write_text("memory://b/x/1.txt\n")
    assert list(rota.Catalog.from_manifest(tmp_path / "list")) == ["memory://b/x/1.txt"]
    memory.pipe("/b/x/1.txt", b"one\nTWO\n")
    assert rota.Catalog("memory://b/data.rota").changes.changed == 1


def test_ranges_are_joined_and_their_files_asked_for_their_version_once():
    table = Table({"a": b"".join(b"%03d\n" % i for i in range(1000)), "b": bytes(3 << 20)})
    source = lines(table, "t://a")
    loader = rota.Loader(source, 500, workers=0, seed=3)
    table.calls.clear()
    assert len(loader.next()["text"]) == 500
    assert table.calls == [("cat", "a"), ("info", "a")]
    data = rota.open("t://b", "files", storages={"t": table})[0]["data"]
    assert data.tobytes() == bytes(3 << 20)


def test_an_asynchronous_one_has_all_under_way_together():
    system = Together(30)
    source = rota.open("t://", "files", storages={"t": system})
    system.infos = 0
    assert sum(map(len, rota.Loader(source, 30, workers=1, epochs=1).next()["data"])) == sum(range(100, 130))
    assert system.infos == 30


def test_a_file_that_changes_is_refused():
    table = Table({"a": b"one\ntwo\n", "b": b"three\n"})
    source = lines(table)
    put(table, "a", b"ONE\nTWO\n", "2")
    refused(lambda: source[0], rota.CorruptError, "t://a.*has changed since it was listed")
    assert bytes(source[2]["text"]) == b"three"
    assert rota.Loader(source, 4, workers=0, on_bad_sample="skip").next().real == 1
    put(table, "a", b"", "1")
    refused(lambda: source[0], rota.IOError, "read t://a: 0 bytes came of 3")
    del table.files["b"]
    refused(lambda: source[2], rota.NotFoundError, "read t://b: it is gone")


@pytest.mark.parametrize("change", ({"ETag": "2"}, {"size": None}, {}))
def test_a_version_is_what_the_file_system_says(change):
    table = Table({"a": b"one\n"})
    plain, now = Table.info, change if change else {"ETag": None}
    table.info = lambda path, **_: dict(plain(table, path), **now)
    if change == {"size": None}:
        refused(lambda: lines(table), rota.UnsupportedError, "how many bytes")
        return
    source = lines(table)
    table.calls.clear()
    assert bytes(source[0]["text"]) == b"one"
    assert table.calls.count(("info", "a")) == len(change), "without a version it is not asked for"


FAILURES = {
    "denied": (PermissionError(errno.EACCES, "denied"), rota.IOError),
    "cut": (ConnectionResetError("cut"), rota.IOError),
    "of a client": (KeyError("odd"), rota.IOError),
    "of a program": (TypeError("wrong"), rota.CallbackError),
    "gone": (FileNotFoundError("gone"), rota.NotFoundError),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_it_raises_is_told_with_the_path(name):
    raised, expected = FAILURES[name]
    failing = {"cat"}

    def fail(call, path):
        if call in failing and path == "a":
            raise raised

    table = Table({"a": b"one\n", "b": b"two\n"}, fail)
    source = rota.open("t://", "files", storages={"t": table})
    caught = refused(lambda: source[0], expected, "t://a")
    if name != "gone":
        assert caught.__cause__ is raised
    assert source[1]["data"].tobytes() == b"two\n"
    failing |= {"info"}
    if name != "gone":
        refused(lambda: rota.Catalog("t://", storages={"t": table}), expected, "t://")


def test_what_cannot_be_listed_is_no_part_left_out():
    def fail(call, path):
        if (call, path) == ("ls", "deep/er"):
            raise PermissionError(errno.EACCES, "denied")

    refused(lambda: rota.Catalog("t://", storages={"t": Table({"a": b"", "deep/er/b": b""}, fail)}), rota.IOError, "list t://: .*denied")


def test_a_loader_tries_again_in_all_its_threads():
    seen, lock = {}, threading.Lock()

    def fail(call, path):
        with lock:
            seen[path] = seen.get(path, 0) + (call == "cat")
            if call == "cat" and seen[path] < 3:
                raise OSError(errno.EIO, "not yet")

    table = Table({f"{i:02}": b"%d" % i for i in range(40)}, fail)
    loader = rota.Loader(rota.open("t://", "files", storages={"t": table}), 8, workers=4, epochs=1, retry_wait=0.001)
    data = [int(bytes(text)) for batch in loader for text in batch["data"]]
    assert sorted(data) == list(range(40))


def test_a_forked_child_is_refused_and_may_open_its_own(memory):
    memory.pipe("/b/1.txt", b"one\n")
    source = rota.open("memory://b", "lines")

    def child():
        try:
            source[0]
        except rota.UnsupportedError as error:
            assert 'multiprocessing_context="spawn"' in str(error)
            return len(rota.open("memory://b", "lines")) + 10

    assert in_child(child) == 11
    assert bytes(source[0]["text"]) == b"one"


def test_shards_and_catalogs_are_written(memory):
    source = rota.PythonSource([{"x": i} for i in range(100)])
    for _ in range(2):
        report = rota.write_shards(source, "memory://b/new/shards", format="mds", shard_bytes=400)
        assert report.is_complete and report.shards > 1
    assert [sample["x"] for sample in rota.open("memory://b/new/shards")] == list(range(100))
    table = Table({"w/x": b""})
    rota.write_shards(rota.PythonSource([{"txt": b"a" * (20 << 20)}], {"txt": ("uint8", (), True)}), "t://w/y", storages={"t": table})
    assert rota.open("t://w/y", storages={"t": table})[0]["txt"].tobytes() == b"a" * (20 << 20)


def test_a_write_that_fails_leaves_nothing():
    def fail(call, path):
        if call == "upload":
            raise OSError(errno.ENOSPC, "full")

    table = Table({"old": b""}, fail)
    with pytest.raises(rota.IOError, match="t://new/.*full"):
        rota.write_shards(rota.PythonSource([{"txt": b"x"}], {"txt": ("uint8", (), True)}), "t://new", storages={"t": table})
    assert list(table.files) == ["old"]


def test_checkpoints_are_mirrored(tmp_path, memory):
    for storages in None, {"memory": memory}:
        store = f"memory://run{storages is None}"
        with rota.CheckpointDirectory(None, tmp_path / store[9:], mirror=store, storages=storages) as directory:
            saved = rota.ElasticBatchSampler(100, 8)
            saved.advance()
            assert directory.save(1, saved, {"text": "x" * (10 << 20)}).mirror_error == ""
            directory.wait_for_mirror()
        with rota.CheckpointDirectory(None, tmp_path / f"{store[9:]}-2", mirror=store) as directory:
            restored = rota.ElasticBatchSampler(100, 8)
            assert len(directory.restore(restored).blob("text")) == 10 << 20
            assert restored.position == saved.position


def test_what_is_not_there_is_said_with_what_to_do(memory):
    for path in "nothing://b", "gs://b/x":
        refused(lambda: rota.Catalog(path), rota.NotFoundError, f"there is no storage for {path[:2]}.*; rota has s3, https")
    refused(lambda: rota.Catalog("nothing://b"), rota.NotFoundError, "which knows .*memory")
    python(
        "import sys; sys.modules['fsspec'] = None\nimport rota\ntry:\n    rota.open('gs://b')\n"
        "except rota.NotFoundError as error:\n    assert 'pip install fsspec gcsfs' in str(error), error\nelse:\n    assert 0"
    )
    for wrong in {"gs": 7}, {7: memory}, "gs":
        refused(lambda: rota.Catalog("gs://b", storages=wrong), TypeError, "storages")
    refused(lambda: rota.Catalog("gs://b", storages={"gs://": memory}), rota.InvalidArgumentError, "storages is gs://")
    memory.pipe("/b/x", b"1")
    with pytest.raises(rota.InvalidArgumentError, match="give comm=, storages= and"):
        rota.open(rota.Catalog("memory://b"), storages={"memory": memory})


def test_python_may_end_while_they_are_read():
    python(
        "import fsspec, rota\nfsspec.filesystem('memory').pipe({f'/b/{i}': bytes(1 << 20) for i in range(200)})\n"
        "loader = rota.Loader(rota.open('memory://b', 'files'), 4, workers=3)\nloader.next()\nkept = rota.Catalog('memory://b')"
    )
