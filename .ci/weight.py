"""The weight of the house: lines, public types, the longest function and file, against the ceilings in .ci/ceilings.txt.

A change that needs more raises a ceiling, in a line of its own. Fails where one is passed.
"""

import ast
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def files(*patterns):
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", *patterns], check=True, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def lines(paths):
    return sum(len(path.read_bytes().splitlines()) for path in paths)


def tags(paths, kinds):
    """What ctags finds of C++: dicts with name, kind, line, end, path, scope."""
    command = ["ctags", "--output-format=json", "--language-force=C++", f"--kinds-C++={kinds}", "--fields=+neKZ", "-f", "-", "-L", "-"]
    found = subprocess.run(command, check=True, capture_output=True, text=True, input="\n".join(map(str, paths)))
    return [json.loads(line) for line in found.stdout.splitlines()]


def longest(measured):
    """Of (length, what): the greatest."""
    return max(measured, default=(0, "none"))


def functions(cpp, python):
    for tag in tags(cpp, "f"):
        yield tag.get("end", tag["line"]) - tag["line"] + 1, f"{Path(tag['path']).relative_to(ROOT)}:{tag['line']}"
    for path in python:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body  # a docstring is no code
                length = body[-1].end_lineno - body[0].lineno + 2 if body else 0
                yield length, f"{path.relative_to(ROOT)}:{node.lineno}"


def weigh():
    """(name, number, remark) of each."""
    product = files("src/*.[ch]pp", "include/*.hpp", "checkpoint/*.[ch]pp")
    bindings = files("python/src/*.[ch]pp")
    python = files("python/*.py", "python/*.pyi")
    sources = [path for path in product + bindings if path.suffix == ".cpp"]
    headers = [path for path in product + bindings if path.suffix == ".hpp"]
    yield "product_lines", lines(product), ""
    yield "python_lines", lines(bindings + python), ""
    yield "test_lines", lines(files("tests/*.[ch]pp", "tests/*.py", "tests/*.txt", "tests/*.cmake")), ""
    yield "guide_lines", lines(files("*.md")), ""
    yield "architecture_lines", lines(files("ARCHITECTURE.md")), ""
    pages = files("src/*/README.md", "checkpoint/README.md", "python/README.md", "tests/README.md")
    yield "longest_page", *longest((lines([path]), str(path.relative_to(ROOT))) for path in pages)
    types = [tag for tag in tags(files("include/*.hpp"), "csg") if tag.get("scope") == "rota" or tag.get("scope") == "rota::mpi"]
    yield "public_types", len({tag["name"] for tag in types}), ""
    yield "longest_function", *longest(functions(product + bindings, [path for path in python if path.suffix == ".py"]))
    yield "longest_source", *longest((lines([path]), str(path.relative_to(ROOT))) for path in sources)
    yield "longest_header", *longest((lines([path]), str(path.relative_to(ROOT))) for path in headers)
    tests = files("tests/*.[ch]pp", "tests/*.py")
    yield "longest_test_file", *longest((lines([path]), str(path.relative_to(ROOT))) for path in tests)


def main():
    ceilings = dict(line.split("#")[0].split() for line in (ROOT / ".ci" / "ceilings.txt").read_text().splitlines() if line.split("#")[0].strip())
    is_over = False
    for name, number, remark in weigh():
        ceiling = int(ceilings.pop(name))
        is_over |= number > ceiling
        print(f"{name:18} {number:7,} of {ceiling:7,} {'OVER ' if number > ceiling else ''}{remark}")
    assert not ceilings, f"no such weight: {', '.join(ceilings)}"
    return is_over


if __name__ == "__main__":
    sys.exit(main())
