"""Catalogs: which files there are, listed once."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import rota
from runs import python, refused


@pytest.fixture
def data(tmp_path):
    directory = tmp_path / "data"
    directory.mkdir()
    for i in range(20):
        (directory / f"{i:03}.txt").write_bytes(b"x" * (i + 1))
    return directory


def kinds(data):
    """One catalog of each kind."""
    manifest = data.parent / "list"
    manifest.write_text('{"path": "data/003.txt", "samples": 1}\n{"path": "data/001.txt", "samples": 1}\n')
    return [
        rota.Catalog(data),
        rota.Catalog(str(data / "*1.txt"), change_detection="by_name"),
        rota.Catalog(data / "007.txt", max_open_files=3),
        rota.Catalog.from_manifest(manifest),
        rota.Catalog.from_pattern(f"{data}/{{index:03}}.txt", files=20),
    ]


def same(a, b):
    assert (len(a), a.fingerprint, a.origin, list(a)) == (len(b), b.fingerprint, b.origin, list(b))
    assert a.change_detection == b.change_detection and a.changes == b.changes and repr(a) == repr(b)


def test_files_are_in_the_order_of_their_names_and_numbered_as_a_list_is(data):
    catalog = rota.Catalog(data)
    names = sorted(map(str, data.iterdir()))
    assert list(catalog) == names and len(catalog) == 20
    for i in range(-20, 20):
        assert catalog[i] == names[i] and catalog.bytes(i) == os.path.getsize(names[i])
    for i in (-21, 20, 2**70):
        refused(lambda: catalog[i], IndexError, "there are 20")
    refused(lambda: catalog["0"], TypeError)
    by_name = rota.Catalog(data, change_detection="by_name")
    assert by_name.change_detection == "by_name" and by_name.fingerprint != catalog.fingerprint
    refused(lambda: by_name.bytes(0), rota.InvalidArgumentError)
    assert catalog.origin == str(data) and repr(catalog) == f"<rota.Catalog of 20 files: {data}>"


def test_a_catalog_of_bytes_or_of_a_pickle_is_the_same_and_lists_nothing(data):
    catalogs = kinds(data)
    sent = [(catalog.to_bytes(), pickle.dumps(catalog)) for catalog in catalogs]
    for file in data.iterdir():
        file.unlink()
    for catalog, (made, pickled) in zip(catalogs, sent):
        for form in (made, bytearray(made), memoryview(made), np.frombuffer(made, np.uint8)):
            same(rota.Catalog.from_bytes(form), catalog)
        loaded = pickle.loads(pickled)
        same(loaded, catalog)
        assert type(loaded) is rota.Catalog and loaded._options == catalog._options


def test_other_bytes_are_refused(data):
    made = rota.Catalog(data).to_bytes()
    for wrong in (b"", b"data", made[:-1], made + b"x", made[:100] + bytes([made[100] ^ 1]) + made[101:]):
        refused(lambda: rota.Catalog.from_bytes(wrong), rota.CorruptError)
    for wrong in (None, 5, "text"):
        refused(lambda: rota.Catalog.from_bytes(wrong), TypeError)


def test_a_saved_catalog_tells_what_has_changed(data):
    file = data.parent / "saved.rota"
    catalog = rota.Catalog(data)
    rota.open(catalog, "files")
    catalog.save(file, format="files")
    assert rota.Catalog(file).changes == rota.CatalogChanges() and not rota.Catalog(file).changes.any
    (data / "000.txt").unlink()
    (data / "001.txt").write_text("longer")
    (data / "new.txt").write_text("")
    changes = rota.Catalog(file).changes
    assert (changes.changed, changes.vanished, changes.appeared) == (1, 1, 1) and changes.any
    refused(lambda: rota.open(rota.Catalog(file)), rota.MismatchError, "1 vanished and 1 have other sizes, among them 00[01].txt")
    rota.Catalog(file).save(file)
    assert len(rota.open(file)) == 20
    assert rota.find_format(rota.Catalog(file)) == "files"
    refused(lambda: catalog.save(data / "inside"), rota.InvalidArgumentError)
    refused(lambda: rota.Catalog.from_pattern(f"{data}/{{index+1:03}}.txt", files=19).save(file), rota.UnsupportedError)


def test_patterns_take_all_their_options(tmp_path):
    for i in range(6):
        folder = tmp_path / f"part{3 + i // 2}"
        folder.mkdir(exist_ok=True)
        (folder / f"{i % 2 + 1}.txt").write_text("x")
    pattern = f"{tmp_path}/part{{folder+3}}/{{index+1}}.txt"
    options = dict(files=6, folders=3, layout="restart")
    catalog = rota.Catalog.from_pattern(pattern, **options, listing_threads=2)
    assert [name[-11:] for name in catalog][:3] == ["part3/1.txt", "part3/2.txt", "part4/1.txt"]
    with pytest.raises(rota.InvalidArgumentError, match="round_robin, blocks, restart"):
        rota.Catalog.from_pattern(pattern, **{**options, "layout": "rows"})
    refused(lambda: rota.Catalog.from_pattern(pattern, **{**options, "files": 9}), rota.NotFoundError)
    for option in ({"folders": -1}, {"files": -1}, {"files": 2**63}):
        refused(lambda: rota.Catalog.from_pattern(pattern, **{**options, **option}), rota.InvalidArgumentError, next(iter(option)))


def test_options_out_of_range_or_of_another_type_are_refused_by_name(data):
    for name, value in [("listing_threads", 0), ("indexing_threads", 2**40), ("max_open_files", -1),
                        ("shared_memory_limit", -1), ("change_detection", "by_time"), ("access", "random")]:
        refused(lambda: rota.Catalog(data, **{name: value}), rota.InvalidArgumentError, name)
    made = rota.Catalog(data).to_bytes()
    for name, value in [("listing_threads", "8"), ("share_files", "no"), ("progress", 5), ("change_detection", 1),
                        ("access", 0), ("threads", 3)]:
        for make, what in (rota.Catalog, data), (rota.Catalog.from_bytes, made):
            refused(lambda: make(what, **{name: value}), TypeError, name)


@pytest.mark.parametrize("access", ["cached", "direct", "mapped", "automatic"])
def test_however_bytes_come_the_samples_are_the_same(data, access):
    source = rota.open(rota.Catalog(data, access=access), "lines")
    assert [source[i]["text"].tobytes() for i in range(20)] == [b"x" * (i + 1) for i in range(20)]


def test_progress_is_told_of_listing_and_indexing(data):
    told = []
    catalog = rota.Catalog(data, progress=told.append)
    rota.open(catalog, "lines")
    over = {at.task: at for at in told if at.is_over}
    assert all(isinstance(at, rota.Progress) for at in told)
    assert {"list files", "ask for sizes", "index files"} <= set(over) and over["index files"].done == 20
    told.clear()
    same(pickle.loads(pickle.dumps(catalog)), catalog)  # without the function
    assert not told


def test_what_progress_raises_ends_the_task(data):
    def fail(raised):
        raise raised

    with pytest.raises(rota.CallbackError) as raised:
        rota.Catalog(data, progress=lambda _: fail(ZeroDivisionError("mine")))
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    refused(lambda: rota.Catalog(data, progress=lambda _: fail(KeyboardInterrupt())), KeyboardInterrupt)


def test_several_threads_open_one_catalog(data):
    catalog = rota.Catalog(data, progress=lambda _: None)
    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(lambda _: rota.open(catalog, "lines").fingerprint, range(4)))) == 1


def test_a_catalog_may_live_until_python_ends(data):
    done = python("import rota, sys; c = rota.Catalog(sys.argv[1], progress=lambda _: None); print(len(rota.open(c)))", data)
    assert (done.stdout, done.stderr) == ("20\n", "")
