"""Divides the content of a unit into records with the numbers of their first lines.

Content is lines without line ends; blocks of bytes for JSON documents.
"""

from collections.abc import Iterator, Sequence
from itertools import compress, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from archiver.errors import SourceDamaged
from archiver.formats import Format
from archiver.ingest.decoding.csv_framing import frame_csv
from archiver.ingest.decoding.documents import DocumentScanner
from archiver.ingest.decoding.joined_lines import frame_by_start, join_cri, join_docker

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Records(NamedTuple):
    """Records, and the numbers of their first lines; those of documents are counted."""

    line_numbers: npt.NDArray[np.int64]
    records: list[bytes]


class RecordSource:
    """The records of a unit that are not yet read.

    `content`: lines, blocks or, with `given_numbers`, records. Lines are counted from 1, without a
    byte order mark at the beginning, and blank ones between records are none. `damage`: the error
    that ended the content early; what came before is complete.
    """

    def __init__(
        self,
        record_format: Format,
        content: Iterator[bytes],
        given_numbers: Sequence[int] | None = None,
    ) -> None:
        self._format = record_format
        self._content = self._until_damage(content)
        self._given_numbers = given_numbers
        self._lines_read = 0
        self._frames: Iterator[tuple[int, bytes]] | None = None
        self.damage: SourceDamaged | None = None
        if given_numbers is None:
            self._frames = self._make_frames()

    def take(self, limit: int) -> Records:
        """The next records; there are no more if these are fewer than `limit`."""
        if self._frames is not None:
            pairs: list[tuple[int, bytes]] = []
            try:
                pairs.extend(islice(self._frames, limit))  # keeps those before the damage
            except SourceDamaged as error:
                self.damage = error
            numbers = np.fromiter((number for number, _ in pairs), np.int64, len(pairs))
            return Records(numbers, [record for _, record in pairs])
        taken = Records(np.empty(0, np.int64), [])
        while len(taken.records) < limit:
            lines = list(islice(self._content, limit - len(taken.records)))
            if not lines:
                break
            numbered = self._number(lines)
            self._lines_read += len(lines)
            line_numbers = np.concatenate([taken.line_numbers, numbered.line_numbers])
            taken = Records(line_numbers, taken.records + numbered.records)
        return taken

    def _until_damage(self, content: Iterator[bytes]) -> Iterator[bytes]:
        try:
            yield from content
        except SourceDamaged as error:
            self.damage = error

    def _make_frames(self) -> Iterator[tuple[int, bytes]] | None:
        """The records of a format in which a line need not be one; None for others."""
        record_format = self._format
        if record_format.has_documents:
            return self._frame_documents()
        if record_format.is_csv:
            return frame_csv(self._numbered_lines(), record_format.csv)
        if record_format.name == "cri":
            return join_cri(self._numbered_lines())
        if record_format.name == "docker":
            return join_docker(self._numbered_lines())
        if record_format.starts_with is not None:
            return frame_by_start(self._numbered_lines(), record_format.starts_with)
        return None

    def _numbered_lines(self) -> Iterator[tuple[int, bytes]]:
        for number, line in enumerate(self._content, 1):
            yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line

    def _frame_documents(self) -> Iterator[tuple[int, bytes]]:
        scanner = DocumentScanner(self._format.records, self._format.outer)
        number = 0
        for block in self._content:
            for record in scanner.scan(block):
                number += 1
                yield number, record
        for record in scanner.finish(is_damaged=self.damage is not None):
            number += 1
            yield number, record

    def _number(self, lines: list[bytes]) -> Records:
        """Number the lines that follow those read before, and leave out those without records."""
        start = self._lines_read
        if self._given_numbers is not None:
            given_numbers = self._given_numbers[start : start + len(lines)]
            return Records(np.array(given_numbers, np.int64), lines)
        if start == 0:
            lines = [lines[0].removeprefix(BYTE_ORDER_MARK), *lines[1:]]
        line_numbers = np.arange(start + 1, start + 1 + len(lines))
        if all(map(bytes.strip, lines)):
            return Records(line_numbers, lines)
        is_record = list(map(bool, map(bytes.strip, lines)))
        return Records(line_numbers[is_record], list(compress(lines, is_record)))
