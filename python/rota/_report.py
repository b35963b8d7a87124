"""The page that `rota report` makes of traces: what the loop waited for, what was trained, the strip of each epoch, waits over
time, slow files.

It runs alone, with nothing but Python: the tool calls it so. What is in traces, `rota audit --json` tells.
"""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while it imports, too

import argparse
import contextlib
import html
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

COLOURS = "#3b7dd8 #d99a1e #2f9e7f #8e5bc4 #a5623a #3f9fc4 #7d8f2a #b05a92".split()
FATES = {"open": "#f2c230", "dropped": "#5d6875"}  # of samples that are settled by hand
MOST_EPOCHS = 12  # strips
MOST_CHANGES = 12  # in words
MOST_ROWS = 32  # of datasets
MOST_RANKS = 8  # lines; of more, the quickest, the middle and the slowest
MOST_BINS = 200
MOST_PROBLEMS = 20
COLUMNS = ("at", "wait", "read", "transform")  # of a rank
LITTLE = 0.02  # of its time: a loop that waits less is not kept
MUCH = 0.10  # one that waits so much is bound by what it waits for

Json = dict[str, Any]


class Failure(Exception):
    """What ends with exit code 1."""


def audit(tool: Sequence[str], directory: Path) -> Json:
    """What docs/traces.md says under *The audit as JSON*."""
    named = f"./{directory}" if str(directory).startswith("-") else str(directory)
    ran = subprocess.run([*tool, "audit", "--json", named], capture_output=True, encoding="utf-8", errors="replace")
    try:
        # Columns of ranks may be long.
        return json.loads(ran.stdout, object_hook=lambda one: {name: array("d", one[name]) if name in COLUMNS else one[name] for name in one})
    except ValueError:
        raise Failure(ran.stderr.strip().removeprefix("error: ") or f"audit {directory}: it ended with {ran.returncode}") from None


# ---- in words ----


def ms(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.{0 if seconds >= 0.1 else 1 if seconds >= 0.001 else 2}f} ms"


def timed(phase: Json) -> list[Json]:
    """Its ranks of which something is known behind the first batch, which waits for the start."""
    return [rank for rank in phase["ranks"] if rank["at"] and 0 <= rank["at"][0] < rank["at"][-1]]


def seconds_of(rank: Json) -> float:
    return rank["at"][-1] - rank["at"][0]


def share_of(phase: Json) -> float:
    """How much of its time the rank waits that waits the most."""
    return min(max(sum(rank["wait"][1:]) / seconds_of(rank) for rank in timed(phase)), 1)


def longest(phase: Json, work: str) -> float:
    """A batch, of the rank that it takes the longest."""
    return max(statistics.fmean(rank[work][1:]) for rank in timed(phase))


def verdict(phase: Json) -> tuple[str, str]:
    """One word for it, and a sentence."""
    means = {rank["rank"]: statistics.fmean(rank["wait"][1:]) for rank in timed(phase)}
    worst = max(timed(phase), key=lambda rank: means[rank["rank"]])
    most = means.pop(worst["rank"])
    usual = statistics.median(means.values() or [math.inf])
    waited, read, transform = share_of(phase), longest(phase, "read"), longest(phase, "transform")
    share = f"The loop waits for {100 * waited:.1f} % of its time"
    transformed = f" and {ms(transform)} to transform" if transform else ""
    took = f"a batch takes a worker {ms(read)} to read{transformed}" if read else "of streams nobody knows what for"
    if waited < LITTLE:
        return "never waited for", f"{share}."
    if waited < MUCH:
        return "seldom waited for", f"{share}; {took}."
    if most >= max(2 * usual, usual + 1e-3):
        slow = worst["slow"]
        of = f" Its slowest file is {max(slow, key=lambda name: sum(slow[name]))}." if slow else ""
        return "straggler", f"Rank {worst['rank']} waits {ms(most)} a step, others {ms(usual)}.{of}"
    if transform > read:
        return "transform-bound", f"{share}; {took}. More workers, or a transform that takes less."
    return "input-bound", f"{share}; {took}. rota speed shows what this storage can give."


