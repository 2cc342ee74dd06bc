"""The growing files of one stream."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import structlog

from archiver.ingest import (
    ArchiveWriter,
    SourceUnit,
)
from archiver.ingest.ledger import LostRecords, TopicIdentity
from moirae.config import FileSource, Stream
from moirae.live.sources.files import HASHED_BYTES, hash_bytes, unit_name
from moirae.live.sources.growing.content import (
    find_complete_end,
    find_text_start,
    read_range,
    read_whole_range,
)
from moirae.live.sources.growing.known_files import (
    KnownFile,
    ListedFile,
    MatchedFiles,
    match_files,
)
from moirae.live.sources.growing.listing import GrowingFileListing
from moirae.live.sources.growing.open_files import OpenFiles, is_handle
from moirae.live.sources.growing.ranges import has_content_of, make_range_unit, read_header
from sql.archive import GrowingFileGateway, GrowingFileRow

_LOG = structlog.get_logger()

_MAX_RANGE_BYTES = 8 << 20
# Seconds for which a file must not have changed before its last record counts as complete.
_FLUSH_AFTER = 5.0
# Seconds after which a file that begins like another one is no copy that truncation is to follow.
_COPY_TIMEOUT = 5.0
# In the ledger the growing files of a stream are the partitions of one topic.
_IDENTITY = TopicIdentity("growing files", "growing files", "", "")


class CompleteRecords(NamedTuple):
    """The content of complete records, and its offset."""

    start: int
    content: bytes


class GrowingStream:
    """Finds each file again, whatever its name is now, and reads what it has got.

    The caller owns the transactions, and holds the lock of the archive.
    """

    def __init__(
        self,
        name: str,
        declared: Stream,
        base: Path,
        archive: ArchiveWriter,
        gateway: GrowingFileGateway,
        *,
        drain: bool,
    ) -> None:
        assert isinstance(declared.source, FileSource)
        self._name = name
        self._declared = declared
        self._base = base
        self._archive = archive
        self._gateway = gateway
        self._drain = drain
        self._listing = GrowingFileListing(declared.source.files)
        self._rows: dict[int, GrowingFileRow] = {}
        # By number: the file as it was last seen.
        self._present: dict[int, ListedFile] = {}
        # By number and end of a range that was read: by what its file is found again after it.
        self._described: dict[tuple[int, int], GrowingFileRow] = {}
        self._ambiguous_since: dict[tuple[int, int, int], float] = {}
        self._has_ambiguous = False
        self._has_listed = False
        # By number: a file that the last listing did not have, as it was last seen. A copy that was
        # made while the folder was listed, or a new name, is in the next listing.
        self._missing: dict[int, ListedFile] = {}
        self._open_files = OpenFiles()

    def start(self) -> None:
        """Load the files that were read."""
        self._rows = {row.number: row for row in self._gateway.list_all(self._name)}

    def read_units(self, max_bytes: int) -> list[SourceUnit]:
        """The next ranges of the files as units, in the order of modification times."""
        self._begin()
        is_complete = self._drain and self._has_listed and not self._has_ambiguous
        listed = None if is_complete else self._listing.list()
        if is_complete and self._missing:
            self._report_lost(self._present)
        if listed is not None:
            self._match(listed)
            # A drain reads what exists: also a file that was compressed just before.
            self._has_listed = not (self._drain and self._listing.has_unfinished)
        units: list[SourceUnit] = []
        self._described.clear()
        size = 0
        for number, file in self._present.items():
            if size >= max_bytes:
                break
            unit = self._read_unit(number, file)
            if unit is not None:
                units.append(unit)
                size += unit.size or 0
        return units

    def record_read(self, unit: SourceUnit) -> None:
        """Store by what a file is found again, after a range of it was archived."""
        assert unit.partition is not None and unit.next_offset is not None
        number = int(unit.partition)
        row = self._described.pop((number, unit.next_offset), None)
        if row is None:
            return  # what was stored after an earlier range finds the file as well
        self._gateway.update(row)
        self._rows[number] = row

    def has_unread(self, partition: str | None) -> bool:
        """Whether a file, or any, has records that are not archived."""
        if not self._has_listed or self._has_ambiguous:
            return True
        numbers = self._present if partition is None else [int(partition)]
        return any(self._complete_bytes(number) for number in numbers if number in self._present)

    def oldest_unread(self) -> float | None:
        """When the oldest file with unread records was changed; None: there is none."""
        changes = [
            file.changed / 1e9
            for number, file in self._present.items()
            if self._complete_bytes(number)
        ]
        return min(changes, default=None)

    def _begin(self) -> None:
        topic = self._archive.topics.current(self._name)
        if topic is None or topic.identity != _IDENTITY:
            earlier = self._archive.topics.find(self._name, _IDENTITY.topic_id)
            watermark = self._archive.watermark(self._name)
            if earlier is not None:
                self._archive.topics.resume(self._name, earlier, _IDENTITY, watermark)
            else:
                self._archive.topics.begin(self._name, _IDENTITY, {}, watermark)

    def _read_to(self, number: int) -> int:
        partition = self._archive.partitions[self._name].get(str(number))
        return 0 if partition is None else partition.next

    def _known_files(self) -> list[KnownFile]:
        return [KnownFile(row, self._read_to(number)) for number, row in self._rows.items()]

    def _match(self, listed: Sequence[ListedFile]) -> None:
        matched = match_files(self._known_files(), listed, self._has_content, _is_beginning)
        files = self._select_settled(listed, matched)
        present: dict[int, ListedFile] = {}
        for position, file in files.items():
            match = matched.files.get(position)
            number = self._register(file) if match is None else match.row.number
            if number is not None:
                present[number] = file
        listed_inodes = {(file.device, file.inode) for file in listed}
        self._report_lost(present)
        for number, file in self._present.items():
            if number in present:
                continue
            if (file.device, file.inode) in listed_inodes:  # truncated, or replaced
                self._missing[number] = file
                self._open_files.close(number)
                continue
            unlisted = self._open_files.find(number, self._read_to(number))
            if unlisted is not None and (
                self._open_files.may_grow(number) or self._count_complete(number, unlisted)
            ):
                present[number] = unlisted
            else:
                self._missing[number] = file
                self._open_files.close(number)
        for number, file in present.items():
            self._open_files.keep(number, file)
        self._present = present

    def _select_settled(
        self, listed: Sequence[ListedFile], matched: MatchedFiles
    ) -> dict[int, ListedFile]:
        """The files to be read: not copies of others, as long as these may be truncated."""
        now = time.monotonic()
        since: dict[tuple[int, int, int], float] = {}
        selected: dict[int, ListedFile] = {}
        self._has_ambiguous = False
        for position, file in enumerate(listed):
            if position in matched.ambiguous:
                # A copy that grows is not complete yet.
                key = (file.device, file.inode, file.size)
                since[key] = self._ambiguous_since.get(key, now)
                if file.is_compressed:
                    continue
                if now - since[key] < _COPY_TIMEOUT:
                    self._has_ambiguous = True
                    continue
            selected[position] = file
        self._ambiguous_since = since
        return selected

    def _has_content(self, file: ListedFile, candidate: KnownFile) -> bool:
        row = candidate.row
        previous = self._present.get(row.number)
        if previous == file:
            return True
        return has_content_of(file.path, row)

    def _register(self, file: ListedFile) -> int | None:
        """Give a file that is seen first a number, once it has a whole line."""
        try:
            text_start = find_text_start(file.path, 0)
            if text_start is None:
                return None
            if b"\n" not in read_range(file.path, text_start, _MAX_RANGE_BYTES):
                return None
            name = unit_name(file.path, self._base)
            row = GrowingFileRow(0, name, name, file.device, file.inode, 0, b"", 0, b"")
            row = self._describe(row, file, 0)
        except (OSError, EOFError):
            return None
        number = self._gateway.insert(self._name, row)
        self._rows[number] = replace(row, number=number)
        self._archive.topics.skip(self._name, {str(number): 0})
        return number

    def _describe(self, row: GrowingFileRow, file: ListedFile, read_to: int) -> GrowingFileRow:
        """By what a file is found again that was read to an offset.

        Raises `EOFError` if it is shorter: it was truncated meanwhile.
        """
        if read_to:
            head = read_whole_range(file.path, 0, min(HASHED_BYTES, read_to))
        else:
            head = read_range(file.path, 0, HASHED_BYTES)
            head = head[: head.rfind(b"\n") + 1] or head
        start = max(0, read_to - HASHED_BYTES)
        checked = read_whole_range(file.path, start, read_to - start)
        return replace(
            row,
            path=row.path if is_handle(file) else unit_name(file.path, self._base),
            device=file.device,
            inode=file.inode,
            head_length=len(head),
            head_hash=hash_bytes(head),
            checked_to=read_to,
            checked_hash=hash_bytes(checked),
        )

    def _report_lost(self, present: Mapping[int, ListedFile]) -> None:
        """Report the files that two listings did not have, nor a compressed file that is written."""
        lost = {number: f for number, f in self._missing.items() if number not in present}
        if self._listing.has_unfinished:
            self._missing = lost
            return
        self._missing = {}
        for number, file in lost.items():
            self._report_missing(number, file)

    def _report_missing(self, number: int, file: ListedFile) -> None:
        """Report what is lost of a file that is gone, or was truncated."""
        read_to = self._read_to(number)
        name = self._rows[number].path
        if file.size > read_to:
            loss = LostRecords(name, str(number), read_to, file.size - 1, "removed")
            self._archive.topics.record_losses(self._name, [loss])
        _LOG.warning(
            "growing file is gone or was truncated; lines of its last moments may be lost",
            action="growing_file_gone",
            stream=self._name,
            name=name,
            lost_bytes=max(file.size - read_to, 0),
        )

    def _complete_bytes(self, number: int) -> int:
        return self._count_complete(number, self._present[number])

    def _count_complete(self, number: int, file: ListedFile) -> int:
        """How many unread bytes of a file are complete records."""
        read_to = self._read_to(number)
        if file.size <= read_to:
            return 0
        try:
            return len(self._read_complete(file, read_to).content)
        except (OSError, EOFError):
            return 0

    def _read_complete(self, file: ListedFile, read_to: int) -> CompleteRecords:
        """The complete records from an offset on, up to the size at which the file was listed.

        NUL bytes before them are skipped: truncation leaves them to a writer that does not append,
        and a crash of the machine to all.
        """
        size = min(file.size - read_to, _MAX_RANGE_BYTES)
        content = read_range(file.path, read_to, size)
        if content.startswith(b"\0"):
            text_start = find_text_start(file.path, read_to)
            if text_start is None or text_start >= file.size:
                return CompleteRecords(read_to, b"")
            return self._read_complete(file, text_start)
        is_settled = self._drain or file.is_compressed
        is_settled = is_settled or time.time() - file.changed / 1e9 > _FLUSH_AFTER
        end = find_complete_end(content, self._declared.source.record_format, is_settled=is_settled)
        if not end and len(content) == _MAX_RANGE_BYTES:
            end = content.rfind(b"\n") + 1
        return CompleteRecords(read_to, content[:end])

    def _read_unit(self, number: int, file: ListedFile) -> SourceUnit | None:
        read_to = self._read_to(number)
        if file.size <= read_to:
            return None
        try:
            start, content = self._read_complete(file, read_to)
            if not content:
                return None
            header = read_header(file.path, self._declared.source.record_format)
            # Now, not once the range is archived: the file may be truncated until then.
            described = self._describe(self._rows[number], file, start + len(content))
            # It may have been truncated since it was listed, and be as long again.
            if not file.is_compressed and not has_content_of(file.path, self._rows[number]):
                return None
        except (OSError, EOFError):
            return None
        if start > read_to:
            self._skip(number, start, start - read_to)
        self._described[number, start + len(content)] = described
        row = self._rows[number]
        return make_range_unit(self._name, self._declared, row, start, content, header)

    def _skip(self, number: int, start: int, size: int) -> None:
        """Read a file from an offset on, after some NUL bytes."""
        self._archive.topics.skip(self._name, {str(number): start})
        _LOG.warning(
            "NUL bytes before a line were skipped: the file was truncated while its writer had it "
            "open without appending, or the machine crashed",
            action="nul_bytes_skipped",
            stream=self._name,
            name=self._rows[number].path,
            bytes=size,
        )


def _is_beginning(file: ListedFile, longer: ListedFile) -> bool:
    """Whether a file is how a longer one begins, by its first and last bytes."""
    if longer.is_compressed:
        return False
    length = min(file.size, HASHED_BYTES)
    try:
        for start in (0, file.size - length):
            if read_range(file.path, start, length) != read_range(longer.path, start, length):
                return False
    except (OSError, EOFError):
        return False
    return True
