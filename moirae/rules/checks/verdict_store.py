"""Verdicts of checks, kept in a file of the workspace between processes.

A verdict is stored with a hash of all that it depends on: what was checked, the declared columns,
the code of the check with the versions of Spark and of the SQL parser, and the measures of other
packages. So a stored verdict holds
as long as it is found. A damaged line is ignored, and a file that another user can write is not
read: what it said is checked again.
"""

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson

from moirae.config import Settings
from recall.similarity.measures import describe_packages

_FILE_NAME = "rule_verdicts.jsonl"
_MAX_VERDICTS = 50_000  # in a file, about 500 bytes each
_MAX_BYTES = 1 << 28  # of a file that is read
# The code that decides about a rule, in folders of packages.
_DECIDING_CODE = (
    ("archiver", "spark/java/org/moirae/plans"),
    ("moirae", "documents"),
    ("moirae", "rules"),
    ("recall", "query"),
    ("recall", "sandbox"),
)
_DECIDING_LIBRARIES = ("pyspark", "sqlglot", "pydantic")

Verdict = Mapping[str, Any]


class VerdictStore:
    """Verdicts on what was checked over the declared columns of one workspace."""

    def __init__(self, settings: Settings) -> None:
        self._file = Path(settings.home) / _FILE_NAME
        self._context = [_code_digest(), describe_packages(), _describe_columns(settings)]
        self._stored = _read(self._file)
        self._used: dict[str, Verdict] = {}
        self._has_changed = False

    def find(self, content: Any) -> Verdict | None:
        """The verdict on what can be written as this JSON value; None: there is none."""
        key = self._key(content)
        verdict = self._used.get(key) or self._stored.get(key)
        if verdict is not None:
            self._used[key] = verdict
        return verdict

    def put(self, content: Any, verdict: Verdict) -> None:
        """Note a verdict, which `save` stores."""
        self._used[self._key(content)] = verdict
        self._has_changed = True

    def save(self) -> None:
        """Store new verdicts, with those that others have stored. Without effect if it fails."""
        if not self._has_changed:
            return
        verdicts = {**_read(self._file), **self._stored, **self._used}
        for key in list(verdicts)[: max(len(verdicts) - _MAX_VERDICTS, 0)]:
            del verdicts[key]
        with suppress(OSError):
            _write(self._file, verdicts)
            self._has_changed = False

    def _key(self, content: Any) -> str:
        return hashlib.sha256(_to_json([self._context, content])).hexdigest()


def _to_json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def _describe_columns(settings: Settings) -> Any:
    streams = [
        [name, list(stream.columns.items()), stream.time]
        for name, stream in settings.streams.items()
    ]
    relations = [[name, list(row.columns.items())] for name, row in settings.relations.items()]
    return [sorted(streams), sorted(relations)]


@cache
def _code_digest() -> str:
    digest = hashlib.sha256()
    for library in _DECIDING_LIBRARIES:
        digest.update(f"{library} {version(library)}\0".encode())
    for package, folder in _DECIDING_CODE:
        for path in sorted(_source_files(Path(str(files(package))) / folder)):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _source_files(folder: Path) -> Iterator[Path]:
    for pattern in ("*.py", "*.java"):
        yield from folder.rglob(pattern)


# The file: in each line a hash of the rest, then a key and a verdict.


def _read(path: Path) -> dict[str, Verdict]:
    verdicts: dict[str, Verdict] = {}
    with suppress(OSError), path.open("rb") as file:
        if not _is_private(os.fstat(file.fileno())):
            return {}
        for line in file:
            checksum, _, text = line.rstrip(b"\n").partition(b" ")
            if hashlib.sha256(text).hexdigest().encode() == checksum:
                key, verdict = orjson.loads(text)
                verdicts[key] = verdict
    return verdicts


def _is_private(status: os.stat_result) -> bool:
    """Whether only the user of this process can have written a file of bearable size."""
    is_own = status.st_uid == os.geteuid()
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return is_own and not others_write and status.st_size <= _MAX_BYTES


def _write(path: Path, verdicts: Mapping[str, Verdict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A temporary file has mode 0600.
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for key, verdict in verdicts.items():
                text = orjson.dumps([key, verdict])
                file.write(hashlib.sha256(text).hexdigest().encode() + b" " + text + b"\n")
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
