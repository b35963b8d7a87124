"""What a loop sees of its loader: statistics, progress, and the ranks compared."""

import io
import os
import re
import sys
import time
from pathlib import Path

import pytest
import rota
from rota import _rota
from runs import loader, refused, source

LINE = re.compile(r"epoch \d+, step [\d,]+, [\d,]+ samples/s, \d+\.\d\d GB/s, waits \d+ %(, \d+:\d\d:\d\d left)?")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def slowly(**options):
    return loader(80, transform=lambda sample: time.sleep(0.001), **options)


def test_times_are_counted_and_as_percentiles():
    one = slowly(workers=2)
    for batch in one:
        assert batch.times["transform_seconds"] >= 0.004 and batch.times["read_seconds"] > 0
        time.sleep(0.002)
    stats = one.stats
    assert stats["waits"]["count"] == 11 and stats["steps"]["count"] == 10
    assert stats["steps"]["seconds"] >= 0.02 and stats["steps"]["p999"] >= stats["steps"]["p50"] >= 0.0018
    assert [worker["transforms"]["count"] for worker in stats["workers"]] == [10, 10]
    assert stats["workers"][0]["stored_bytes"] == 0 and stats["disk_bytes"] >= 0 and stats["slowest"]["slowest_seconds"] >= 0


def test_each_statistic_is_documented():
    table = (Path(os.environ["ROTA_ROOT"]) / "docs/slow.md").read_text().partition("| `LoaderStats` |")[2].partition("\n\n")[0]
    documented = set(re.findall(r"`(?:workers\[w\]\.|datasets\[d\]\.)?(\w+)`", table))
    stats = loader(80).stats
    assert documented == {*stats, *stats["workers"][0], *stats["datasets"][0]} - {"workers", "datasets", "name"}


def test_statistics_are_text_for_prometheus():
    one = loader(80)
    for _ in one:
        pass
    stats = one.stats
    text = rota.to_prometheus(stats, rank=3, job='a "b"\\')
    assert 'rota_samples_total{rank="3",job="a \\"b\\"\\\\"} 80\n' in text
    assert f'rota_wait_seconds_sum{{rank="3",job="a \\"b\\"\\\\"}} {stats["waits"]["seconds"]}\n' in text
    plain = rota.to_prometheus(stats)
    assert f'rota_read_seconds{{worker="0",quantile="0.99"}} {stats["workers"][0]["reads"]["p99"]}\n' in plain
    heads = [line for line in plain.splitlines() if line.startswith("#")]
    assert len(set(heads)) == len(heads) == 2 * len(_rota.statistics())
    assert "# HELP rota_retries_total reads tried again after an I/O error\n# TYPE rota_retries_total counter\n" in plain
    assert 'rota_dataset_samples{dataset="0"} 80\n' in plain
    assert 'rota_worker_bytes_total{worker="0"} ' in plain and "rota_ready_batches{} 0\n" in plain
    assert all(re.fullmatch(r"# HELP rota_\w+ .+|# TYPE rota_\w+ (counter|gauge|summary)|rota_\w+\{.*\} [0-9.e-]+", line) for line in plain.splitlines())


@pytest.mark.parametrize("make", [loader, lambda n: rota.StreamLoader(rota.as_stream(source(n), 1), 8)])
def test_progress_gives_every_batch_and_tells_at_the_end(make):
    shown = io.StringIO()
    batches = list(rota.progress(make(80), file=shown))
    assert sum(batch.size for batch in batches) == 80
    (line,) = shown.getvalue().splitlines()
    assert LINE.fullmatch(line) and "left" not in line and "step 10, " in line


def test_progress_tells_now_and_then_in_a_log_with_what_is_left():
    shown = io.StringIO()
    for _ in rota.progress(slowly(), every=0.02, file=shown):
        pass
    lines = shown.getvalue().splitlines()
    assert 2 <= len(lines) <= 11 and all(LINE.fullmatch(line) for line in lines)
    assert lines[0].endswith(" left") and "waits " in lines[0]


def test_progress_draws_a_bar_on_a_terminal_and_leaves_a_line():
    shown = Terminal()
    for batch in rota.progress(loader(80), file=shown):
        time.sleep(0.03 if batch.start.step % 2 else 0)
    *drawn, last = shown.getvalue().split("\r")[1:]
    assert drawn and all(re.match(r"\[=* *\] epoch (0, step \d|1, step 10), .*\x1b\[K$", one) for one in drawn)
    assert LINE.fullmatch(last.removeprefix("\x1b[K").rstrip("\n"))


def test_progress_that_nobody_can_read_ends_no_training(monkeypatch):
    closed, full = io.StringIO(), open("/dev/full", "w")  # noqa: SIM115
    closed.close()
    for file in closed, full:
        assert len(list(rota.progress(rota.Loader(source(50), 10), every=0, file=file))) == 5
    refused(full.close, OSError)
    monkeypatch.setattr(sys, "stderr", None)
    assert len(list(rota.progress(rota.Loader(source(50), 10)))) == 5


def test_labels_that_prometheus_would_refuse_are_refused():
    stats = rota.Loader(source(1), 1).stats
    for name in "a-b", "1", "", "worker", "quantile":
        refused(lambda: rota.to_prometheus(stats, **{name: 1}), ValueError, "no name for a label")


def test_progress_of_other_ranks_is_not_shown():
    shown = io.StringIO()
    assert len(list(rota.progress(loader(80, world=(1, 2)), file=shown))) == 10
    assert shown.getvalue() == ""


def test_progress_ends_with_the_loop_and_goes_on_behind_it():
    shown = io.StringIO()
    one = loader(80)
    for _ in rota.progress(one, file=shown):
        if one.position.step == 3:
            break
    assert "step 3, " in shown.getvalue()
    assert len(list(rota.progress(one, file=shown))) == 7


def test_progress_of_a_loader_that_was_closed_ends_in_silence():
    shown = io.StringIO()
    one = loader(80)
    batches = rota.progress(one, file=shown)
    next(batches)
    one.close()
    batches.close()
    assert shown.getvalue() == ""


def test_only_loaders_of_rota_are_compared():
    refused(lambda: rota.compare_ranks([1, 2]), TypeError, "need a rota.Loader")


def test_progress_of_what_has_nothing_says_nothing():
    shown = io.StringIO()
    nothing = rota.Loader(rota.PythonSource([], fields=source(1).fields))
    assert list(rota.progress(nothing, file=shown)) == [] and shown.getvalue() == ""


def test_ranks_are_compared_since_the_last_time():
    one = slowly(workers=0)
    next(one)
    first = rota.compare_ranks(one)
    assert first["wait"]["most"] >= 0.008 and first["transform"]["rank"] == 0 and first["straggler"] == ""
    assert rota.compare_ranks(one)["wait"]["most"] == 0  # nothing was read since
    next(one)
    assert rota.compare_ranks(one)["wait"]["most"] >= 0.008
