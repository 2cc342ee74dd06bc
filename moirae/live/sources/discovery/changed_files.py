"""Files that were changed after they were read, found in the background."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from archiver.periodic import Clock
from moirae.live.sources.files import DiscoveredFile, stat_file, unit_name
from sql.archive import FileVersionRow

_LOG = structlog.get_logger()

# Seconds of each call in which files are looked at, and from one look at all files to the next.
_SWEEP_SECONDS = 0.001
_SWEEP_INTERVAL = 1.0
_COMPARED_FILES = 1_000  # that are compared with the ledger together

Versions = Mapping[str, FileVersionRow]


class ChangedFiles:
    """Compares the sizes and modification times of files with those of their last reading.

    `iterate_paths` yields the files of a stream that were discovered; `list_versions`, of some names,
    those that the ledger has. `adopt` records the version of a file that was read by a version of
    the program that did not record it. `settle` is called with files that are as they were read.
    """

    def __init__(
        self,
        stream: str,
        base: Path,
        *,
        iterate_paths: Callable[[], Iterator[str]],
        list_versions: Callable[[Collection[str]], Versions],
        adopt: Callable[[FileVersionRow], None],
        settle: Callable[[DiscoveredFile], None] = lambda _: None,
        clock: Clock = time.monotonic,
    ) -> None:
        """Files are named relative to `base`."""
        self._stream = stream
        self._base = base
        self._iterate_paths = iterate_paths
        self._list_versions = list_versions
        self._adopt = adopt
        self._settle = settle
        self._clock = clock
        self._unseen: Iterator[str] | None = None
        # By name: those that were looked at, and are not compared yet.
        self._candidates: dict[str, DiscoveredFile] = {}
        self._sweep_again_at = 0.0
        self._is_reported = False
        # By path, size and modification time that the ledger has, as the hash of both: of the last
        # look at all files, and of this one. What is gone is forgotten with the last one.
        self._recorded: dict[str, int] = {}
        self._compared: dict[str, int] = {}

    def find_changed(self, *, all_files: bool = False) -> list[DiscoveredFile]:
        """The files that are to be read again, among those that it is time to look at."""
        started_at = self._clock()
        if self._unseen is None:
            if started_at < self._sweep_again_at:
                return []
            self._unseen = self._iterate_paths()
            self._sweep_again_at = started_at + _SWEEP_INTERVAL
        is_end = True
        for path in self._unseen:
            file = stat_file(self._stream, Path(path))
            if file is not None:
                recorded = self._recorded.get(path)
                if recorded == hash(_version(file)):
                    self._compared[path] = recorded
                else:
                    self._candidates[unit_name(file.path, self._base)] = file
            if not all_files and self._clock() - started_at > _SWEEP_SECONDS:
                is_end = False
                break
        changed: list[DiscoveredFile] = []
        if self._candidates and (is_end or len(self._candidates) >= _COMPARED_FILES):
            changed = self._compare(self._candidates)
            self._candidates = {}
        if is_end:
            self._unseen = None
            self._recorded, self._compared = self._compared, {}
        return changed

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
                present = stat_file(self._stream, Path(str(file.path)))  # it may be read since
                if present is not None and (recorded.size, recorded.modified) != _version(present):
                    changed.append(replace(present, reading=recorded.readings + 1))
                    self._report(name)
                continue
            else:
                self._settle(file)
            self._compared[str(file.path)] = hash(_version(file))
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
