"""Whether libraries define names in namespace rota that no public header has: check_names.py ROOT LIBRARY..."""

import pathlib
import re
import subprocess
import sys


def names_in(library):
    listing = subprocess.run(
        ["nm", "--demangle", "--defined-only", "--extern-only", library],
        check=True, capture_output=True, text=True)
    for line in listing.stdout.splitlines():
        # Functions and data of ours; what templates of others make of our types begins with their names.
        symbol = re.match(r"[0-9a-f]+ [TDBRVWu] (?:(?:vtable|typeinfo|typeinfo name|guard variable) for )?rota::(.*)", line)
        if symbol:
            yield re.match(r"(?:operator\W+|\w+)", symbol[1])[0], symbol[1]


def main():
    root, *libraries = sys.argv[1:]
    # Private code lives in rota::internal, or in a namespace named like its folder.
    private_spaces = {"internal", "checkpoint"} | {path.name for path in pathlib.Path(root, "src").iterdir()}
    headers = "".join(path.read_text() for path in pathlib.Path(root, "include/rota").glob("*.hpp"))
    public = set(re.findall(r"\w+", re.sub(r"//.*", "", headers)))
    found = [(name, symbol, library) for library in libraries for name, symbol in names_in(library)]
    private = {f"{library}: rota::{symbol}" for name, symbol, library in found
               if name not in private_spaces and not name.startswith("operator") and name not in public}
    print(*sorted(private), sep="\n")
    print(f"{len(found)} names, {len(private)} private ones in namespace rota")
    sys.exit(1 if private or not found else 0)


main()
