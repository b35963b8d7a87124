"""`rota plan`: what is planned is what runs read."""

import json
import os
import random
import subprocess

import numpy as np
import pytest
import rota
from test_bad_files import as_tar
from test_remote import run_with_server

h5py = pytest.importorskip("h5py")


def tool(*arguments):
    return subprocess.run([os.environ["ROTA_TOOL"], "plan", *map(str, arguments)], capture_output=True, text=True)


def plan(data, batch, **options):
    """Of one setting."""
    options = dict(shuffle="global") | options
    made = tool(data, f"--batch={batch}", "--json", *(f"--{name.replace('_', '-')}={value}" for name, value in options.items()))
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)[0]


def write_rows(path, rows, length):
    """So many rows of `length` numbers of 2 bytes, all 0, which take no room."""
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, dict(descr="<u2", fortran_order=False, shape=(rows, length)))
        file.truncate(file.tell() + 2 * rows * length)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """HDF5 files of chunks, of unequal lengths; and files of arrays."""
    folder = tmp_path_factory.mktemp("plan")
    (folder / "h5").mkdir()
    for i, rows in enumerate((600, 210, 300, 90)):
        with h5py.File(folder / "h5" / f"{i}.h5", "w") as file:
            file.create_dataset("x", data=np.random.rand(rows, 4), chunks=(30, 4), compression="gzip")
    (folder / "npy").mkdir()
    (folder / "cut.npy").write_bytes(b"\x93NUMPY\x01")
    for i in range(6):
        write_rows(folder / "npy" / f"{i}.npy", 40 + i, 16)
    (folder / "lines").mkdir()
    for i in range(12):
        (folder / "lines" / f"{i:02}.jsonl").write_text("".join(f'"line {k}"\n' for k in range(30 + i)))
        subprocess.run(["zstd", "-q", "--rm", folder / "lines" / f"{i:02}.jsonl"], check=True)
    return folder


def orders(seed, count):
    draw = random.Random(seed)
    for _ in range(count):
        shards = draw.choice((1, 4, 12))
        yield dict(shuffle=draw.choice(("none", "within", "block", "global")), shards=shards, interleave=draw.choice((0, 1, shards))), (
            draw.randint(1, 5), draw.randint(1, 3), draw.randint(8, 70),
        )  # fmt: skip


@pytest.mark.parametrize("name", ["h5", "npy"])
def test_fifty_runs_read_what_was_planned(data, name):
    for order, (ranks, workers, batch) in orders(len(name), 50):
        planned = plan(data / name, batch, ranks=ranks, workers=workers, **order)
        steps, bytes_, decodes, files, sizes = set(), 0, 0, set(), []
        for rank in range(ranks):
            source = rota.open(data / name)  # each process has its own
            loader = rota.Loader(source, batch, world=(rank, ranks), workers=workers, **order)
            for step, one in enumerate(loader):
                files |= {(step, source.where(int(id)).split(",")[0].split(" ")[0]) for id in one.ids}
                sizes.append((one.start.step, one.size))
            steps.add(loader.stats["batches"])
            bytes_ += loader.stats["bytes"]
            decodes += loader.stats["decodes"]
        assert steps == {planned["steps"]} and bytes_ == planned["bytes"], (order, ranks, batch)
        assert round(len(files) / planned["steps"], 1) == planned["files_a_step"], (order, ranks, batch)
        full = [size for step, size in sizes if step < planned["steps"] - 1 or planned["steps"] == 1]
        assert [min(full), max(full)] == planned["samples_a_step"]
        if name == "h5":
            assert decodes == round(planned["decodes_of_a_chunk"] * planned["chunks"]), (order, ranks, workers, batch)


@pytest.mark.parametrize("limit, kind", [(60_000, "<f8"), (120_000, ">f8"), (240_000, "<f8")])  # swapped by an adaptor
def test_decodes_in_memory_that_is_too_small_are_planned_within_a_tenth(data, limit, kind):
    folder = data / f"large-{limit}"
    folder.mkdir()
    with h5py.File(folder / "0.h5", "w") as file:
        file.create_dataset("x", data=np.random.rand(1200, 128).astype(kind), chunks=(30, 128), compression="gzip", compression_opts=1)
    for shuffle, shards, interleave in ("global", 8, 0), ("within", 1, 0), ("within", 8, 2), ("block", 8, 0):
        for ranks in (1, 3):
            order = dict(shuffle=shuffle, shards=shards, interleave=interleave)
            planned = plan(folder, 48, ranks=ranks, decoded_bytes=limit, **order)
            decodes = 0
            for rank in range(ranks):
                loader = rota.Loader(rota.open(rota.Catalog(folder, decoded_bytes=limit)), 48, world=(rank, ranks), **order)
                for _ in loader:
                    pass
                decodes += loader.stats["decodes"]
            assert planned["decoded_bytes_to_hold"] > limit and planned["chunks"] == 40
            assert abs(planned["decodes_of_a_chunk"] / (decodes / 40) - 1) < 0.1, (shuffle, ranks, decodes / 40, planned)


def test_files_that_a_node_shares_are_fetched_as_planned(data):
    for interleave in (1, 3):
        order = dict(shuffle="within", shards=12, interleave=interleave)
        planned = plan(data / "lines", 25, **order)
        loader = rota.Loader(rota.open(data / "lines"), 25, **order)
        for _ in loader:
            pass
        assert loader.stats["fetched_files"] == planned["fetches_by_nodes"] == planned["files"] == 12


