"""The page that `rota report` makes of traces: its words and numbers are those of the trace."""

import json
import os
import re
import subprocess
import sys
from collections import Counter

import pytest
import rota
from runs import source

SAMPLES, BATCH = 200, 20


def rank_of(folder, rank, ranks, start, steps, wait=0.001, **members):
    """A trace file of a rank that never ran: its batches follow `start`, and it waits so long for each."""
    begin, number = start["consumed"], len(list(folder.glob("*.jsonl")))
    path = folder / f"phase-{start['phase']:06}-rank-{rank:05}.jsonl"
    head = dict(event="start", v=1, world=ranks, rank=rank, workers=1, batch=BATCH, split="by_sample", tail="partial")
    head |= dict(start, epoch=0, fingerprint="0" * 32, samples=[SAMPLES])
    lines = [head]
    for k in range(steps):
        consumed = begin + k * BATCH
        first, last = (consumed + r * BATCH // ranks for r in (rank, rank + 1))
        ids = list(range(first, last))
        lines.append(
            dict(event="batch", phase=start["phase"], rank=rank, epoch=0, consumed=consumed, step=start["step"] + k, n=BATCH, ids=ids)
            | dict(digests=[f"{id:016x}" for id in ids], at=1000.0 + number + 0.1 * k, wait=wait, read=0.03, transform=0.01)
            | members
        )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def phase_of(folder, number, ranks, consumed, steps, waits=0.001, **members):
    folder.mkdir(exist_ok=True)
    start = dict(phase=number, consumed=consumed, step=consumed // BATCH)
    for rank in range(ranks):
        rank_of(folder, rank, ranks, start, steps, waits if isinstance(waits, float) else waits[rank], **members)


def report(*arguments):
    return subprocess.run([os.environ["ROTA_TOOL"], "report", *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture
def page(tmp_path):
    def make(*traces):
        out = tmp_path / "report.html"
        made = report(*(traces or [tmp_path / "trace"]), "-o", out)
        assert made.returncode == 0, made.stderr
        return out.read_text()

    return make


def words(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.split("</style>")[1]))


@pytest.mark.parametrize("form", ["samples", "stream"])
def test_of_a_real_run_in_three_worlds_there_is_no_gap(tmp_path, page, form):
    state = None
    for phase, (ranks, steps) in enumerate([(3, 2), (5, 3), (2, 100)]):
        for rank in range(ranks if form == "samples" else 1):
            loader = rota.Loader(source(SAMPLES), BATCH, seed=1, world=(rank, ranks))
            if form == "stream":
                loader = rota.StreamLoader(rota.as_stream(source(SAMPLES), 4), BATCH, comm=None)
            if state:
                loader.load_state_dict(state)
            trace = rota.TraceWriter(tmp_path / "trace", loader, phase=phase)
            for _, batch in zip(range(steps), loader):
                trace.write(batch)
            if steps == 100 or form == "samples":
                trace.end()
            after = loader.state_dict()
        state = after
    html = page()
    assert "none missing, none twice" in html and "passed: each sample" in html
    if form == "samples":
        assert f"epoch 0: {SAMPLES} samples of {SAMPLES}" in words(html) and "3 → 5 → 2 ranks" in html
        assert "It went on at step 2 with 5 ranks, at step 5 with 2 ranks." in html


@pytest.mark.parametrize("tail, said", [("partial", 70), ("pad", 70), ("drop", 64), ("carry", 70)])
def test_epochs_end_as_their_tail_says(tmp_path, page, tail, said):
    loader = rota.Loader(source(70), 16, tail=tail, epochs=3)
    trace = rota.TraceWriter(tmp_path / "trace", loader, phase=0)
    for batch in loader:
        trace.write(batch)
    trace.end()
    html = words(page())
    assert all(f"epoch {epoch}: {said} samples of 70 none missing, none twice" in html for epoch in range(3)), html


def test_gaps_and_repeats_are_counted_and_red(tmp_path, page):
    phase_of(tmp_path / "trace", 0, 2, 0, 3)
    phase_of(tmp_path / "trace", 1, 2, 100, 5)
    html = page()
    assert "40 samples missing" in html and 'fill="var(--red)"' in html and "found " in words(html)
    assert "gap: phase 1" in words(html)


def test_steps_that_were_run_again_are_no_repeats(tmp_path, page):
    phase_of(tmp_path / "trace", 0, 2, 0, 6)
    phase_of(tmp_path / "trace", 1, 3, 80, 6)
    html = page()
    assert "none missing, none twice" in html and "steps that were run again" in html


def test_what_is_open_and_dropped_by_hand_has_its_colours(tmp_path, page):
    loader = rota.Loader(source(SAMPLES), BATCH, settle="by_hand")
    trace = rota.TraceWriter(tmp_path / "trace", loader)
    for batch in loader:
        trace.write(batch)
        loader.settle(batch.ids[5:], batch.epochs[5:])
        loader.drop(batch.ids[:2], batch.epochs[:2], reason="stale")
    trace.end()
    html = page()
    assert "20 samples dropped" in words(html) and "30 samples open" in words(html)
    assert "open, by hand" in words(html) and html.count('fill="#f2c230"') == html.count('fill="#5d6875"') == 10
    assert "settled, dropped or open" in words(html)


@pytest.mark.parametrize(
    "waits, members, word, sentence",
    [
        ((0.0001, 0.0001), {}, "never waited for", "The loop waits for 0.1 % of its time."),
        ((0.005, 0.005), {}, "seldom waited for", "The loop waits for 5.0 % of its time; a batch takes a worker 30.0 ms to read"),
        ((0.05, 0.05), {}, "input-bound", "The loop waits for 50.0 % of its time; a batch takes a worker 30.0 ms to read"),
        ((0.05, 0.05), {"read": 0.001}, "transform-bound", "and 10.0 ms to transform"),
        (
            (0.003, 0.040),
            {"slowest": "data-0412.h5", "slowest_seconds": 0.04},
            "straggler",
            "Rank 1 waits 40.0 ms a step, others 3.0 ms. Its slowest file is data-0412.h5.",
        ),
    ],
)
def test_words_say_what_a_loop_waited_for(tmp_path, page, waits, members, word, sentence):
    phase_of(tmp_path / "trace", 0, 2, 0, 10, waits, **members)
    said = words(page())
    assert f"Phase 0, 2 ranks: {word}." in said and sentence in said


def test_batches_of_one_time_tell_no_waits(tmp_path, page):
    phase_of(tmp_path / "trace", 0, 2, 0, 10, at=1000.0)
    said = words(page())
    assert "Phase 0: too few batches, all at one time, or a trace without times." in said and "samples/s" not in said


def test_times_greater_than_any_are_none(tmp_path, page):
    phase_of(tmp_path / "trace", 0, 2, 0, 10, (1e308, 0.0001), read=1e308, slowest="a", slowest_seconds=1e308)
    assert "Phase 0, 2 ranks: never waited for." in words(page())


def test_an_epoch_that_was_passed_over_is_missing(tmp_path, page):
    phase_of(tmp_path / "trace", 0, 1, 0, 10)
    start = dict(phase=1, consumed=0, step=10)
    rank_of(tmp_path / "trace", 0, 1, start, 10)
    path = tmp_path / "trace" / "phase-000001-rank-00000.jsonl"
    path.write_text(path.read_text().replace('"epoch": 0', '"epoch": 2'))
    said = words(page())
    assert f"epoch 1: 0 samples of {SAMPLES} {SAMPLES} samples missing" in said
    assert f"epoch 2: {SAMPLES} samples of {SAMPLES} none missing" in said


def test_numbers_are_those_of_the_trace(tmp_path, page):
    phase_of(tmp_path / "trace", 0, 2, 0, 10, (0.004, 0.006), slowest="<b>&.h5", slowest_seconds=0.25)
    said = words(page())
    # 9 steps behind the first, of 20 samples, in 0.9 s; the rank that waits more: 9 x 6 ms of 0.9 s
    assert re.search(r"0: 2 ranks 10 200 6\.0 % 4\.0 ms 6\.0 ms 6\.0 ms 30\.0 ms 10\.0 ms", said)
    assert "&lt;b&gt;&amp;.h5 20 5.0 s 250 ms" in said and "<b>" not in page().split("Slowest")[-1].replace("<b>Phase", "")


SIZES = {"web": 300, "code": 120, "books": 60, "maths": 20}
PLAN = {
    "stages": [{"samples": 0, "global_batch_size": 16, "weights": {"web": 3, "code": 1}}, {"steps": 20, "global_batch_size": 24},
               {"steps": 40, "weights": {"web": 1, "code": 1, "books": 2}}],
    "skip": [[12, 15], [50, 51]], "tokens_per_sample": {"web": 100, "code": 50.5, "books": 10},
}  # fmt: skip


def legs(folder, *legs, names=("web", "code", "books"), plan=PLAN):
    """Legs of a run, of so many ranks, from a step on, up to another one: what its steps had that count, by dataset and kind."""
    states, steps = {}, {}
    for phase, (ranks, begin, end, *changed) in enumerate(legs):
        new_names, new_plan = changed or (names, plan)
        steps = {step: had for step, had in steps.items() if step < begin}
        for rank in range(ranks):
            data = rota.Mixture({name: source(SIZES[name]) for name in new_names}, [1] * len(new_names), "all_exhausted")
            loader = rota.Loader(data, 16, epochs=None, plan=None if begin and changed else new_plan, world=(rank, ranks))
            if begin:
                loader.load_state_dict(states[begin])
                loader.replan(new_plan) if changed else None
            trace = rota.TraceWriter(folder / "trace", loader, phase=phase)
            while loader.position.step < end:
                batch = loader.next()
                trace.write(batch)
                had = [loader.names[d] for d, kind in zip(batch.datasets, batch.kinds) if kind == 0]
                steps.setdefault(batch.start.step, Counter()).update(had)
                states[loader.position.step] = loader.state_dict()
            trace.end()
    return steps


def bars(html, name):
    """Of a row of the strip: what is said, and where its rectangles begin, of 1000."""
    said, svg = re.search(rf'aria-label="{name}: ([^"]*)">(.*?)</svg>', html).groups()
    return said, [float(x) for x in re.findall(r'<rect x="([0-9.]+)"', svg)]


def numbers_of(html, steps):
    """What the table says of each dataset is what was counted."""
    count = sum(steps.values(), Counter())
    rows = re.findall(r"<tr><td>(\w+)</td><td>([0-9,]+)</td><td>([0-9,]+|-)</td><td>([0-9.]+)</td>", html)
    means = {"web": 100, "code": 50.5, "books": 10}
    for name, samples, tokens, epochs in rows:
        assert samples == f"{count[name]:,}" and epochs == f"{count[name] / SIZES[name]:.3f}", (name, samples)
        assert tokens == (f"{count[name] * means[name]:,.0f}" if name in means else "-"), (name, tokens)
    return {name for name, *_ in rows}


def test_what_was_trained_is_told_by_dataset_and_drawn_by_step(tmp_path, page):
    steps = legs(tmp_path, (2, 0, 25), (3, 18, 43), (1, 43, 74))
    html = page()
    assert numbers_of(html, steps) == {"web", "code", "books"}
    at = lambda *steps: [round(1000 * step / 74, 2) for step in steps]  # noqa: E731
    assert bars(html, "ranks") == ("2 → 3 at step 18 → 1 at step 43", at(0, 18, 43))
    assert bars(html, "batch")[0] == "16 → 24 at step 20" and set(at(0, 18, 20, 40, 43)) == set(bars(html, "batch")[1])
    assert bars(html, "stages") == ("from step 20, 40", at(20, 40))
    assert bars(html, "left out") == ("4 steps: 12 to 14, 50", at(12, 50))
    for name in ("web", "code", "books"):
        had = {step: had for step, had in steps.items() if had[name]}
        shares = re.findall(r'height="([0-9.]+)"', re.search(rf'aria-label="{name}: .*?</svg>', html)[0])
        assert bars(html, name)[1] == at(*had) and [float(share) for share in shares] == [round(10 * of[name] / of.total(), 2) for of in had.values()]


def test_a_run_is_drawn_in_parts_where_it_is_long_and_as_far_as_all_ranks_came(tmp_path, page):
    steps = legs(tmp_path, (2, 0, 1100))
    html = page()
    assert numbers_of(html, steps) and bars(html, "web")[1] == [round(1000 * step / 1100, 2) for step in range(0, 1100, 8)]
    path = tmp_path / "trace" / "phase-000000-rank-00001.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:700])[:-20])
    last = json.loads(path.read_text().splitlines()[-2])["step"]
    assert numbers_of(page(), {step: had for step, had in steps.items() if step <= last})


def test_datasets_that_come_and_go_and_another_plan_are_told(tmp_path, page):
    plan = {"stages": PLAN["stages"]}
    other = {"stages": [*PLAN["stages"][:2], {"steps": 25, "weights": {"web": 1}}, {"steps": 30, "weights": {"web": 1, "maths": 3}}]}
    steps = legs(tmp_path, (1, 0, 25), (2, 25, 60, ("maths", "web"), other), plan=plan)
    html = page()
    rows = re.findall(r"<tr><td>(\w+)</td><td>(\d+)</td><td>([0-9.]+)</td><td>(\d+)</td>", html)
    count = sum(steps.values(), Counter())
    assert {name: (int(samples), epochs, int(of)) for name, samples, epochs, of in rows} == {
        name: (count[name], f"{count[name] / size:.3f}", size) for name, size in SIZES.items()
    }
    assert bars(html, "stages")[0] == "from step 20, 30; another plan from step 25"
    assert "the run: " in words(html) and f"{sum(count.values()):,} samples none missing" in words(html)


def test_a_mixture_without_names_or_plan_and_a_plan_of_one_dataset_have_rows_and_other_runs_none(tmp_path, page):
    def run(folder, data, **options):
        loader = rota.Loader(data, 8, **options)
        trace = rota.TraceWriter(tmp_path / folder, loader)
        count = Counter()
        for batch in loader:
            trace.write(batch)
            count.update(batch.datasets.tolist())
        trace.end()
        return count, page(tmp_path / folder)

    count, html = run("mixed", rota.Mixture([source(64), source(40)], [2, 1]))
    assert f"dataset 0 {count[0]} {count[0] / 64:.3f} 64 0 dataset 1 {count[1]} {count[1] / 40:.3f} 40 0" in words(html) and "stages" not in words(html)
    _, html = run("planned", source(64), plan={"stages": [{"steps": 2, "global_batch_size": 16}], "tokens_per_sample": 1000}, epochs=2)
    assert "dataset 0 128 128,000 2.000 64 0" in words(html) and bars(html, "batch")[0] == "8 → 16 at step 2"
    assert "dataset 0: " not in words(html) and "epoch 1: 64 samples of 64" in words(html)
    _, html = run("one", rota.Mixture({"web": source(64)}, [1], "steps", 20))
    assert "web 160 2.500 64" in words(html) and "the run: 160 samples none missing" in words(html)
    _, html = run("plain", source(64))
    assert "What was trained" not in html and 'class="bars"' not in html
    path = tmp_path / "planned" / "phase-000000-rank-00000.jsonl"
    path.write_text(re.sub(r',"(tokens_per_sample|plan|batches)":("\w+"|\[.*?\]+)', "", path.read_text()))
    assert "What was trained" not in page(tmp_path / "planned")  # of an older version


def test_a_page_stands_alone_and_is_small(tmp_path, page):
    for phase in range(30):
        phase_of(tmp_path / "trace", phase, 12, (phase % 10) * BATCH, 1)
    html = page()
    assert "<script" not in html and "http" not in html.replace("http://www.w3.org", "") and "prefers-color-scheme: dark" in html
    for svg in re.findall(r"<svg.*?</svg>", html, re.S):
        assert svg.count("<rect") + svg.count("<polyline") <= 2000


def test_several_traces_are_on_one_page(tmp_path, page):
    for name in "ab":
        phase_of(tmp_path / name, 0, 1, 0, 10)
    assert page(tmp_path / "a", tmp_path / "b").count("<h1>") == 2


def test_a_trace_without_times_has_its_strip(tmp_path, page):
    phase_of(tmp_path / "trace", 0, 2, 0, 10)
    for path in (tmp_path / "trace").iterdir():
        path.write_text(re.sub(r', "(at|wait|read|transform)": [0-9.]+', "", path.read_text()))
    said = words(page())
    assert "none missing" in said and "a trace without times" in said and "Waits" not in said


def test_a_run_that_was_killed_or_still_writes_is_shown_as_far_as_it_came(tmp_path, page):
    phase_of(tmp_path / "trace", 0, 2, 0, 6)
    path = tmp_path / "trace" / "phase-000000-rank-00001.jsonl"
    path.write_text(path.read_text()[:-30])
    assert "as far as all ranks have come" in words(page())


def test_what_cannot_be_shown_is_refused(tmp_path):
    phase_of(tmp_path / "trace", 0, 1, 0, 3)
    out = tmp_path / "report.html"
    for arguments, code, said in [
        ([tmp_path / "trace"], 2, "output"),
        (["-o", out], 2, "TRACE"),
        ([tmp_path / "none", "-o", out], 1, "No such file"),
        ([tmp_path, "-o", out], 1, "there is no trace in it"),
        ([tmp_path / "trace", "-o", tmp_path / "no" / "report.html"], 1, "report.html"),
        ([tmp_path / "trace", "-o", tmp_path], 1, "directory"),
        (["s3://bucket/trace", "-o", out], 1, "s3:"),
    ]:
        made = report(*arguments)
        assert made.returncode == code and said in made.stderr and "Traceback" not in made.stderr, made
        assert not out.exists()
    path = tmp_path / "trace" / "phase-000000-rank-00000.jsonl"
    path.write_text(path.read_text().replace('"v": 1', '"v": 2'))
    assert "trace version 2; this program reads version 1" in report(tmp_path / "trace", "-o", out).stderr
    path.write_text('{"event":"start","v":1}\n')
    assert report(tmp_path / "trace", "-o", out).returncode == 1 and not list(tmp_path.glob(".report*"))


def test_a_rank_without_a_trace_is_missing(tmp_path, page):
    phase_of(tmp_path / "trace", 0, 2, 0, 10)
    (tmp_path / "trace" / "phase-000000-rank-00001.jsonl").unlink()
    said = words(page())
    assert "none missing" not in said and "missing" in said and "passed" not in said


def test_a_page_goes_into_a_device_as_it_comes(tmp_path):
    phase_of(tmp_path / "trace", 0, 1, 0, 10)
    made = report(tmp_path / "trace", "-o", "/dev/stdout")
    assert made.returncode == 0 and made.stdout.endswith("</html>\n"), made
    full = report(tmp_path / "trace", "-o", "/dev/full")
    assert full.returncode == 1 and full.stderr == "error: write /dev/full: No space left on device\n"
    assert not os.path.isfile("/dev/full")
    os.mkfifo(tmp_path / "trace" / "pipe.jsonl")
    assert "it is no regular file" in report(tmp_path / "trace", "-o", "/dev/null").stderr
    os.unlink(tmp_path / "trace" / "pipe.jsonl")
    (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
    assert report(tmp_path / "trace", "-o", tmp_path / "link.html").returncode == 0 and (tmp_path / "link.html").is_symlink()


@pytest.mark.parametrize(
    "old, new",
    [
        ('"world": 1', '"world": "x"'), ('"world": 1', '"world": null'), ('"rank": 0', '"rank": []'), ('"samples": [200]', '"samples": "y"'),
        ('"at": 1000.3', '"at": "never"'), ('"slowest_seconds": 0.5', '"slowest_seconds": null'), ('"wait": 0.001', '"wait": 1e999'),
        ('"step": 3', '"step": ' + "9" * 500), ('"ids": [60', '"ids": ' + "[" * 100_000 + "[60"),
    ],
)  # fmt: skip
def test_what_no_rota_wrote_is_one_line(tmp_path, old, new):
    phase_of(tmp_path / "trace", 0, 1, 0, 10, slowest="a", slowest_seconds=0.5)
    path = tmp_path / "trace" / "phase-000000-rank-00000.jsonl"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    made = report(tmp_path / "trace", "-o", tmp_path / "report.html")
    assert made.returncode in (0, 1) and "Traceback" not in made.stderr and len(made.stderr.splitlines()) <= 1, made


def test_a_clock_that_is_set_back_ends_nothing(tmp_path, page):
    phase_of(tmp_path / "trace", 0, 1, 0, 10)
    path = tmp_path / "trace" / "phase-000000-rank-00000.jsonl"
    path.write_text(path.read_text().replace('"at": 1000.7', '"at": 900.7'))
    assert "none missing" in page()


def test_records_of_a_file_are_that_file_and_of_its_rank(tmp_path, page):
    start = dict(phase=0, consumed=0, step=0)
    (tmp_path / "trace").mkdir()
    for rank, wait in enumerate((0.001, 0.05)):
        rank_of(tmp_path / "trace", rank, 2, start, 10, wait, slowest=f"{rank}, a.txt, record 7 at byte {rank}", slowest_seconds=0.5 - 0.4 * rank)
    said = words(page())
    assert "Its slowest file is 1, a.txt." in said and "Of 2 files" in said


def test_a_file_with_a_comma_in_its_name_is_told_whole(tmp_path, page):
    phase_of(tmp_path / "trace", 0, 2, 0, 10, (0.003, 0.040), slowest="a, b 1.h5", slowest_seconds=0.04)
    said = words(page())
    assert "Its slowest file is a, b 1.h5." in said and "a, b 1.h5 20 800 ms 40.0 ms" in said


def test_the_script_of_the_package_does_the_same(tmp_path):
    phase_of(tmp_path / "trace", 0, 1, 0, 10)
    out = tmp_path / "report.html"
    program = "import sys; from rota import _report; sys.exit(_report.main(sys.argv[2:], sys.argv[1:2]))"
    subprocess.run([sys.executable, "-c", program, os.environ["ROTA_TOOL"], tmp_path / "trace", "-o", out], check=True)
    assert "none missing" in out.read_text()
