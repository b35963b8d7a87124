"""The console script `rota`: the tool of C++, out of the module."""

import os
import signal
import sys

from rota import _rota


def main() -> None:
    if sys.argv[1:2] == ["report"]:
        from rota import _report

        sys.exit(_report.run(_report.main, sys.argv[2:], sys.argv[:1]))
    os.environ["ROTA_PYTHON"] = sys.executable  # for what the tool does by Python
    for name in ("SIGINT", "SIGPIPE", "SIGXFSZ"):  # what Python has changed; nohup's SIGINT stays ignored
        number = getattr(signal, name)
        if number != signal.SIGINT or signal.getsignal(number) is signal.default_int_handler:
            signal.signal(number, signal.SIG_DFL)
    os._exit(_rota.run_tool([b"rota", *map(os.fsencode, sys.argv[1:])]))
