"""Rules of the house that a script can see: who prints, who reads the environment, which state lives outside objects, words.

  python3 .ci/rules.py [LIBRARY...]     of the sources; and of what is in libraries, by nm
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What a line may say, and in which files.
LINES = [
    (r"\bstderr\b|std::c(err|out)|\bfmt::print|\bstd::(printf|puts)", "prints", {"src/core/message.cpp", "src/mpi/session.cpp", "src/cli/", "python/src/bundle.cpp"}),
    (r"\bgetenv\b", "reads the environment", {"src/core/world.cpp", "src/files/path.cpp", "src/remote/credentials.cpp", "src/cli/scripts.cpp"}),
]

# State outside objects: the symbol in a library, and why it is there.
STATE = {
    "Sink::of_process()::made": "the MessageSink",
    "world_from_environment()::was_told": "a hint is given once",
    "ahead": "tests move the DeadlineClock",
    "innermost": "a thread's WaitScope",
    "Wait::here()::never": "the Wait of a thread without one",
    "ReadTally::here()::tally": "what a thread has read",
    "last_failure": "the error of glob's callback",
    "File::sync() const::is_told": "what a file system cannot do is told once",
    "kept_descriptors": "how many descriptors of the process files may keep",
    "process_mutex()::mutex": "HDF5's lock",
    "storages_from_environment[abi:cxx11]()::all": "connections are shared by all catalogs",
    "known_ca_files[abi:cxx11]()::all": "Python adds where certifi is",
    "start_curl()::started": "libcurl is started once",
    "keep_for_ever(std::shared_ptr<void const>)::mutex": "of what follows",
    "keep_for_ever(std::shared_ptr<void const>)::kept": "memory that unfinished operations of ranks may touch",
    "signalled": "a StopSignal's flag",
    "in_use": "there is one StopSignal",
    "this_process()::process": "as the system told it, for it is asked at every call",
    "this_process()::is_watched": "forks are watched",
    "former_actions": "handlers of signals that were there before",
}

# Words that mean something else here, or nothing any more.
WORDS = {
    r"rota pack\b": "the verb is `rota shard`; sequences are packed",
    r"\bpack_\w+\(": "bytes are encoded; sequences are packed",
}


def listed(*patterns):
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", *patterns], check=True, capture_output=True, text=True).stdout
    return [name for name in names.split("\0") if name and (ROOT / name).exists()]


def broken_lines():
    for name in listed("src/*.[ch]pp", "include/*.hpp", "checkpoint/*.[ch]pp", "python/src/*.[ch]pp"):
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            code = line.split("//")[0]
            for pattern, what, allowed in LINES:
                if re.search(pattern, code) and not any(name.startswith(place) for place in allowed):
                    yield f"{name}:{number}: it {what}; that is for {', '.join(sorted(allowed))}"
    for name in listed("src", "include", "checkpoint", "python", "docs", "*.md"):
        if not name.endswith((".cpp", ".hpp", ".py", ".pyi", ".md")):
            continue
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            for pattern, advice in WORDS.items():
                if re.search(pattern, line):
                    yield f"{name}:{number}: {re.search(pattern, line)[0]}: {advice}"


def broken_state(libraries):
    """Data that may be written to: in sections bss and data, but for tables and strings with addresses in them."""
    for library in libraries:
        symbols = subprocess.run(["nm", "--demangle", "--defined-only", library], check=True, capture_output=True, text=True).stdout
        for line in symbols.splitlines():
            found = re.match(r"[0-9a-f]+ [bBdD] (rota::.*)", line)
            if not found or re.search(r"::k[A-Z]\w*$|system$", found[1]):
                continue
            if not any(found[1].endswith(known if known.startswith("::") else "::" + known) for known in STATE):
                yield f"{Path(library).name}: {found[1]}: state outside of objects; .ci/rules.py has the list of what may be"


def main():
    broken = list(broken_lines()) + list(broken_state(sys.argv[1:]))
    print(*broken, sep="\n", end="\n" if broken else "")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
