"""File systems of fsspec, as C++ asks them for files."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rota._errors import CorruptError, IOError, NotFoundError, UnsupportedError

PIECE = 8 << 20
"""bytes that are written together"""

MARKS = (
    "md5hash", "crc32c", "content_hash", "checksum", "blob_id", "sha", "hex", "crc", "etag", "generation", "version_id",
    "mtime", "last_modified", "lastmodified", "updated", "modified", "modify", "modificationtime", "created",
)  # fmt: skip
"""By what file systems say that a file is another, best first, in lower case."""


PACKAGES = {"gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "hf": "huggingface_hub"}


def as_storages(given: Mapping[str, Any] | None) -> dict[str, Files]:
    """Of each scheme, and under "" of all that neither `given` nor rota has."""
    if not isinstance(given, (Mapping, type(None))):
        raise TypeError(f'storages is {given!r:.100}; it must be a mapping, such as {{"gs": fsspec.filesystem("gs")}}')
    for scheme, system in (given or {}).items():
        if not (isinstance(scheme, str) and hasattr(system, "cat_ranges") and hasattr(system, "_strip_protocol")):
            raise TypeError(
                f"storages: {scheme!r} is {system!r:.100}; it must be a scheme, and that a file system of fsspec"
            )
    return {"": Files(""), **{scheme: Files(f"{scheme}://", system) for scheme, system in (given or {}).items()}}


def ca_file_of_certifi() -> str:
    """Where the certificates of the package certifi are, or would be; it is not imported for that."""
    try:
        found = importlib.util.find_spec("certifi")
    except ValueError:  # of a stand-in
        found = None
    return os.path.join(os.path.dirname(found.origin), "cacert.pem") if found and found.origin else ""


def _file_system(scheme: str) -> Any:
    none = f"there is no storage for {scheme}://; rota has s3, https and http, and takes others from fsspec"
    try:
        import fsspec
    except ImportError as error:
        raise NotFoundError(f"{none}: pip install fsspec {PACKAGES.get(scheme, '')}") from error
    try:
        make = fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        raise NotFoundError(f"{none}, which says: {error}") from error
    except ValueError as error:
        raise NotFoundError(f"{none}, which knows {', '.join(sorted(fsspec.available_protocols()))}") from error
    return make()


def _protocols(system: Any) -> tuple[str, ...]:
    return (system.protocol,) if isinstance(system.protocol, str) else tuple(system.protocol)


def _finds_at_once(system: Any) -> bool:
    """Whether it lists all below a directory by itself. fsspec's own way leaves out what it cannot list."""
    finds = [getattr(type(system), name, None) for name in ("find", "_find")]
    return any(not getattr(find, "__module__", "fsspec").startswith("fsspec.") for find in finds if find)


def _version(info: Mapping[str, Any]) -> int:
    by_name = {name.lower(): value for name, value in info.items()}
    mark = next((by_name[name] for name in MARKS if by_name.get(name)), None)
    if mark is None:
        return 0
    from hashlib import blake2b  # here, for it loads OpenSSL, which takes longer than all else of rota

    text = str(mark.timestamp() if hasattr(mark, "timestamp") else mark).strip('"')
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest(), "little") or 1


def _is_async(system: Any) -> bool:
    inner = getattr(system, "fs", None)  # of a DirFileSystem, which says that it is in any case
    return getattr(system, "async_impl", False) and (inner is None or _is_async(inner))


def _is_hub(system: Any) -> bool:
    """Hugging Face's, which counts requests: it is not asked again what it has said, and for no more than is read."""
    return "hf" in _protocols(system)


def _infos(system: Any, paths: list[str]) -> list[Any]:
    """What each is like now, or the exception."""
    if _is_async(system):
        import asyncio

        from fsspec.asyn import sync

        async def all_at_once() -> list[Any]:
            return await asyncio.gather(*map(system._info, paths), return_exceptions=True)

        return sync(system.loop, all_at_once)
    return [_or_error(system.info, path) for path in paths]


def _or_error(function: Callable, *args: Any, **options: Any) -> Any:
    try:
        return function(*args, **options)
    except Exception as error:
        return error


def _give_up(system: Any, file: Any, path: str) -> None:
    from fsspec.spec import AbstractBufferedFile

    with contextlib.suppress(Exception):
        if not isinstance(file, AbstractBufferedFile):
            file.close()
            system.rm_file(path)
            return
        try:
            file.discard()
        finally:
            file.closed = True  # else its end finishes the upload


