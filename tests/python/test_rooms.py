"""Which modules of the package import which: as the table in python/README.md says."""

import ast
import graphlib
import os
import re
from pathlib import Path

PYTHON = Path(os.environ["ROTA_ROOT"], "python")


def rooms():
    """The modules of each room, and the rooms that it may import, the lowest first."""
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| ([a-z ]*)\|$", (PYTHON / "README.md").read_text(), re.M)
    return {room: (re.findall(r"`(\w+)`", modules), allowed.split()) for room, modules, allowed in rows}


def imports_of(file, modules):
    """Of the package, anywhere in the file: in functions, too."""
    for node in ast.walk(ast.parse(file.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{name}" for name in names]
        for package, _, name in (name.partition(".") for name in names):
            module = name.partition(".")[0]
            if package == "rota" and module != "_rota":
                yield module if module in modules else "__init__"


def test_modules_import_what_their_room_may_and_none_leads_back_to_itself():
    found = rooms()
    files = {file.stem: file for file in (PYTHON / "rota").glob("*.py")}
    assert sorted(name for modules, _ in found.values() for name in modules) == sorted(files), "the table has each module once"
    room_of = {name: room for room, (modules, _) in found.items() for name in modules}
    for place, (room, (_, allowed)) in enumerate(found.items()):
        assert set(allowed) <= set([*found][:place]), f"{room} may import rooms above it alone"
    imports = {name: set(imports_of(file, files)) for name, file in files.items()}
    wrong = [
        f"{name}, of {room_of[name]}, imports {other}, of {room_of[other]}"
        for name, others in imports.items()
        for other in sorted(others)
        if room_of[other] not in (room_of[name], *found[room_of[name]][1])
    ]
    assert not wrong
    list(graphlib.TopologicalSorter(imports).static_order())  # CycleError, with the circle, where there is one
