"""The page that `rota report` makes of traces: what the loop waited for, the strip of each epoch, waits over time, slow files.

It runs alone, with nothing but Python: the tool calls it so.
"""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while it imports, too

import argparse
import contextlib
import html
import json
import math
import os
import re
import statistics
import subprocess
import sys
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

COLOURS = "#3b7dd8 #d99a1e #2f9e7f #8e5bc4 #a5623a #3f9fc4 #7d8f2a #b05a92".split()
MOST_EPOCHS = 12  # strips
MOST_RANKS = 8  # lines; of more, the quickest, the middle and the slowest
MOST_BINS = 200
LITTLE = 0.02  # of its time: a loop that waits less is not kept
MUCH = 0.10  # one that waits so much is bound by what it waits for


class Failure(Exception):
    """What ends with exit code 1."""


# ---- what the traces say ----


class Rank:
    """What one rank has in one phase: a column for each number of its batches."""

    COLUMNS = "step epoch consumed n size at wait read transform".split()

    def __init__(self) -> None:
        self.columns = {name: array("d") for name in self.COLUMNS}

    def __getattr__(self, name: str) -> array[float]:
        return self.columns[name]

    def add(self, record: dict[str, Any]) -> None:
        record.setdefault("size", len(record["ids"]))
        for name, column in self.columns.items():
            column.append(record.get(name, -1))


class Phase(NamedTuple):
    number: int
    start: dict[str, Any]
    ranks: dict[int, Rank]
    files: dict[tuple[int, str], list[float]]  # by rank: how long each was waited for, where it was the slowest of a batch

    @property
    def world(self) -> int:
        return self.start["world"]


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Its records; a last line that was not finished is none."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
            except ValueError:
                if line.endswith("\n"):
                    raise Failure(f"read {path}: line {number} is no record") from None
                return
            if isinstance(record, dict):
                yield record


def read(directory: Path) -> list[Phase]:
    """The phases in order."""
    phases: dict[int, Phase] = {}
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix == ".jsonl" and path.is_file())
        for path in paths:
            records = lines_of(path)
            start = next(records, None)
            if start is None or start.get("event") != "start":
                continue  # a rank was killed before it had written a line
            if start.get("v") != 1:
                raise Failure(f"read {path}: version {start.get('v')} of traces; this rota knows 1")
            phase = phases.setdefault(start["phase"], Phase(start["phase"], start, {}, defaultdict(list)))
            rank = phase.ranks.setdefault(start["rank"], Rank())
            for record in records:
                if record.get("event") == "batch":
                    rank.add(record)
                    if "slowest" in record:  # a file, or a sample of one: "a.txt, record 7 at byte 90"
                        name = re.sub(r", \w+ \d.*", "", record["slowest"])
                        phase.files[start["rank"], name].append(float(record["slowest_seconds"]))
    except OSError as error:
        raise Failure(f"read {directory}: {error.strerror}") from None
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Failure(f"read {path}: a record is none of rota's ({type(error).__name__}: {error})") from None
    if not phases:
        raise Failure(f"read {directory}: there is no trace in it")
    return [phases[number] for number in sorted(phases)]


def audit(tool: Sequence[str], directory: Path, so_fars: Sequence[bool]) -> tuple[str, list[str]]:
    """What `rota audit` says in the end, and the problems that it found."""
    for so_far in so_fars:
        command = [*tool, "audit", *["--running"] * so_far, str(directory)]
        ran = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
        if ran.returncode == 0:
            return ran.stdout.splitlines()[-1] + ", as far as all ranks have come" * so_far, []
        _, failed, problems = ran.stdout.partition("FAILED: ")
        if not failed:
            raise Failure(ran.stderr.strip().removeprefix("error: ") or f"audit {directory}: it ended with {ran.returncode}")
    number, *lines = problems.splitlines()
    return f"found {number}", lines


class Part(NamedTuple):
    """Samples [begin, end) of an epoch, by a phase."""

    begin: float
    end: float
    phase: int
    counts: bool  # they were not delivered again, behind a checkpoint that a later phase went back to