class Files:
    """A Storage of C++. The name of a file is what stands behind `scheme`, "gs://", or without one the whole path."""

    def __init__(self, scheme: str, system: Any = None) -> None:
        self._scheme = scheme
        self._systems = {} if system is None else {scheme.removesuffix("://"): system}

    def _at(self, name: str) -> tuple[Any, str]:
        """The file system of a name, and what that calls it."""
        scheme, _, rest = f"{self._scheme}{name}".partition("://")
        if scheme not in self._systems:
            self._systems[scheme] = _file_system(scheme)
        system = self._systems[scheme]
        return system, system._strip_protocol(f"{scheme}://{rest}" if scheme in _protocols(system) else rest)

    def _file(self, name: str, info: Mapping[str, Any]) -> tuple[bytes, int, int]:
        if info.get("size") is None:
            raise UnsupportedError(f"look up {self._scheme}{name}: its file system does not say how many bytes it has")
        return name.encode(errors="surrogateescape"), int(info["size"]), _version(info)

    def below(self, prefix: str) -> list[tuple[bytes, int, int]]:
        directory = prefix[: prefix.rfind("/") + 1]
        system, first = self._at(directory)
        system.invalidate_cache()
        top = first.rstrip("/")
        is_all, found, to_list = prefix == directory, {}, [first]
        while to_list:
            path = to_list.pop()
            for info in self._list_one(system, path, _finds_at_once(system) and (is_all or path != first)):
                if not info["name"].startswith(top):
                    raise UnsupportedError(
                        f"list {self._scheme}{prefix}: its file system names {info['name']!r} below {top!r}"
                    )
                below = info["name"][len(top) :]
                name = directory + below.removeprefix("/")
                if below in ("", "/") or (top and below[0] != "/") or not name.startswith(prefix):
                    continue
                if info["type"] != "directory":
                    found[name] = self._file(name, info)
                elif info["name"].rstrip("/") != path.rstrip("/"):
                    to_list.append(info["name"])
        return sorted(found.values())

    def _list_one(self, system: Any, path: str, is_deep: bool) -> Iterable[Mapping[str, Any]]:
        try:
            return system.find(path, detail=True).values() if is_deep else system.ls(path, detail=True)
        except FileNotFoundError:
            return []

    def find(self, name: str) -> tuple[bytes, int, int] | None:
        system, path = self._at(name)
        if not _is_hub(system):
            system.invalidate_cache()
        try:
            info = system.info(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if info["type"] == "directory" else self._file(name, info)

    def read(self, ranges: list[tuple[str, int, int, int]]) -> list[Any]:
        """The bytes of each (name, version, begin, end), all of one file system, or the exception."""
        system = self._at(ranges[0][0])[0]
        paths = {name: self._at(name)[1] for name, *_ in ranges}
        wanted = [paths[name] for name, *_ in ranges], [begin for *_, begin, _ in ranges], [end for *_, end in ranges]
        if _is_async(system):
            got = system.cat_ranges(*wanted)
        else:
            options = {"cache_type": "none"} if _is_hub(system) else {}
            got = [_or_error(system.cat_file, *one, **options) for one in zip(*wanted)]
        known = {} if _is_hub(system) else {name: paths[name] for name, version, *_ in ranges if version}
        if known:  # is it still of that version?
            system.invalidate_cache()
        now = dict(zip(known, _infos(system, list(known.values()))))
        return [self._checked(one, data, now.get(one[0])) for one, data in zip(ranges, got)]

    def _checked(self, wanted: tuple[str, int, int, int], data: Any, now: Any) -> Any:
        name, version, begin, end = wanted
        what = f"read {self._scheme}{name}"
        if isinstance(now, FileNotFoundError) or isinstance(data, FileNotFoundError):
            return NotFoundError(f"{what}: it is gone")
        if isinstance(now, Mapping) and _version(now) != version:
            return CorruptError(f"{what}: it has changed since it was listed; list it again, as a dataset of its own")
        for error in data, now:
            if isinstance(error, BaseException):
                return error if isinstance(error, Exception) else IOError(f"{what}: {error!r}")
        return data if len(data) == end - begin else IOError(f"{what}: {len(data)} bytes came of {end - begin}")

    def write(self, name: str, size: int, fill: Callable[[int, int], bytes]) -> None:
        system, path = self._at(name)
        try:
            file = system.open(path, "wb")
        except FileNotFoundError:  # of the directory, where there are any
            system.makedirs(system._parent(path), exist_ok=True)
            file = system.open(path, "wb")
        try:
            for offset in range(0, size, PIECE):
                file.write(fill(offset, min(PIECE, size - offset)))
            file.close()
        except BaseException:
            _give_up(system, file, path)
            raise

    def remove(self, name: str) -> None:
        system, path = self._at(name)
        with contextlib.suppress(FileNotFoundError):
            system.rm_file(path)
