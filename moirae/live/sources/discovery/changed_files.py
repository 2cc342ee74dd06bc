"""Files that were changed after they were read, found in the background."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from archiver.periodic import Clock
from moirae.live.sources.discovery.recorded_versions import RecordedVersions
from moirae.live.sources.files import DiscoveredFile, stat_file, to_modified, unit_name

# Seconds of each call in which files are looked at, and from one look at all files to the next.
_SWEEP_SECONDS = 0.001
_SWEEP_INTERVAL = 1.0
_COMPARED_FILES = 200  # that are compared with the ledger together, in some milliseconds


class ChangedFiles:
    """Compares the sizes and modification times of files with those of their last reading.

    `iterate_paths` yields the files of a stream that were discovered. `settle` is called with files
    that are as they were read.
    """

    def __init__(
        self,
        stream: str,
        base: Path,
        *,
        versions: RecordedVersions,
        iterate_paths: Callable[[], Iterator[str]],
        settle: Callable[[DiscoveredFile], None] = lambda _: None,
        clock: Clock = time.monotonic,
    ) -> None:
        """Files are named relative to `base`."""
        self._stream = stream
        self._base = base
        self._iterate_paths = iterate_paths
        self._versions = versions
        self._settle = settle
        self._clock = clock
        self._unseen: Iterator[str] | None = None
        # By name: those that were looked at, and are not compared yet.
        self._candidates: dict[str, DiscoveredFile] = {}
        self._sweep_again_at = 0.0
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
            recorded = self._recorded.get(path)
            if recorded is not None and recorded == _read_version(path):
                self._compared[path] = recorded
            elif (file := stat_file(self._stream, Path(path))) is not None:
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
        compared = self._versions.compare(candidates)
        for file in compared.unchanged.values():
            self._settle(file)
            self._compared[str(file.path)] = hash((file.size, file.modified))
        present: dict[str, DiscoveredFile] = {}
        for name, file in compared.changed.items():  # they may be read since
            present_file = stat_file(self._stream, Path(str(file.path)))
            if present_file is not None:
                present[name] = present_file
        changed = self._versions.compare(present).changed
        for name in changed:
            self._versions.report(name)
        return list(changed.values())


def _read_version(path: str) -> int | None:
    """The hash of size and modification time; None: there is no file.

    Without an object for each file: most are looked at once a second, and have not changed.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    return hash((status.st_size, to_modified(status)))