def test_mixing_is_1_of_a_full_shuffle_and_0_without(data):
    mixing = {shuffle: plan(data / "h5", 60, shuffle=shuffle, shards=1)["mixing"] for shuffle in ("none", "block", "global")}
    assert mixing["none"] < 0.2 < mixing["block"] < mixing["global"] and abs(mixing["global"] - 1) < 0.15


def test_reads_are_joined_where_samples_lie_side_by_side(data):
    planned = plan(data / "npy", 10, shuffle="none", shards=1)
    assert planned["reads"] == 26 + 3  # steps, and files that begin in the midst of one
    assert plan(data / "npy", 10, ranks=2, workers=2, shuffle="none", shards=1)["reads"] > planned["reads"]


def test_each_of_plain_files_is_a_file(tmp_path):
    for i in range(30):
        (tmp_path / f"{i:02}.bin").write_bytes(bytes(100))
    planned = plan(tmp_path, 10, ranks=2)
    assert planned["files"] == planned["requests"] == planned["fetches_by_ranks"] == planned["reads"] == 30
    assert planned["files_a_step"] == 10 and planned["requested_bytes"] == planned["bytes"] == 3000


@pytest.mark.parametrize("batch", [32, 256, 5000, 10000])
def test_a_full_shuffle_mixes_by_1_whatever_the_batch(tmp_path, batch):
    write_rows(tmp_path / "a.npy", 10000, 1)
    assert abs(plan(tmp_path, batch)["mixing"] - 1) < 0.03


REQUESTS = """
import pathlib, sys
import rota
sys.path.insert(0, {tests!r})
from test_plan import plan

log = pathlib.Path({directory!r}, "requests")
for length, batch, workers in (32768, 8, 1), (32768, 40, 2), (1 << 22, 2, 1), (1 << 24, 1, 1), (9 << 19, 6, 1), (1024, 2000, 3):
    data = f"s3://b/{{length}}"
    source = rota.open(data)
    for shuffle in "none", "global":
        planned = plan(data, batch, ranks=2, workers=workers, shuffle=shuffle, shards=4)
        before = log.read_text().count("range b/")
        for rank in 0, 1:
            for _ in rota.Loader(source, batch, world=(rank, 2), workers=workers, shuffle=shuffle, shards=4):
                pass
        made = log.read_text().count("range b/") - before
        assert made == planned["requests"], (length, shuffle, made, planned)
        assert planned["requested_bytes"] >= planned["bytes"]
source = rota.open("s3://b/tars")
planned = plan("s3://b/tars", 6, shuffle="none")
before = log.read_text().count("range b/")
assert len([*rota.Loader(source, 6, shuffle="none")]) == 1
assert log.read_text().count("range b/") - before == planned["requests"] == 6
"""


def test_a_store_gets_the_requests_that_were_planned(tmp_path):
    for length in 32768, 1 << 22, 1 << 24, 9 << 19, 1024:
        (tmp_path / "b" / str(length)).mkdir(parents=True)
        for i, numbers in enumerate((16 << 20, 7 << 20, 8 << 20)):
            write_rows(tmp_path / "b" / str(length) / f"{i}.npy", numbers // length, length)
    (tmp_path / "b" / "tars").mkdir()
    for i in range(2):
        as_tar(tmp_path / "b" / "tars" / f"{i}.tar", i, 3, 9 << 20)
    run_with_server(tmp_path, REQUESTS.format(directory=str(tmp_path), tests=os.path.dirname(__file__)))


@pytest.mark.parametrize("samples", [0, 1])
def test_a_dataset_of_next_to_nothing_has_a_plan(tmp_path, samples):
    np.save(tmp_path / "a.npy", np.zeros(samples, np.int64))
    planned = plan(tmp_path, 4, ranks=3)
    assert planned["steps"] == samples and planned["bytes"] == 8 * samples and planned["mixing"] == 1.0


def test_the_command_shows_settings_side_by_side(data):
    shown = tool(data / "h5", "--batch", 60, "--ranks", 2, "--shuffle", "none,global", "--interleave", "0,4")
    assert shown.returncode == 0, shown.stderr
    head, *rows = [line for line in shown.stdout.splitlines()[2:] if line]
    assert head.split("  ")[-1].strip() == "global, 4 at a time" and len({len(row) for row in [head, *rows]}) == 1
    assert all(len(line) < 120 for line in rows)
    found = json.loads(tool(data / "h5", "--batch", 60, "--shuffle", "within", "--json").stdout)
    assert found[0]["setting"] == {"shuffle": "within", "interleave": 0} and found[0]["steps"] == 20


@pytest.mark.parametrize(
    "arguments, code, said",
    [
        ([], 2, "PATH"),
        (["{data}/h5", "--batch", "0"], 2, "0 is below 1"),
        (["{data}/h5", "--ranks", "x"], 2, "no whole number"),
        (["{data}/h5", "--shuffle", "some"], 2, "some"),
        (["{data}/h5", "--interleave", "x"], 2, "x"),
        (["{data}/none"], 1, "No such file"),
        (["{data}/h5", "--ranks", "1000000000"], 2, "above 65536"),
        (["{data}/h5", "--node", "9" * 30], 2, "is above"),
        (["{data}/cut.npy"], 1, "cut.npy"),
        (["{data}/h5", "--format", "odd"], 2, "odd"),
    ],
)
def test_what_cannot_be_planned_is_refused(data, arguments, code, said):
    made = tool(*(argument.format(data=data) for argument in arguments))
    assert made.returncode == code and said in made.stderr, made