# ---- the page ----

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5d6875; --line: #d8dde3; --ground: #ffffff; --red: #d11a2a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ed; --soft: #98a3af; --line: #333b45; --ground: #14181d; --red: #ff5a67; } }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 62rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); font-size: .875rem; } .bad { color: var(--red); font-weight: 600; }
svg { display: block; width: 100%; } .strip { height: 2rem; border-radius: 4px; } .again { height: .5rem; margin-top: 2px; }
.bars { height: 1.1rem; border-bottom: 1px solid var(--line); }
.chart { height: 11rem; border-left: 1px solid var(--line); border-bottom: 1px solid var(--line); }
.row { display: flex; margin-top: .35rem; justify-content: space-between; flex-wrap: wrap; gap: 0 1rem; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .35em; }
.keys span { margin-right: 1.1rem; white-space: nowrap; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .875rem; width: 100%; }
td, th { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
td:first-child, th:first-child { text-align: left; white-space: normal; overflow-wrap: break-word; min-width: 6rem; padding-left: 0; }
"""


def text(value: object) -> str:
    return html.escape(str(value))


def count(n: float, thing: str) -> str:
    return f"{n:,.0f} {thing}{'' if n == 1 else 's'}"


def keys(entries: Iterable[tuple[str, str]]) -> str:
    spans = (f'<span><i class="key" style="background:{colour}"></i>{text(label)}</span>' for label, colour in entries)
    return f'<p class="soft keys">{"".join(spans)}</p>'


def rectangles(spans: Iterable[tuple[Any, ...]], whole: float) -> Iterator[str]:
    """Of [begin, end) and a colour; and of how much of the height, where that is not all."""
    for begin, end, colour, *share in spans:
        width = max(1000 * (end - begin) / whole, 1)
        high = f'y="{10 - 10 * share[0]:.2f}" height="{10 * share[0]:.2f}"' if share else 'height="10"'
        yield f'<rect x="{1000 * begin / whole:.2f}" width="{width:.2f}" {high} fill="{colour}"/>'


def picture(kind: str, label: str, inside: str, height: int) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 1000 {height}" preserveAspectRatio="none" role="img" aria-label="{text(label)}">'
        f"{inside}</svg>"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{"".join(f"<th>{text(cell)}</th>" for cell in head)}</tr>{cells}</table></div>'


def is_mixture(found: Json) -> bool:
    return len(found["samples"]) > 1 or any("name" in of for of in found.get("strip", {"datasets": []})["datasets"])


def strips(found: Json, colours: dict[int, str]) -> Iterator[str]:
    phases = found["phases"]
    thing = "sample" if found["samples"] else "step"
    has_epochs = len(found["samples"]) == 1 and not is_mixture(found)
    shown = [*found["epochs"][:MOST_EPOCHS], *(epoch for epoch in found["epochs"][MOST_EPOCHS:] if epoch["faults"])]

    def spans(parts: list[Json], counts: bool) -> list[tuple[float, float, str]]:
        return [(part["begin"], part["end"], colours[part["phase"]]) for part in parts if part["counts"] == counts]

    worlds = {phase["world"]: colours[phase["phase"]] for phase in phases}
    fates = [fate for fate in FATES if any(epoch.get(fate) for epoch in found["epochs"])]
    more = [(f"{fate}, by hand", FATES[fate]) for fate in fates]
    yield keys([*((count(world, "rank"), colour) for world, colour in worlds.items()), *more, ("missing, or twice", "var(--red)")])
    for epoch in shown:
        whole, parts, faults = epoch["size"], epoch["parts"], epoch["faults"]
        once, again = spans(parts, True), spans(parts, False)
        inside = [*rectangles([(0, whole, "var(--line)")], whole), *rectangles(once[:1000], whole)]
        stops = [part["end"] for part in parts if part["counts"] and part["end"] < whole and part["phase"] != phases[-1]["phase"]]
        inside += (f'<rect x="{1000 * at / whole - 1:.2f}" width="2" height="10" fill="var(--ground)"/>' for at in stops)
        for fate in fates:
            inside += rectangles([(begin, end, FATES[fate]) for begin, end in epoch[fate][:500]], whole)
        inside += rectangles([(fault["begin"], fault["end"], "var(--red)") for fault in faults], whole)
        wrong = "; ".join(f"{count(fault['end'] - fault['begin'], thing)} {fault['kind']}" for fault in faults)
        name = f"epoch {epoch['epoch']}" if has_epochs else "the run"
        yield f'<div class="row"><span>{name}: {count(sum(b - a for a, b, _ in once), thing)}{f" of {whole:,.0f}" if has_epochs else ""}</span>'
        yield f'<span class="{"bad" if faults else "soft"}">{wrong or "none missing, none twice"}</span></div>'
        for fate in fates:
            if epoch[fate]:
                yield f'<p class="soft">{count(sum(end - begin for begin, end in epoch[fate]), thing)} {fate}</p>'
        yield picture("strip", f"{name}: {wrong or 'no gap'}", "".join(inside[:2000]), 10)
        if again:
            yield picture("again", "run again", "".join(rectangles(again, whole)), 10)
            yield '<p class="soft">Below: steps that were run again, behind a checkpoint.</p>'
    if len(shown) < len(found["epochs"]):
        yield f'<p class="soft">and {count(len(found["epochs"]) - len(shown), "epoch")} more, without a fault.</p>'
    stops_said = [f"at step {phase['step']:,} with {count(phase['world'], 'rank')}" for phase in phases[1:]]
    if stops_said:
        yield f'<p class="soft">It went on {text(", ".join(stops_said))}.</p>'


def shortened(words: Sequence[str], between: str = ", ") -> str:
    more = [f"and {len(words) - MOST_CHANGES:,} more"] * (len(words) > MOST_CHANGES)
    return between.join([*words[:MOST_CHANGES], *more])


def changes(values: Iterable[tuple[int, int]]) -> str:
    """Of where each begins: "64 → 96 at step 1,200"."""
    firsts = [next(same) for _, same in itertools.groupby(values, key=lambda one: one[1])]
    return shortened([f"{value:,}" + f" at step {at:,}" * (n > 0) for n, (at, value) in enumerate(firsts)], " → ")


def legs(found: Json) -> list[tuple[Json, int, int]]:
    """Phases, and of each the steps [begin, end) that no later one ran again."""
    end, kept = found["strip"]["steps"], []
    for phase in reversed(found["phases"]):
        if phase["step"] < end:
            kept.append((phase, phase["step"], end))
            end = phase["step"]
    return kept[::-1]


def stages_of(run: list[tuple[Json, int, int]]) -> tuple[list[int], list[int]]:
    """Where stages begin, and where the run went on by another plan."""
    plans = [phase.get("plan") for phase, _, _ in run]
    # A phase tells of those behind its first step: of one that begins there the phase before does, by the same plan.
    told = zip(run, plans, [*plans[1:], ""])
    begins = {at for (phase, _, end), own, after in told for at, _ in phase["batches"][1:] if at < end + (own == after)}
    return sorted(begins), [begin for (_, begin, _), own, before in zip(run[1:], plans[1:], plans) if own != before]


def trained(found: Json, colours: dict[int, str]) -> Iterator[str]:
    """A table of datasets; and the strip of the run by steps: ranks, batch, the share of each dataset, what was left out."""
    steps, every, datasets, left_out = (found["strip"][name] for name in ("steps", "every", "datasets", "left_out"))
    names = [of.get("name") or f"dataset {d}" for d, of in enumerate(datasets)]
    has_tokens = any("tokens_per_sample" in of for of in datasets)
    rows = []
    for name, of in zip(names, datasets):
        samples, size, mean = sum(of["trained"]), of.get("size"), of.get("tokens_per_sample")
        tokens = [f"{samples * mean:,.0f}" if mean else "-"] * has_tokens
        rows.append([name, f"{samples:,}", *tokens, f"{samples / size:.3f}" if size else "-", f"{size or 0:,}", f"{of['skipped']:,}"])
    yield table(["dataset", "samples trained", *["tokens"] * has_tokens, "epochs", "of", "left out or skipped"], rows)
    run = legs(found)
    if not run:
        return

    def row(name: str, said: str, spans: Iterable[tuple[Any, ...]]) -> str:
        head = f'<div class="row"><span>{text(name)}</span><span class="soft">{text(said)}</span></div>'
        return head + picture("bars", f"{name}: {said}", "".join(itertools.islice(rectangles(spans, steps), 1500)), 10)

    yield row("ranks", changes((begin, phase["world"]) for phase, begin, _ in run), ((begin, end, colours[phase["phase"]]) for phase, begin, end in run))
    sizes = [(at, size) for phase, _, end in run for at, size in phase["batches"] if at < end]
    most = max(size for _, size in sizes)
    yield row("batch", changes(sizes), ((at, end, "var(--soft)", size / most) for (at, size), (end, _) in zip(sizes, [*sizes[1:], (steps, 0)])))
    stages, others = stages_of(run)
    if stages or others:
        told = [f"{what} from step {shortened([f'{at:,}' for at in begins])}" for what, begins in (("", stages), ("another plan", others)) if begins]
        yield row("stages", "; ".join(told).strip(), ((at, at, "var(--ink)") for at in stages + others))
    sums = [sum(part) or 1 for part in zip(*(of["trained"] for of in datasets))]
    for name, of, colour in list(zip(names, datasets, itertools.cycle(COLOURS)))[: MOST_ROWS * (len(datasets) > 1)]:
        shares = [n / whole for n, whole in zip(of["trained"], sums)]
        said = f"{100 * sum(of['trained']) / max(sum(map(sum, (of['trained'] for of in datasets))), 1):.1f} %"
        yield row(name, said, ((k * every, min((k + 1) * every, steps), colour, share) for k, share in enumerate(shares) if share))
    if len(datasets) > MOST_ROWS:
        yield f'<p class="soft">and {count(len(datasets) - MOST_ROWS, "dataset")} more.</p>'
    if left_out:
        ranges = shortened([f"{begin:,}" + f" to {end - 1:,}" * (end - begin > 1) for begin, end in left_out])
        yield row("left out", f"{count(sum(end - begin for begin, end in left_out), 'step')}: {ranges}", ((*span, "var(--ink)") for span in left_out))
    yield f'<div class="row soft"><span>step 0</span><span>step {steps - 1:,}</span></div>'


def chart(phase: Json) -> Iterator[str]:
    """Waits of a phase: of each bin the longest; a bin has two batches or more."""
    ranks = [rank for rank in phase["ranks"] if rank["at"] and rank["at"][0] >= 0]
    if len(ranks) > MOST_RANKS:
        by_wait = sorted(ranks, key=lambda rank: sum(rank["wait"]))
        ranks = [by_wait[0], by_wait[len(by_wait) // 2], by_wait[-1]]
    bins = max(min(max(len(rank["at"]) for rank in ranks) // 2, MOST_BINS), 2)
    begin = min(rank["at"][0] for rank in ranks)
    span = max(max(rank["at"][-1] for rank in ranks) - begin, 1e-3)
    lines = {f"rank {rank['rank']}": [0.0] * bins for rank in ranks}
    for waits, rank in zip(lines.values(), ranks):
        for at, wait in zip(rank["at"], rank["wait"]):
            bin = min(max(int(bins * (at - begin) / span), 0), bins - 1)  # clocks may be set back
            waits[bin] = max(waits[bin], wait)
    highest = max(1e-6, *(max(waits) for waits in lines.values()))
    inside = ""
    for waits, colour in zip(lines.values(), COLOURS):
        points = " ".join(f"{1000 * (bin + 0.5) / bins:.1f},{99 - 98 * wait / highest:.2f}" for bin, wait in enumerate(waits))
        inside += f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5" vector-effect="non-scaling-stroke"/>'
    yield f'<div class="row soft"><span>up to {ms(highest)}</span></div>'
    yield picture("chart", f"waits of {', '.join(lines)}", inside, 100)
    yield f'<div class="row soft"><span>0 s</span><span>{span:.1f} s</span></div>'
    yield keys(zip(lines, COLOURS))


def waits(phases: list[Json]) -> Iterator[str]:
    rows = []
    for phase in phases:
        all_waits = sorted(wait for rank in timed(phase) for wait in rank["wait"][1:])
        rate = sum(sum(rank["samples"][1:]) / seconds_of(rank) for rank in timed(phase))
        rows.append([
            f"{phase['phase']}: {count(phase['world'], 'rank')}", f"{max(len(rank['at']) for rank in phase['ranks']):,}",
            f"{rate:,.0f}", f"{100 * share_of(phase):.1f} %",
            *(ms(all_waits[math.ceil(share * len(all_waits)) - 1]) for share in (0.5, 0.99, 0.999)),
            ms(longest(phase, "read")), ms(longest(phase, "transform")),
        ])  # fmt: skip
    yield table(["phase", "steps", "samples/s", "waited", "p50", "p99", "p99.9", "read", "transform"], rows)
    for phase in phases[:MOST_EPOCHS]:
        yield f"<p>Phase {phase['phase']}, {count(phase['world'], 'rank')}: the longest waits, over its time</p>"
        yield from chart(phase)


def slow_files(phases: list[Json]) -> Iterator[str]:
    files: dict[str, list[float]] = defaultdict(list)
    for slow in (rank["slow"] for phase in phases for rank in phase["ranks"]):
        for name, seconds in slow.items():
            files[name] += seconds
    if not files:
        yield "<p>No read of a file took 1 ms.</p>"
        return
    slowest = sorted(files, key=lambda name: -sum(files[name]))[:10]
    yield table(
        ["file", "batches", "sum", "longest"],
        ([name, f"{len(files[name]):,}", ms(sum(files[name])), ms(max(files[name]))] for name in slowest),
    )
    yield f'<p class="soft">Of {count(len(files), "file")} that a batch waited for the longest, 1 ms or more.</p>'


def judged(found: Json) -> Iterator[str]:
    last = found["phases"][-1]
    may_run = not found["passed"] and len(last["ranks"]) == last["world"]  # or was ended: no rank's file is missing
    judgement = found["so_far"] if may_run else found
    lines = [problem["text"] for problem in judgement["problems"]]
    more = [f"... and {len(lines) - MOST_PROBLEMS} more"] * (len(lines) > MOST_PROBLEMS)
    yield from (f'<p class="bad">{text(line)}</p>' for line in lines[:MOST_PROBLEMS] + more)
    so_far = ", as far as all ranks have come" * (may_run and judgement["passed"])
    yield f'<p class="soft"><code>rota audit</code> {text(judgement["verdict"])}{so_far}.</p>'


def section(directory: Path, tool: Sequence[str]) -> Iterator[str]:
    found = audit(tool, directory)
    phases = found["phases"]
    worlds = [phase["world"] for phase in phases]
    of_worlds = dict(zip(dict.fromkeys(worlds), itertools.cycle(COLOURS)))
    yield f"<h1>{text(directory)}</h1>"
    yield f'<p class="soft">{count(len(phases), "phase")}, {" → ".join([*map(str, worlds[:-1]), count(worlds[-1], "rank")])}</p>'
    yield "<h2>What the loop waited for</h2>"
    for phase in phases:
        if timed(phase):
            word, sentence = verdict(phase)
            yield f"<p><b>Phase {phase['phase']}, {count(phase['world'], 'rank')}: {word}.</b> {text(sentence)}</p>"
        else:
            yield f"<p>Phase {phase['phase']}: too few batches, all at one time, or a trace without times.</p>"
        if of := phase.get("costliest_rank"):
            yield (
                f"<p>Phase {phase['phase']}: the costliest rank of a step has {of['balanced']:.3f} times the mean of all ranks; "
                f"with equal slices it would have {of['by_sample']:.2f} times.</p>"
            )
    colours = {phase["phase"]: of_worlds[phase["world"]] for phase in phases}
    if is_mixture(found) or any("plan" in phase for phase in phases):
        yield "<h2>What was trained</h2>"
        yield from trained(found, colours)
    yield "<h2>Every sample, once</h2>"
    yield from strips(found, colours)
    yield from judged(found)
    with_times = [phase for phase in phases if timed(phase)]
    if with_times:
        yield "<h2>Waits</h2>"
        yield from waits(with_times)
    if any(longest(phase, "read") for phase in with_times):
        yield "<h2>The slowest files</h2>"
        yield from slow_files(phases)


def page(directories: Sequence[Path], tool: Sequence[str]) -> str:
    body = "\n".join(line for directory in directories for line in section(directory, tool))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>rota report</title><style>{STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def write(path: Path, content: str) -> None:
    """Whole, or not at all; into a device or a pipe as it comes."""
    new = path
    try:
        if path.is_file() or not path.exists():
            path = path.resolve()  # a link stays one
            new = path.with_name(f".rota-{os.getpid()}.html")
        new.write_text(content, encoding="utf-8", errors="replace")
        new.replace(path) if new != path else None
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True) if new != path else None
        raise Failure(f"write {path}: {error.strerror}") from None


def plain(words: object) -> str:
    """On one line, which does nothing to a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in str(words))


def run(main: Callable[..., int], *arguments: Sequence[str]) -> int:
    """Runs a verb as a program of C++ is run: signals end it without a word, and what fails is told on a line."""
    for number in (signal.SIGINT, signal.SIGPIPE):
        if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGPIPE:
            signal.signal(number, signal.SIG_DFL)
    try:
        code = main(*arguments)
        print(end="", flush=True)
        return code
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.filename is None:
            words = f"write to standard output: {error.strerror}"
        print(f"error: {plain(error if isinstance(error, Failure) else words)}", file=sys.stderr)
        os._exit(1)  # without another try to write what could not be written


def main(arguments: Sequence[str], tool: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="rota report", allow_abbrev=False, description="Makes one page of traces: what the loop waited for, and that each sample came once."
    )
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE", help="a directory of traces")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the page, such as report.html")
    given = parser.parse_args(arguments)
    write(given.output, page(given.traces, tool))
    return 0


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[2:], sys.argv[1:2]))
