"""`rota plan`: what is planned is what runs read."""

import json
import os
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
import rota
from rota import _plan
from test_bad_files import as_tar
from test_remote import run_with_server

h5py = pytest.importorskip("h5py")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """HDF5 files of chunks, of unequal lengths; and files of tokens."""
    folder = tmp_path_factory.mktemp("plan")
    (folder / "h5").mkdir()
    for i, rows in enumerate((600, 210, 300, 90)):
        with h5py.File(folder / "h5" / f"{i}.h5", "w") as file:
            file.create_dataset("x", data=np.random.rand(rows, 4), chunks=(30, 4), compression="gzip")
    (folder / "tokens").mkdir()
    (folder / "cut.npy").write_bytes(b"\x93NUMPY\x01")
    for i in range(6):
        np.arange(16 * (40 + i), dtype=np.uint16).tofile(folder / "tokens" / f"{i}.tokens")
    (folder / "lines").mkdir()
    for i in range(12):
        (folder / "lines" / f"{i:02}.jsonl").write_text("".join(f'"line {k}"\n' for k in range(30 + i)))
        subprocess.run(["zstd", "-q", "--rm", folder / "lines" / f"{i:02}.jsonl"], check=True)
    return folder


def source_of(data, name):
    return rota.open(data / name, name, **(dict(length=16) if name == "tokens" else {}))


def orders(seed, count):
    draw = random.Random(seed)
    for _ in range(count):
        shards = draw.choice((1, 4, 12))
        yield dict(shuffle=draw.choice(("none", "within", "block", "global")), shards=shards, interleave=draw.choice((0, 1, shards))), (
            draw.randint(1, 5), draw.randint(1, 3), draw.randint(8, 70),
        )  # fmt: skip


@pytest.mark.parametrize("name", ["hdf5", "tokens"])
def test_fifty_runs_read_what_was_planned(data, name):
    folder = data / ("h5" if name == "hdf5" else name)
    for order, (ranks, workers, batch) in orders(len(name), 50):
        length = dict(length=16) if name == "tokens" else {}
        planned = _plan.plan(rota.open(folder, name, **length), batch, ranks=ranks, workers=workers, **order)
        steps, bytes_, decodes, files, sizes = set(), 0, 0, set(), []
        for rank in range(ranks):
            source = rota.open(folder, name, **length)  # each process has its own
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
        if name == "hdf5":
            assert decodes == round(planned["decodes_of_a_chunk"] * planned["chunks"]), (order, ranks, workers, batch)


@pytest.mark.parametrize("limit", [60_000, 120_000, 240_000])
def test_decodes_in_memory_that_is_too_small_are_planned_within_a_tenth(data, limit):
    folder = data / f"large-{limit}"
    folder.mkdir()
    with h5py.File(folder / "0.h5", "w") as file:
        file.create_dataset("x", data=np.random.rand(1200, 128), chunks=(30, 128), compression="gzip", compression_opts=1)
    for shuffle, shards, interleave in ("global", 8, 0), ("within", 1, 0), ("within", 8, 2), ("block", 8, 0):
        for ranks in (1, 3):
            order = dict(shuffle=shuffle, shards=shards, interleave=interleave)
            planned = _plan.plan(rota.open(folder), 48, ranks=ranks, decoded_bytes=limit, **order)
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
        order = dict(shuffle="within", shards="files", interleave=interleave)
        source = rota.open(data / "lines", "lines")
        planned = _plan.plan(source, 25, ranks=1, **order)
        loader = rota.Loader(source, 25, **order)
        for _ in loader:
            pass
        assert loader.stats["fetched_files"] == planned["fetches_by_nodes"] == planned["files"] == 12


def test_mixing_is_1_of_a_full_shuffle_and_0_without(data):
    source = rota.open(data / "h5", "hdf5")
    mixing = {shuffle: _plan.plan(source, 60, shuffle=shuffle, shards=1)["mixing"] for shuffle in ("none", "block", "global")}
    assert mixing["none"] < 0.2 < mixing["block"] < mixing["global"] and abs(mixing["global"] - 1) < 0.15


def test_reads_are_joined_where_samples_lie_side_by_side(data):
    source = rota.open(data / "tokens", "tokens", length=16)
    planned = _plan.plan(source, 10, shuffle="none", shards=1)
    assert planned["reads"] == 26 + 3  # steps, and files that begin in the midst of one
    assert _plan.plan(source, 10, ranks=2, workers=2, shuffle="none", shards=1)["reads"] > planned["reads"]


def test_each_of_plain_files_is_a_file(tmp_path):
    for i in range(30):
        (tmp_path / f"{i:02}.bin").write_bytes(bytes(100))
    planned = json.loads(tool(tmp_path, "--batch", 10, "--ranks", 2, "--shuffle", "global", "--json").stdout)[0]
    assert planned["files"] == planned["requests"] == planned["fetches_by_ranks"] == planned["reads"] == 30
    assert planned["files_a_step"] == 10 and planned["requested_bytes"] == planned["bytes"] == 3000


@pytest.mark.parametrize("batch", [32, 256, 5000, 10000])
def test_a_full_shuffle_mixes_by_1_whatever_the_batch(tmp_path, batch):
    (tmp_path / "a.tokens").write_bytes(bytes(2 * 10000))
    assert abs(_plan.plan(rota.open(tmp_path, "tokens", length=1), batch)["mixing"] - 1) < 0.03


