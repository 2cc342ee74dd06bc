"""Listed files compared with the versions in which the ledger has read them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import structlog

from moirae.live.sources.files import DiscoveredFile
from sql.archive import FileVersionRow

_LOG = structlog.get_logger()

Versions = Mapping[str, FileVersionRow]


@dataclass(frozen=True)
class ComparedFiles:
    """Files by name: `unread`; `changed` since they were read; `unchanged`.

    Changed ones are to be read again: `DiscoveredFile.reading` is set.
    """

    unread: dict[str, DiscoveredFile] = field(default_factory=dict)
    changed: dict[str, DiscoveredFile] = field(default_factory=dict)
    unchanged: dict[str, DiscoveredFile] = field(default_factory=dict)


class RecordedVersions:
    """The sizes and modification times of the files of a stream when they were last read.

    `list_versions`: those that the ledger has, of some names. `adopt` records the version of a file
    that was read by a version of the program that did not record it.
    """

    def __init__(
        self,
        stream: str,
        list_versions: Callable[[Collection[str]], Versions],
        adopt: Callable[[FileVersionRow], None],
    ) -> None:
        self._stream = stream
        self._list_versions = list_versions
        self._adopt = adopt
        self._is_reported = False

    def compare(self, files: Mapping[str, DiscoveredFile]) -> ComparedFiles:
        """Compare listed files, by name."""
        versions = self._list_versions(files.keys()) if files else {}
        compared = ComparedFiles()
        for name, file in files.items():
            recorded = versions.get(name)
            if recorded is None:
                compared.unread[name] = file
            elif recorded.size is None:
                self._adopt(replace(recorded, size=file.size, modified=file.modified))
                compared.unchanged[name] = file
            elif (recorded.size, recorded.modified) != (file.size, file.modified):
                compared.changed[name] = replace(file, reading=recorded.readings + 1)
            else:
                compared.unchanged[name] = file
        return compared

    def report(self, name: str) -> None:
        """Log that a file is read again, once."""
        if not self._is_reported:
            self._is_reported = True
            _LOG.warning(
                "the source rewrites files that were read: they are read again, and rows that are "
                "archived are duplicates; where files only grow, set `tail: true` and `after: keep`",
                action="file_rewritten",
                stream=self._stream,
                name=name,
            )