def parts_of(phases: list[Phase]) -> dict[int, list[Part]]:
    """Of each epoch, in order. Of a stream, whose epochs have no numbers of samples, [step, step + 1) of epoch 0."""
    parts: dict[int, list[Part]] = defaultdict(list)
    is_stream = "samples" not in phases[0].start
    for index, phase in enumerate(phases):
        until = min((later.start["step"] for later in phases[index + 1 :]), default=float("inf"))
        seen: dict[float, tuple[float, float, float]] = {}
        had: dict[float, int] = defaultdict(int)  # by how many ranks
        for rank in phase.ranks.values():
            for step, epoch, consumed, n in zip(rank.step, rank.epoch, rank.consumed, rank.n):
                seen[step] = (0, step, 1) if is_stream else (epoch, consumed, n)
                had[step] += 1
        for step in sorted(step for step in seen if had[step] >= phase.world):
            for epoch, begin, end in epochs_of(phase.start, *seen[step]):
                own = parts[epoch]
                if own and own[-1].end == begin and own[-1][2:] == (index, step < until):
                    own[-1] = own[-1]._replace(end=end)
                else:
                    own.append(Part(begin, end, index, step < until))
    return dict(sorted(parts.items()))


def epochs_of(start: dict[str, Any], epoch: float, begin: float, n: float) -> Iterator[tuple[int, float, float]]:
    """What n slots from there on are of each epoch: what goes beyond one is padding, unless it is of the next."""
    whole = start["samples"][0] if len(start.get("samples", [])) == 1 else float("inf")
    while n > 0 and whole > 0:
        end = min(begin + n, whole)
        yield int(epoch), begin, end
        n -= end - begin
        epoch, begin = epoch + 1, 0
        if start.get("tail") != "carry":
            return


def faults_of(parts: list[Part], whole: float) -> list[tuple[float, float, str]]:
    """What of [0, whole) is not delivered, or twice."""
    found, at = [], 0.0
    for begin, end, *_ in sorted(part for part in parts if part.counts):
        if begin > at:
            found.append((at, begin, "missing"))
        if begin < at:
            found.append((begin, min(at, end), "twice"))
        at = max(at, end)
    return found + ([(at, whole, "missing")] if at < whole else [])


# ---- in words ----


def ms(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.{0 if seconds >= 0.1 else 1 if seconds >= 0.001 else 2}f} ms"


def mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0


class Waits(NamedTuple):
    """Of a phase, by rank; without its first batch, which waits for the start."""

    seconds: dict[int, list[float]]
    share: float  # of the time of the rank that waits the most
    read: float  # a batch
    transform: float


def waits_of(phase: Phase) -> Waits | None:
    """None where it has no times."""
    ranks = {number: rank for number, rank in sorted(phase.ranks.items()) if len(rank.at) > 1 and rank.at[0] >= 0}
    if not ranks:
        return None
    seconds = {number: list(rank.wait[1:]) for number, rank in ranks.items()}
    share = max(sum(seconds[number]) / max(rank.at[-1] - rank.at[0], 1e-9) for number, rank in ranks.items())
    return Waits(
        seconds,
        min(share, 1),
        max(mean(rank.read[1:]) for rank in ranks.values()),
        max(mean(rank.transform[1:]) for rank in ranks.values()),
    )


def verdict(phase: Phase, waits: Waits) -> tuple[str, str]:
    """One word for it, and a sentence."""
    means = {rank: mean(seconds) for rank, seconds in waits.seconds.items()}
    worst = max(means, key=lambda rank: means[rank])
    usual = statistics.median([value for rank, value in means.items() if rank != worst] or [math.inf])
    share = f"{100 * waits.share:.1f} % of its time"
    transform = f" and {ms(waits.transform)} to transform" if waits.transform else ""
    took = f"a batch takes a worker {ms(waits.read)} to read{transform}" if waits.read else "of streams nobody knows what for"
    if waits.share < LITTLE:
        return "never waited for", f"The loop waits for {share}."
    if waits.share < MUCH:
        return "seldom waited for", f"The loop waits for {share}; {took}."
    if means[worst] >= max(2 * usual, usual + 1e-3):
        own = {name: sum(seconds) for (rank, name), seconds in phase.files.items() if rank == worst}
        of = f" Its slowest file is {max(own, key=lambda name: own[name])}." if own else ""
        return "straggler", f"Rank {worst} waits {ms(means[worst])} a step, others {ms(usual)}.{of}"
    if waits.transform > waits.read:
        return "transform-bound", f"The loop waits for {share}; {took}. More workers, or a transform that takes less."
    return "input-bound", f"The loop waits for {share}; {took}. rota speed shows what this storage can give."


