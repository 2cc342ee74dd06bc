"""Files that were renamed after they were read, of a stream whose rows are identified by place."""

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import structlog

from archiver.formats import strip_compression
from archiver.ingest import open_content
from moirae.live.sources.files import HASHED_BYTES, DiscoveredFile, hash_bytes, unit_name

_LOG = structlog.get_logger()

Stamps = Sequence[tuple[str, str]]
StampsByName = Mapping[str, tuple[str, str]]


class RenamedFiles:
    """Gives files the names under which their rows were first read: these are then duplicates.

    A file is known by its inode and its beginning, also if it has grown since; a compressed one by
    its name and its beginning: `a.log.gz` is `a.log`. A copy under another name is another file.
    `list_stamps` returns the stamps of files with some inodes, and their names, the last that were
    read first; `list_stamps_of_names` stamps and names of files that were read under some names.
    """

    def __init__(
        self,
        stream: str,
        base: Path,
        list_stamps: Callable[[Collection[int]], Stamps],
        list_stamps_of_names: Callable[[Collection[str]], StampsByName],
    ) -> None:
        """Files are named relative to `base`."""
        self._stream = stream
        self._base = base
        self._list_stamps = list_stamps
        self._list_stamps_of_names = list_stamps_of_names
        self._is_reported = False

    def find_places(self, files: Sequence[DiscoveredFile]) -> list[DiscoveredFile]:
        """The files with their places and stamps, in order."""
        inodes = [file.inode for file in files if file.inode is not None]
        stamps = self._list_stamps(inodes) if inodes else ()
        names_by_inode: dict[int, list[tuple[int, str, str]]] = {}
        for stamp, name in stamps:
            inode, size, digest = stamp.split(":")
            names_by_inode.setdefault(int(inode), []).append((int(size), digest, name))
        plain_stamps = self._list_plain_stamps(files)
        identified: list[DiscoveredFile] = []
        for file in files:
            content = _read_beginning(file)
            name = unit_name(file.path, self._base)
            first_name = name
            for read_size, digest, read_as in names_by_inode.get(file.inode or 0, ()):
                if 0 < read_size <= file.size and hash_bytes(content[:read_size]).hex() == digest:
                    first_name = read_as
                    break
            plain = plain_stamps.get(strip_compression(name))
            if first_name == name and plain is not None and _is_compressed(file, plain[0]):
                first_name = plain[1]
            if first_name != name:
                self._report(name, first_name)
            digest = hash_bytes(content[: file.size]).hex()
            stamp = f"{file.inode}:{file.size}:{digest}"
            if file.inode is not None:  # another name may be a link
                earlier = names_by_inode.setdefault(file.inode, [])
                earlier.append((file.size, digest, first_name))
            identified.append(replace(file, place=first_name, stamp=stamp))
        return identified

    def _list_plain_stamps(self, files: Sequence[DiscoveredFile]) -> StampsByName:
        """Those of the files that compressed ones may be."""
        names = [unit_name(file.path, self._base) for file in files]
        plain_names = {strip_compression(name) for name in names}.difference(names)
        return self._list_stamps_of_names(plain_names) if plain_names else {}

    def _report(self, name: str, first_name: str) -> None:
        """Log that a file was renamed, once."""
        if not self._is_reported:
            self._is_reported = True
            _LOG.warning(
                "the source renames or compresses files that were read: they are read again, and "
                "their rows are "
                "duplicates; set `tail: true` where log files rotate",
                action="file_renamed",
                stream=self._stream,
                name=name,
                read_as=first_name,
            )


def _is_compressed(file: DiscoveredFile, stamp: str) -> bool:
    """Whether a file is a compressed one that was read, or has grown since."""
    _, size, digest = stamp.split(":")
    with suppress(OSError, EOFError, zlib.error), open_content(file.path) as content:
        beginning = content.read(min(int(size), HASHED_BYTES))
        return bool(beginning) and hash_bytes(beginning).hex() == digest
    return False


def _read_beginning(file: DiscoveredFile) -> bytes:
    """Empty if the file cannot be read: reading it says why."""
    with suppress(OSError), open(str(file.path), "rb", buffering=0) as content:
        return content.read(HASHED_BYTES)
    return b""
