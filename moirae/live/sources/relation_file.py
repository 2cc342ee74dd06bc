"""Relations read from a local file."""

import stat
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from archiver.errors import SourceDamaged, SourceUnreachable
from archiver.file_names import escape_name
from archiver.formats import Format
from archiver.ingest import read_content
from archiver.periodic import Clock
from moirae.config import Relation, RelationFile
from moirae.errors import MoiraeError
from moirae.live.sources.file_state import (
    STABLE_AFTER,
    FileState,
    StabilityCheck,
    read_file_state,
)
from moirae.live.sources.move_watcher import MoveWatcher
from moirae.live.sources.relation_rows import RelationContent, parse_rows

_FIRST_READ_TIMEOUT = 10.0  # seconds to wait for a file that is being written
_FIRST_READ_INTERVAL = 0.05  # seconds
_RETRY_INTERVAL = 30.0  # seconds after an error of the disk, which may be temporary


class _UnreadVersion(NamedTuple):
    """A version of the file that is to be taken, or why it cannot be read."""

    state: FileState | None
    content: bytes
    error: str | None = None


class FileRelationReader:
    """Reads a file again once it differs and is complete.

    It is complete when it was moved to its path, or has been unchanged for `stable_after` seconds
    and its last line has an end. `complete`: fingerprints of versions that are complete anyhow.
    """

    def __init__(
        self,
        name: str,
        relation: Relation,
        source: RelationFile,
        *,
        moves: MoveWatcher | None = None,
        complete: Collection[str] = (),
        stable_after: float = STABLE_AFTER,
        clock: Clock = time.monotonic,
    ) -> None:
        self._name = name
        self._relation = relation
        self._format = Format(source.format)
        self._path = Path(source.file)
        self._shown_path = escape_name(self._path)
        self._moves = moves
        self._complete = frozenset(complete)
        self._clock = clock
        self._stability = StabilityCheck(stable_after, clock)
        self._is_first = True
        self._was_read = False
        self._last_state: FileState | None = None
        self._last_error: str | None = None
        self._retry_at: float | None = None
        self._unread: _UnreadVersion | None = None
        self._look()

    @property
    def fingerprint(self) -> str:
        """Identifies the file as it is now."""
        state = read_file_state(self._path)
        return "" if state is None else state.fingerprint

    def has_changed(self) -> bool:
        """Whether a version is complete that was not read yet, or cannot be read.

        The first call waits for a file that is being written, up to `_FIRST_READ_TIMEOUT`.
        """
        self._look()
        if self._is_first:
            self._is_first = False
            self._wait_for_first_version()
        return self._unread is not None

    def read(self) -> RelationContent:
        """The rows of the file.

        Raises `ProblemsError` with file and line for invalid rows, and `MoiraeError` if the file
        cannot be read.
        """
        if self._unread is None:
            self.has_changed()
        unread, self._unread = self._unread, None
        if unread is None:
            raise MoiraeError(self._still_written)
        # Before parsing, so that an invalid file is reported once.
        self._was_read = True
        self._last_state = unread.state
        self._last_error = unread.error
        if unread.error is not None or unread.state is None:
            raise MoiraeError(unread.error or self._still_written)
        rows = parse_rows(
            self._name, self._relation, self._format, self._shown_path, unread.content
        )
        return RelationContent(rows, unread.state.fingerprint)

    def read_again(self) -> None:
        """Read the present version once more, though it is not a new one."""
        self._was_read = False

    def stop(self) -> None:
        """Do nothing: the file is open only while it is read."""

    @property
    def _still_written(self) -> str:
        return f"{self._shown_path}: the file of relation {self._name} is still being written"

    def _wait_for_first_version(self) -> None:
        deadline = self._clock() + _FIRST_READ_TIMEOUT
        while self._unread is None:
            if self._clock() >= deadline:
                self._unread = _UnreadVersion(None, b"", self._still_written)
                return
            time.sleep(_FIRST_READ_INTERVAL)
            self._look()

    def _look(self) -> None:
        """Look for a complete version, unless one is to be read."""
        if self._moves is not None:
            self._moves.watch(self._path)
        state = read_file_state(self._path)
        if self._unread is None and self._is_new(state):
            self._unread = self._read_if_complete(state)

    def _is_new(self, state: FileState | None) -> bool:
        is_stable = self._stability.is_stable(state)
        if self._is_certainly_complete(state):
            is_stable = True
        if self._was_read and state == self._last_state:
            return self._retry_at is not None and self._clock() >= self._retry_at
        return is_stable

    def _is_certainly_complete(self, state: FileState | None) -> bool:
        if state is None:
            return False
        if state.fingerprint in self._complete:
            return True
        return self._moves is not None and state == self._moves.state_after_move(self._path)

    def _read_if_complete(self, state: FileState | None) -> _UnreadVersion | None:
        """The version of a file that is in a state; None if it changes meanwhile."""
        unread = self._read(state)
        if read_file_state(self._path) != state:
            return None
        if unread.error is not None and unread.error == self._last_error and self._was_read:
            return None  # reported before
        return unread

    def _read(self, state: FileState | None) -> _UnreadVersion:
        self._retry_at = None
        try:
            if not stat.S_ISREG(self._path.stat().st_mode):
                return self._fail(state, "is not a file, but a folder or device")
            content = read_content(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return self._fail(state, "does not exist")
        except (OSError, SourceDamaged, SourceUnreachable) as error:
            if not isinstance(error, SourceDamaged):
                self._retry_at = self._clock() + _RETRY_INTERVAL
            return self._fail(state, f"cannot be read: {error}")
        if not self._is_certainly_complete(state) and self._may_be_incomplete(content):
            line = content.count(b"\n") + 1
            return self._fail(
                state,
                f"has no line break at the end of line {line}, its last one, so it may be "
                "incomplete: add one, or move the file to its place when it is written",
            )
        return _UnreadVersion(state, content)

    def _fail(self, state: FileState | None, fact: str) -> _UnreadVersion:
        error = f"{self._shown_path}: the file of relation {self._name} {fact}"
        return _UnreadVersion(state, b"", error)

    def _may_be_incomplete(self, content: bytes) -> bool:
        if not content:
            return not self._format.is_csv  # without a header it is invalid anyhow
        return not content.endswith(b"\n")