# ---- the page ----

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5d6875; --line: #d8dde3; --ground: #ffffff; --red: #d11a2a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ed; --soft: #98a3af; --line: #333b45; --ground: #14181d; --red: #ff5a67; } }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 62rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); font-size: .875rem; } .bad { color: var(--red); font-weight: 600; }
svg { display: block; width: 100%; } .strip { height: 2rem; border-radius: 4px; } .again { height: .5rem; margin-top: 2px; }
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


def rectangles(spans: Iterable[tuple[float, float, str]], whole: float) -> Iterator[str]:
    for begin, end, colour in spans:
        width = max(1000 * (end - begin) / whole, 1)
        yield f'<rect x="{1000 * begin / whole:.2f}" width="{width:.2f}" height="10" fill="{colour}"/>'


def picture(kind: str, label: str, inside: str, height: int) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 1000 {height}" preserveAspectRatio="none" role="img" aria-label="{text(label)}">'
        f"{inside}</svg>"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{"".join(f"<th>{text(cell)}</th>" for cell in head)}</tr>{cells}</table></div>'


def strips(phases: list[Phase], colours: dict[int, str]) -> Iterator[str]:
    samples = phases[0].start.get("samples", [])
    all_parts = parts_of(phases)
    is_over = len(samples) == 1
    yield keys([*((count(world, "rank"), colour) for world, colour in colours.items()), ("missing, or twice", "var(--red)")])
    shown = 0
    for epoch, parts in all_parts.items():
        end = max(part.end for part in parts)
        # An epoch that a later one follows is complete; of the last nobody knows whether it was to be.
        whole = float(samples[0]) if is_over else end
        last = phases[max(parts, key=lambda part: part.end).phase].start
        is_dropped = last.get("tail") == "drop" and whole - end < last["batch"]
        faults = faults_of(parts, end if is_dropped or epoch == max(all_parts) else whole)
        if shown >= MOST_EPOCHS and not faults:
            continue
        shown += 1
        spans = [(part.begin, part.end, colours[phases[part.phase].world]) for part in parts if part.counts]
        inside = [*rectangles([(0, whole, "var(--line)")], whole), *rectangles(spans[:1000], whole)]
        stops = [(part.end, phases[part.phase + 1]) for part in parts if part.counts and part.end < whole and part.phase + 1 < len(phases)]
        inside += (f'<rect x="{1000 * at / whole - 1:.2f}" width="2" height="10" fill="var(--ground)"/>' for at, _ in stops)
        inside += rectangles([(begin, until, "var(--red)") for begin, until, _ in faults], whole)
        thing = "sample" if samples else "step"
        wrong = "; ".join(f"{count(until - begin, thing)} {what}" for begin, until, what in faults)
        name = f"epoch {epoch}" if is_over else "the run"
        yield f'<div class="row"><span>{name}: {count(sum(b - a for a, b, _ in spans), thing)}{f" of {whole:,.0f}" if is_over else ""}</span>'
        yield f'<span class="{"bad" if faults else "soft"}">{wrong or "none missing, none twice"}</span></div>'
        yield picture("strip", f"{name}: {wrong or 'no gap'}", "".join(inside[:2000]), 10)
        again = [(part.begin, part.end, colours[phases[part.phase].world]) for part in parts if not part.counts]
        if again:
            yield picture("again", "run again", "".join(rectangles(again, whole)), 10)
            yield '<p class="soft">Below: steps that were run again, behind a checkpoint.</p>'
    if shown < len(all_parts):
        yield f'<p class="soft">and {count(len(all_parts) - shown, "epoch")} more, without a fault.</p>'
    stops_said = [f"at step {phase.start['step']:,} with {count(phase.world, 'rank')}" for phase in phases[1:]]
    if stops_said:
        yield f'<p class="soft">It went on {text(", ".join(stops_said))}.</p>'


