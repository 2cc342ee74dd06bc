"""Files that were changed after they were read, found in the background."""

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from archiver.periodic import Clock
from moirae.live.sources.files import DiscoveredFile, stat_file, unit_name
from sql.archive import FileVersionRow

_LOG = structlog.get_logger()

# Seconds of each call in which files are looked at, and from one look at all files to the next.
_SWEEP_SECONDS = 0.002
_SWEEP_INTERVAL = 1.0

Versions = Mapping[str, FileVersionRow]


class ChangedFiles:
    """Compares the sizes and modification times of files with those of their last reading.

    `list_paths` returns the files of a stream that were discovered; `list_versions`, of some names,
    those that the ledger has. `adopt` records the version of a file that was read by a version of
    the program that did not record it. `settle` is called with files that are as they were read.
    """

    def __init__(
        self,
        stream: str,
        base: Path,
        *,
        list_paths: Callable[[], Collection[str]],
        list_versions: Callable[[Collection[str]], Versions],
        adopt: Callable[[FileVersionRow], None],
        settle: Callable[[DiscoveredFile], None] = lambda _: None,
        clock: Clock = time.monotonic,
    ) -> None:
        """Files are named relative to `base`."""
        self._stream = stream
        self._base = base
        self._list_paths = list_paths
        self._list_versions = list_versions
        self._adopt = adopt
        self._settle = settle
        self._clock = clock
        self._unseen: deque[str] = deque()
        self._sweep_again_at = 0.0
        self._is_reported = False
        # By path, size and modification time that the ledger has: of those the hash.
        self._recorded: dict[str, int] = {}

    def find_changed(self, *, all_files: bool = False) -> list[DiscoveredFile]:
        """The files that are to be read again, among those that it is time to look at."""
        started_at = self._clock()
        if not self._unseen:
            if started_at < self._sweep_again_at:
                return []
            self._unseen = deque(self._list_paths())
            present = set(self._unseen)
            for path in self._recorded.keys() - present:
                del self._recorded[path]
            self._sweep_again_at = started_at + _SWEEP_INTERVAL
        candidates: dict[str, DiscoveredFile] = {}
        while self._unseen:
            path = self._unseen.popleft()
            file = stat_file(self._stream, Path(path))
            if file is not None and self._recorded.get(path) != hash(_version(file)):
                candidates[unit_name(file.path, self._base)] = file
            if not all_files and self._clock() - started_at > _SWEEP_SECONDS:
                break
        return self._compare(candidates) if candidates else []

    def _compare(self, candidates: Mapping[str, DiscoveredFile]) -> list[DiscoveredFile]:
        versions = self._list_versions(candidates.keys())
        changed: list[DiscoveredFile] = []
        for name, file in candidates.items():
            recorded = versions.get(name)
            if recorded is None:
                continue  # not read yet
            if recorded.size is None:
                self._adopt(replace(recorded, size=file.size, modified=file.modified))
            elif (recorded.size, recorded.modified) != _version(file):
                changed.append(replace(file, reading=recorded.readings + 1))
                self._report(name)
                continue
            else:
                self._settle(file)
            self._recorded[str(file.path)] = hash(_version(file))
        return changed

    def _report(self, name: str) -> None:
        if not self._is_reported:
            self._is_reported = True
            _LOG.warning(
                "the source rewrites files that were read: they are read again, and rows that are "
                "archived are duplicates; set `tail: true` where files only grow",
                action="file_rewritten",
                stream=self._stream,
                name=name,
            )


def _version(file: DiscoveredFile) -> tuple[int, int]:
    return file.size, file.modified
