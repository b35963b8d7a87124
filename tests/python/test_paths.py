"""What a path is, for all that takes one; and what globs match."""

import glob
import os
import pathlib

import pytest
import rota
from runs import refused

LINE = b'{"a": 1}\n'
NAMES = ["0.jsonl", "a/1.jsonl", "a/b/2.jsonl", "a/b/c/3.jsonl", "a/.x/4.jsonl", "d[1]/5.jsonl", "d1/6.jsonl"]


@pytest.fixture
def top(tmp_path, monkeypatch):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(LINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "a"))
    return tmp_path


def paths(pattern, **options):
    source = rota.open(rota.Catalog(pattern, **options), "files")
    return [source.where(i) for i in range(len(source))]


def run(**options):
    return rota.Loader(rota.open("0.jsonl"), 1, **options)


def uses(top):
    """All that takes a path, of a new or a known file."""
    (top / "list").write_text("0.jsonl\n")
    return {
        "open": lambda path: rota.open(path),
        "catalog": lambda path: rota.Catalog(path),
        "manifest": lambda path: rota.Catalog.from_manifest(path),
        "paths": lambda path: rota.Catalog([path]),
        "save": lambda path: rota.Catalog("0.jsonl").save(path),
        "shards": lambda path: rota.write_shards(rota.open("0.jsonl"), path),
        "checkpoints": lambda path: rota.CheckpointDirectory(path),
        "checkpoint": lambda path: rota.open_checkpoint(path),
        "trace": lambda path: rota.TraceWriter(path, run()),
    }


@pytest.mark.parametrize("path, words", [("s3:/bucket/x", "two slashes"), ("hf:/datasets/x", "two slashes"), ("~nobody/x", "from the root"), ("~-x", "from the root"),
                                         ("file://other/x", "file:///path")])  # fmt: skip
def test_what_is_no_path_is_refused_by_all_that_takes_one_and_makes_no_directory(top, path, words):
    for name, use in uses(top).items():
        for form in {path, pathlib.Path(path)} if "//" not in path else {path}:
            with pytest.raises((rota.Error, ValueError), match=words):
                use(form)
                pytest.fail(name)
    assert sorted(os.listdir(top)) == sorted({"list", *(name.split("/")[0] for name in NAMES)})


@pytest.mark.parametrize("url", ["s3://bucket/x", "gs://bucket/x", "https://host/x"])
def test_what_is_written_to_a_file_system_alone_refuses_urls(top, url):
    for make in (rota.CheckpointDirectory, lambda path: rota.TraceWriter(path, run()), rota.open_checkpoint):
        refused(lambda: make(url), rota.UnsupportedError, f"open {url}: .*(disk|file system)")
    refused(lambda: rota.CheckpointDirectory(url), rota.UnsupportedError, "mirror")
    assert not [name for name in os.listdir(top) if ":" in name]


def test_a_file_url_and_the_home_directory_are_known_everywhere(top):
    for prefix in "file://", "file:", "file://localhost":
        assert len(rota.open(f"{prefix}{top}/0.jsonl")) == 1
        with rota.CheckpointDirectory(f"{prefix}{top}/saves"):
            assert (top / "saves").is_dir()
    assert len(rota.open("~/1.jsonl")) == 1 and len(rota.open("~")) == 3
    with rota.CheckpointDirectory("~/saves"):
        assert (top / "a/saves").is_dir()
    rota.Catalog("~").save("~/../x.rota")
    assert len(rota.Catalog("~/../x.rota")) == 3


def test_what_is_there_is_meant_whatever_it_looks_like(top):
    for name in "~", "s3:", "~x", "file:":
        (top / name).mkdir()
        (top / name / "7.jsonl").write_bytes(LINE)
        assert paths(name) == [f"{name}/7.jsonl"]
    assert paths("s3:/7.jsonl") == ["s3:/7.jsonl"]
    for name in "d[1]", "d[1]/*.jsonl", "d[1]/**/*.jsonl":
        assert paths(name) == ["d[1]/5.jsonl"]
    assert paths("d?/*") == ["d1/6.jsonl"] and paths("d[0-9]/*") == ["d1/6.jsonl"]


def test_a_relative_directory_stays_where_it_was(top):
    loader = run()
    next(iter(loader))
    with rota.CheckpointDirectory("saves") as directory:
        os.chdir("a")
        directory.save(1, loader)
    assert [name for name in os.listdir(top / "saves") if name.endswith(".h5")] and not (top / "a/saves").exists()


@pytest.mark.parametrize("pattern", ["**/*.jsonl", "a/**/*.jsonl", "**/b/*.jsonl", "**", "a/**", "*/**/3.jsonl", "**/b/**/*.jsonl", "a/*/*.jsonl", "**/[0-2].jsonl"])
def test_two_stars_are_any_depth_as_in_pythons_glob(top, pattern):
    right = sorted(name for name in glob.glob(pattern, recursive=True) if os.path.isfile(name))
    assert right and paths(pattern) == right and paths(f"{top}/{pattern}") == [f"{top}/{name}" for name in right]


def test_two_stars_within_a_name_are_refused(top):
    for pattern in "a**/x", "**.jsonl", "***/x":
        refused(lambda: rota.open(pattern), rota.InvalidArgumentError, r'"\*\*" is any number of directories')
    refused(lambda: rota.Catalog(top / "{0..3}" / "*.tar"), rota.InvalidArgumentError, "use one of both")


def test_what_file_systems_and_downloads_leave_is_left_out_and_counted(tmp_path):
    for name in "0.bin", "1.bin.part", "2.bin.crdownload", "lost+found/3.bin", "@eaDir/4.bin":
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    assert paths(tmp_path) == [f"{tmp_path}/0.bin"] and len(paths(tmp_path, all_names=True)) == 5
