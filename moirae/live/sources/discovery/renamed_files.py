"""Files that were renamed after they were read, of a stream whose rows are identified by place."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from moirae.live.sources.files import DiscoveredFile, unit_name

_LOG = structlog.get_logger()


class RenamedFiles:
    """Gives files the names under which their rows were first read: these are then duplicates.

    A file is known by size, modification time and inode. A copy is another file. `list_places`
    returns the names of some files by their stamps.
    """

    def __init__(
        self, stream: str, base: Path, list_places: Callable[[Collection[str]], Mapping[str, str]]
    ) -> None:
        """Files are named relative to `base`."""
        self._stream = stream
        self._base = base
        self._list_places = list_places
        self._is_reported = False

    def find_places(self, files: Sequence[DiscoveredFile]) -> list[DiscoveredFile]:
        """The files with their places, in order."""
        names_by_stamp: Mapping[str, str] = {}
        if files:
            names_by_stamp = self._list_places([file.stamp for file in files])
        identified: list[DiscoveredFile] = []
        for file in files:
            name = unit_name(file.path, self._base)
            first_name = names_by_stamp.get(file.stamp, name)
            if first_name != name:
                self._report(name, first_name)
            identified.append(replace(file, place=first_name))
        return identified

    def _report(self, name: str, first_name: str) -> None:
        """Log that a file was renamed, once."""
        if not self._is_reported:
            self._is_reported = True
            _LOG.warning(
                "the source renames files that were read: they are read again, and their rows are "
                "duplicates; set `tail: true` where log files rotate",
                action="file_renamed",
                stream=self._stream,
                name=name,
                read_as=first_name,
            )
