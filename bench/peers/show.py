"""Tables and pictures of what run.py found. A cell is its words, their colour, and how much of its width is in it."""

import html
import json
import math
import os
import platform
import re
import statistics

GOOD, NEAR, BAD, NONE = "#2a9d6f", "#c79211", "#c8503c", "#8a8a8a"
STYLE = "<style>text{font:12px sans-serif;fill:#555}@media(prefers-color-scheme:dark){text{fill:#ccc}}</style>"
WORDS = {"lost": "{} dropped", "repeated": "{} twice, not marked", "pads": "{} marked", "uneven": "uneven"}  # of an epoch that nobody stopped
PARTS = {"resume": ["first batch, not stopped", "10 %", "50 %", "90 %"], "speed": ["first batch of 10^6, not stopped", "10 %"]}


def outcome(cell, dropped=0):
    """Lost / repeated / other batches. Of an epoch that nobody stopped `dropped` are lost, too, and fewer than its ranks may be repeated."""
    others = "all" if cell["others"] >= cell["behind"] > 0 else cell["others"]
    words = f"{cell['lost']} / {cell['repeated']} / {others}" + (f", of {cell['size']}" if cell["size"] != 24 else "") + ", uneven" * cell["uneven"]
    colour = BAD if cell["lost"] > dropped or cell["repeated"] >= cell["ranks"] else GOOD if words == "0 / 0 / 0" else NEAR
    return words, colour, 1


def cell_of(name, head, found, dropped=0):
    if word := re.search("'(failed|refused)': ", str(found)):
        return word[1], NONE, 0
    if isinstance(found, float):
        return f"{1000 * found:.{0 if found >= 0.01 else 1}f} ms", NONE, 0
    if head == "not stopped":
        return ", ".join(word.format(found[key]) for key, word in WORDS.items() if found[key]) or "each once", NONE, 0
    if "behind" in found:
        return outcome(found, dropped)
    one, two = (statistics.median(turn["rate"] for turn in found[workers]) for workers in "12")
    words = f"{one / 1000:.1f} / {two / 1000:.1f} k, {found['memory'][0]['memory'] / 1e6:.0f} MB"
    return words, GOOD if "rota" in name else NONE, min(max(math.log10(max(two, 1) / 100) / 4, 0), 1)


def table(heads, lines):
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [["", *heads], ["---"] * (len(heads) + 1), *lines]) + "\n\n"


def picture(heads, lines):
    marks, bars = [(190 + 180 * k, 16, head) for k, head in enumerate(heads)], []
    for y, (name, cells) in zip(range(40, 10_000, 28), lines):
        marks.append((0, y, name))
        for x, (words, colour, part) in zip(range(190, 10_000, 180), cells):
            marks.append((x, y, words))
            bars.append(f'<rect x="{x}" y="{y + 4}" width="{170 * part:.0f}" height="6" rx="2" fill="{colour}"/>')
    texts = [f'<text x="{x}" y="{y}">{html.escape(words)}</text>' for x, y, words in marks]
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {190 + 180 * len(heads)} {28 * len(lines) + 30}">{STYLE}{"".join(texts + bars)}</svg>\n'


def measured(date, pins):
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    return f"Measured {date}, {os.cpu_count()} cores of {platform.machine()}, {memory:.0f} GiB; {', '.join(sorted(pins))}.\n"


def put(docs, verb, page):
    """Into the page, between its marks."""
    before, rest = (docs / "peers.md").read_text().split(f"<!-- {verb} -->\n")  # which fails where a mark is missing, as the next
    after = rest.split("<!-- end -->\n", 1)[1]
    (docs / "peers.md").write_text(f"{before}<!-- {verb} -->\n{page}<!-- end -->\n{after}")


def show(verb, found, docs, is_whole):
    rows = {name: row for name, row in sorted(found["rows"].items(), key=lambda row: "rota" not in row[0]) if "environment" not in row}
    heads = [head for head in next(iter(rows.values()), {}) if head not in ("pins", "first batch")]
    dropped = {name: row.get("not stopped", {}).get("lost", 0) for name, row in rows.items()}
    lines = [(name, [cell_of(name, head, row[head], dropped[name]) for head in heads]) for name, row in rows.items()]
    times = [[name, *(cell_of(name, "", cell)[0] for cell in row["first batch"].values())] for name, row in rows.items()]
    page = f"![As a picture](peers-{verb}.svg)\n\n" + table(heads, [[name, *(words for words, _, _ in cells)] for name, cells in lines]) + table(PARTS[verb], times)
    for name, row in found["rows"].items():
        whys = re.findall(r'"(?:refused|failed)": "((?:[^"\\]|\\.){,160})', json.dumps(row, ensure_ascii=False).replace("`", "'"))
        page += "".join(f"- {name}: `{why}`\n" for why in dict.fromkeys(whys))
    page += "\n" + measured(found["date"], {pin for row in rows.values() for pin in row["pins"]})
    print(page)
    if is_whole:
        put(docs, verb, page)
        (docs / f"peers-{verb}.svg").write_text(picture(heads, lines))