def lines_to_draw(phase: Phase) -> dict[str, Rank]:
    ranks = {number: rank for number, rank in sorted(phase.ranks.items()) if len(rank.wait) and rank.at[0] >= 0}
    chosen = list(ranks)
    if len(ranks) > MOST_RANKS:
        by_wait = sorted(ranks, key=lambda number: sum(ranks[number].wait))
        chosen = [by_wait[0], by_wait[len(by_wait) // 2], by_wait[-1]]
    return {f"rank {number}": ranks[number] for number in chosen}


def chart(phase: Phase) -> Iterator[str]:
    """Waits of a phase: of each bin the longest; a bin has two batches or more."""
    ranks = lines_to_draw(phase)
    bins = max(min(max(len(rank.at) for rank in ranks.values()) // 2, MOST_BINS), 2)
    begin = min(rank.at[0] for rank in ranks.values())
    span = max(max(rank.at[-1] for rank in ranks.values()) - begin, 1e-3)
    lines = {name: [0.0] * bins for name in ranks}
    for waits, rank in zip(lines.values(), ranks.values()):
        for at, wait in zip(rank.at, rank.wait):
            bin = min(max(int(bins * (at - begin) / span), 0), bins - 1)  # clocks may be set back
            waits[bin] = max(waits[bin], wait)
    highest = max(1e-6, *(max(waits) for waits in lines.values()))
    inside = []
    for waits, colour in zip(lines.values(), COLOURS):
        points = " ".join(f"{1000 * (bin + 0.5) / bins:.1f},{99 - 98 * wait / highest:.2f}" for bin, wait in enumerate(waits))
        inside.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5" vector-effect="non-scaling-stroke"/>'
        )
    yield f'<div class="row soft"><span>up to {ms(highest)}</span></div>'
    yield picture("chart", f"waits of {', '.join(lines)}", "".join(inside), 100)
    yield f'<div class="row soft"><span>0 s</span><span>{span:.1f} s</span></div>'
    yield keys(zip(lines, COLOURS))


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)] if values else 0.0


def waits(timed: list[tuple[Phase, Waits]]) -> Iterator[str]:
    rows = []
    for phase, found in timed:
        everyone = [wait for seconds in found.seconds.values() for wait in seconds]
        rate = sum(sum(rank.size[1:]) / (rank.at[-1] - rank.at[0]) for rank in phase.ranks.values() if len(rank.at) > 1 and rank.at[-1] > rank.at[0])
        rows.append([
            f"{phase.number}: {count(phase.world, 'rank')}", f"{max(len(rank.at) for rank in phase.ranks.values()):,}",
            f"{rate:,.0f}", f"{100 * found.share:.1f} %", *(ms(quantile(everyone, share)) for share in (0.5, 0.99, 0.999)),
            ms(found.read), ms(found.transform),
        ])  # fmt: skip
    yield table(["phase", "steps", "samples/s", "waited", "p50", "p99", "p99.9", "read", "transform"], rows)
    for phase, _ in timed[:MOST_EPOCHS]:
        yield f"<p>Phase {phase.number}, {count(phase.world, 'rank')}: the longest waits, over its time</p>"
        yield from chart(phase)


def slow_files(phases: list[Phase]) -> Iterator[str]:
    files: dict[str, list[float]] = defaultdict(list)
    for phase in phases:
        for (_, name), seconds in phase.files.items():
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


def section(directory: Path, tool: Sequence[str]) -> Iterator[str]:
    phases = read(directory)
    is_running = len(phases[-1].ranks) == phases[-1].world  # or was ended: no rank's file is missing
    said, problems = audit(tool, directory, (False, True) if is_running else (False,))
    worlds = dict.fromkeys(phase.world for phase in phases)
    colours = {world: COLOURS[i % len(COLOURS)] for i, world in enumerate(worlds)}
    yield f"<h1>{text(directory)}</h1>"
    yield f'<p class="soft">{count(len(phases), "phase")}, {" → ".join(str(phase.world) for phase in phases[:-1])}{" → " * (len(phases) > 1)}{count(phases[-1].world, "rank")}</p>'
    yield "<h2>What the loop waited for</h2>"
    timed = []
    for phase in phases:
        waited = waits_of(phase)
        if waited is None:
            yield f"<p>Phase {phase.number}: too few batches, or a trace without times.</p>"
        else:
            timed.append((phase, waited))
            word, sentence = verdict(phase, waited)
            yield f"<p><b>Phase {phase.number}, {count(phase.world, 'rank')}: {word}.</b> {text(sentence)}</p>"
    yield "<h2>Every sample, once</h2>"
    yield from strips(phases, colours)
    yield from (f'<p class="bad">{text(problem)}</p>' for problem in problems)
    yield f'<p class="soft"><code>rota audit</code> {text(said)}.</p>'
    if timed:
        yield "<h2>Waits</h2>"
        yield from waits(timed)
    if any(waited.read for _, waited in timed):
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