REQUESTS = """
import pathlib, sys
import rota
from rota import _plan

log = pathlib.Path({directory!r}, "requests")
for length, batch, workers in (32768, 8, 1), (32768, 40, 2), (1 << 22, 2, 1), (1 << 24, 1, 1), (9 << 19, 6, 1), (1024, 2000, 3):
    source = rota.open("s3://b/tokens", "tokens", length=length)
    for shuffle in "none", "global":
        planned = _plan.plan(source, batch, ranks=2, workers=workers, shuffle=shuffle, shards=4)
        before = log.read_text().count("range b/")
        for rank in 0, 1:
            for _ in rota.Loader(source, batch, world=(rank, 2), workers=workers, shuffle=shuffle, shards=4):
                pass
        made = log.read_text().count("range b/") - before
        assert made == planned["requests"], (length, shuffle, made, planned)
        assert planned["requested_bytes"] >= planned["bytes"]
source = rota.open("s3://b/tars", "tar")
planned = _plan.plan(source, 6, shuffle="none")
before = log.read_text().count("range b/")
assert len([*rota.Loader(source, 6, shuffle="none")]) == 1
assert log.read_text().count("range b/") - before == planned["requests"] == 6
"""


def test_a_store_gets_the_requests_that_were_planned(tmp_path):
    (tmp_path / "b" / "tokens").mkdir(parents=True)
    for i in range(3):
        np.zeros((6 + i) << 20 if i else 1 << 24, np.uint16).tofile(tmp_path / "b" / "tokens" / f"{i}.tokens")
    (tmp_path / "b" / "tars").mkdir()
    for i in range(2):
        as_tar(tmp_path / "b" / "tars" / f"{i}.tar", i, 3, 9 << 20)
    run_with_server(tmp_path, REQUESTS.format(directory=str(tmp_path)))


@pytest.mark.parametrize("samples", [0, 1])
def test_a_dataset_of_next_to_nothing_has_a_plan(samples):
    source = rota.PythonSource([{"x": 1}] * samples, fields=[rota.Field("x", "int64")])
    planned = _plan.plan(source, 4, ranks=3)
    assert planned["steps"] == samples and planned["bytes"] == 8 * samples and planned["mixing"] == 1.0


def tool(*arguments):
    program = "import sys; from rota import _plan; sys.exit(_plan.main(sys.argv[1:]))"
    return subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True)


def test_the_command_shows_settings_side_by_side(data):
    shown = tool(data / "h5", "--batch", 60, "--ranks", 2, "--shuffle", "none,global", "--interleave", "0,4")
    assert shown.returncode == 0, shown.stderr
    head, *rows = [line for line in shown.stdout.splitlines()[2:] if line]
    assert head.split("  ")[-1].strip() == "global, 4 at a time" and len({len(row) for row in [head, *rows]}) == 1
    assert all(len(line) < 120 for line in rows)
    found = json.loads(tool(data / "h5", "--batch", 60, "--shuffle", "within", "--json").stdout)
    assert found[0]["setting"] == {"shuffle": "within", "interleave": 0} and found[0]["steps"] == 20


def test_output_that_cannot_be_written_is_told(data):
    line = f"'{os.environ['ROTA_TOOL']}' plan '{data / 'h5'}' > /dev/full"
    ended = subprocess.run(line, shell=True, capture_output=True, text=True, env=os.environ | {"ROTA_PYTHON": sys.executable})
    assert (ended.returncode, ended.stderr) == (1, "error: write to standard output: No space left on device\n")


def test_the_command_of_c_plus_plus_does_the_same(data, tmp_path):
    environment = os.environ | {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}", "PYTHONSAFEPATH": "1"}
    command = [os.environ["ROTA_TOOL"], "plan", data / "h5", "--shuffle", "none"]
    made = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert made.returncode == 0 and made.stdout == tool(data / "h5", "--shuffle", "none").stdout, made.stderr
    environment |= {"PYTHONPATH": "/nowhere", "PYTHONNOUSERSITE": "1"}
    assert subprocess.run(command, capture_output=True, text=True, env=environment).stdout == made.stdout, "by the package of its build"
    command[0] = shutil.copy(command[0], tmp_path / "rota")
    alone = subprocess.run(command, capture_output=True, text=True, env=environment)
    if alone.returncode:  # unless rota is installed
        assert alone.returncode == 1 and " does not find the package rota: install rota for it " in alone.stderr


@pytest.mark.parametrize(
    "arguments, code, said",
    [
        ([], 2, "DATA"),
        (["{data}/h5", "--batch", "0"], 2, "number of 1 to "),
        (["{data}/h5", "--ranks", "x"], 2, "number of 1 to "),
        (["{data}/h5", "--shuffle", "some"], 2, "some"),
        (["{data}/h5", "--interleave", "x"], 2, "x"),
        (["{data}/none"], 1, "No such file"),
        (["{data}/h5", "--ranks", "1000000000"], 2, "number of 1 to 65536"),
        (["{data}/h5", "--node", "9" * 30], 2, "number of 1 to"),
        (["{data}/cut.npy"], 1, "cut.npy"),
        (["{data}/h5", "--format", "odd"], 2, "odd"),
    ],
)
def test_what_cannot_be_planned_is_refused(data, arguments, code, said):
    made = tool(*(argument.format(data=data) for argument in arguments))
    assert made.returncode == code and said in made.stderr and "Traceback" not in made.stderr, made
