"""Tries a folder of the archive: what works there with the credentials of this process."""

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import uuid4

from archiver.storage.base import LOG_FOLDER, Storage

_CONTESTED_NAMES = 10
_MAX_TEXT = 300  # characters of an error


class ProbeResult(NamedTuple):
    """`errors`: by step, "" of one that works. `won`: names that this process has created first."""

    errors: Mapping[str, str]
    won: list[str]


def list_contested_names() -> list[str]:
    """The names that all processes try to create: exactly one of them may succeed, for each."""
    return [f"{LOG_FOLDER}/contested-{number}" for number in range(_CONTESTED_NAMES)]


def probe_storage(folder: Storage) -> ProbeResult:
    """Write, read and list in a folder of its own, and compete with other processes.

    `folder`: the same in all processes. It is not cleared.
    """
    name, content = f"{LOG_FOLDER}/{uuid4().hex}", uuid4().bytes
    won: list[str] = []

    def write() -> None:
        folder.create_log_folder()
        with folder.prepare_commit(content) as commit:
            if not commit(name):
                raise OSError("an object of a new name exists")

    def read() -> None:
        if folder.read_log_file(name) != content:
            raise OSError("what was written is not what is read")

    def list_names() -> None:
        if name not in folder.list_sizes():
            raise OSError("what was written is not listed")

    def compete() -> None:
        for contested in list_contested_names():
            with folder.prepare_commit(uuid4().bytes) as commit:
                if commit(contested):
                    won.append(contested)

    steps = {"write": write, "read": read, "list": list_names, "put if absent": compete}
    return ProbeResult({step: _try(action) for step, action in steps.items()}, won)


def _try(action: Callable[[], None]) -> str:
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:_MAX_TEXT]
    return ""
