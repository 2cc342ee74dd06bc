"""Names that come and go in folders, as inotify reports them.

Of libc directly: watchdog's observer holds events back for half a second, to pair moves.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

_CREATED = 0x00000100 | 0x00000080  # IN_CREATE, IN_MOVED_TO
_REMOVED = 0x00000200 | 0x00000040  # IN_DELETE, IN_MOVED_FROM
_FOLDER_REPLACED = 0x00000400 | 0x00000800  # IN_DELETE_SELF, IN_MOVE_SELF
# IN_UNMOUNT, IN_Q_OVERFLOW, IN_IGNORED
_LOST = 0x00002000 | 0x00004000 | 0x00008000
_IS_FOLDER = 0x40000000  # IN_ISDIR
_ONLY_FOLDERS = 0x01000000  # IN_ONLYDIR
_WATCHED = _CREATED | _REMOVED | _FOLDER_REPLACED | _ONLY_FOLDERS
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_READ_BYTES = 1 << 20


class FolderEvent(NamedTuple):
    """An entry that has come into a folder (`is_present`), or has left it."""

    folder: str
    name: str
    is_present: bool


class FolderEvents:
    """Watches some folders, from its creation until it is closed. Raises `OSError`."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._folders: dict[int, list[str]] = {}
        self._file = _call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            for folder in folders:
                watch = _call("inotify_add_watch", self._file, os.fsencode(folder), _WATCHED)
                # Two paths may lead to one folder.
                self._folders.setdefault(watch, []).append(folder)
        except OSError:
            self.close()
            raise

    def read(self) -> Sequence[FolderEvent] | None:
        """The events since the last call, in order; None: folders must be listed to know."""
        events: list[FolderEvent] = []
        while True:
            try:
                block = os.read(self._file, _READ_BYTES)
            except BlockingIOError:
                return events
            except OSError:
                return None
            position = 0
            while position < len(block):
                watch, mask, _, length = _EVENT.unpack_from(block, position)
                position += _EVENT.size + length
                if mask & (_LOST | _FOLDER_REPLACED | _IS_FOLDER):
                    return None
                name = os.fsdecode(block[position - length : position].rstrip(b"\0"))
                for folder in self._folders.get(watch, ()):
                    events.append(FolderEvent(folder, name, bool(mask & _CREATED)))

    def close(self) -> None:
        """End watching."""
        with suppress(OSError):
            os.close(self._file)


def _call(name: str, *arguments: object) -> int:
    """Call a function of libc. Raises `OSError`, also where there is none."""
    if not sys.platform.startswith("linux"):
        raise OSError(f"no {name} on this platform")
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is None:
        raise OSError(f"no {name} in this libc")
    result = int(function(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
