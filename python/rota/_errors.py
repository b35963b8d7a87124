"""The exceptions of rota. Each is also the built-in one that says the same."""

from __future__ import annotations

import builtins
import logging
import os
import sys
import sysconfig


class Error(Exception):
    """Whatever rota refuses or fails at. The message says what was tried, on what, and what to do."""

    code: str = ""
    """The name of the C++ library's ErrorCode."""

    def __init_subclass__(cls, code: str | None = None, **others: object) -> None:
        super().__init_subclass__(**others)
        cls.code = cls.code if code is None else code


class InvalidArgumentError(Error, ValueError, code="invalid_argument"):
    """An option or argument that can never work."""


class NotFoundError(Error, FileNotFoundError, KeyError, code="not_found"):
    """A file, directory, dataset or name that does not exist."""


class IOError(Error, OSError, code="io"):
    """The operating system refused or failed an operation. The next try may succeed."""


class CorruptError(Error, ValueError, code="corrupt"):
    """Bytes that disagree with their checksum, header or index."""


class BadSample(CorruptError):
    """For you to raise: a transform, or a dataset, has found this sample bad. `on_bad_sample="skip"` skips it."""


class OutOfRangeError(Error, IndexError, code="out_of_range"):
    """An id, row or position past the end."""


class MismatchError(Error, ValueError, code="mismatch"):
    """Another dataset, seed, split, order or element type."""


class UnsupportedError(Error, NotImplementedError, code="unsupported"):
    """A valid file or request that this version cannot serve."""


class BusyError(Error, OSError, code="busy"):
    """In use: a directory that another job has locked, or a loader that another thread is in."""


class TimeoutError(Error, builtins.TimeoutError, code="timeout"):
    """A rank did not arrive within the deadline."""


class CallbackError(Error, RuntimeError, code="callback"):
    """Your code (a transform, a source, a stream) failed, or answered wrongly. See `__cause__`."""


class Refusal(Exception):
    """What rota's own code refuses of a user's: for C++, which makes a CallbackError of it, without a cause."""


PROGRAMS = (TypeError, AttributeError, NameError, ImportError, AssertionError)
"""what is the program's fault, and not a sample's"""

BY_CODE: dict[str, type[Error]] = {error.code: error for error in Error.__subclasses__()}


ALONE = "What one rank makes alone takes world=(0, 1), or comm=None"

_NOT_THE_USERS = tuple({os.path.dirname(__file__), *(sysconfig.get_path(name) for name in ("stdlib", "platlib"))})


def tell(message: str) -> None:
    """Warns; and names the line of the user's that waits for ranks."""
    frame = sys._getframe() if ": waits for " in message else None
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame = frame.f_back
    at = "" if frame is None else f" ({frame.f_code.co_filename}:{frame.f_lineno})"
    logging.getLogger("rota").warning("%s%s", message, at)


def told(error: BaseException | None) -> tuple[str, str] | None:
    """What other ranks hear of an error of this one: code and message."""
    if error is None:
        return None
    if isinstance(error, Error):
        return error.code, str(error)
    return "invalid_argument" if isinstance(error, (TypeError, ValueError)) else "callback", text_of(error).decode()


def text_of(error: BaseException) -> bytes:
    """What was raised, as "ValueError: its message"; of rota's own the message alone. A user's own may fail to say."""
    try:
        text = str(error)
    except Exception:
        text = "its __str__ fails"
    kind = "" if isinstance(error, (Error, Refusal)) else f"{type(error).__name__}: "
    return f"{kind}{text}".encode(errors="backslashreplace")
