"""Writes the ```cpp blocks of pages into one C++ source: python3 pages.py OUT PAGE...

A block that includes a header, or defines a function or a class, stands as it is. Any other block becomes the
body of a function. Each page has a namespace. Each block opens another one inside it: so it sees what earlier
blocks of its page define, and may use their names again. Includes go to the top of the file, pages.hpp first.
The compiler reports errors at the lines of the pages.
"""

import pathlib
import re
import sys

BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INCLUDE = re.compile(r"^#include .*$", re.MULTILINE)
DEFINITION = re.compile(r"^(#include |class |struct |[\w:<>,*& ]+ [\w:]+\([^\n]*\) \{)", re.MULTILINE)


def write_block(code: str, number: int, line: int, page: str) -> str:
    body = f'#line {line} "{page}"\n' + INCLUDE.sub("", code)
    if not DEFINITION.search(code):
        body = f"void run() {{\n{body}}}\n"
    return f"namespace block_{number} {{\n{body}"


def write_page(path: pathlib.Path) -> tuple[list[str], str]:
    text = path.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    if text.count("```cpp") != len(blocks):
        sys.exit(f"{path}: a block of C++ does not end")
    includes = [line for block in blocks for line in INCLUDE.findall(block[1])]
    code = [
        write_block(block[1], number, text.count("\n", 0, block.start(1)) + 1, str(path))
        for number, block in enumerate(blocks)
    ]
    return includes, f"namespace page_{path.stem} {{\n{''.join(code)}{'}' * (len(blocks) + 1)}\n"


def main() -> None:
    out, *pages = sys.argv[1:]
    written = [write_page(pathlib.Path(page)) for page in pages]
    includes = ['#include "pages.hpp"'] + sorted({line for lines, _ in written for line in lines})
    source = "\n".join(includes) + "\n" + "".join(code for _, code in written)
    pathlib.Path(out).write_text(source, encoding="utf-8")


main()
