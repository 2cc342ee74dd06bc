"""Records of CSV among lines: a quoted field may have line breaks. No I/O."""

import csv
import re
from collections import deque
from collections.abc import Iterator, Sequence

from archiver.errors import SourceDamaged
from archiver.formats import PLAIN_CSV, CsvDialect
from archiver.ingest.decoding.csv_records import reader_options, regular_record
from archiver.ingest.decoding.records import MAX_LINE_BYTES, MAX_RECORD_LINES

_NAMED_DELIMITER = re.compile(rb'"?[Ss][Ee][Pp]=([\x00-\x7f])"?\r?')
_PLAIN_RECORD = re.compile(regular_record(PLAIN_CSV.delimiter).encode())


def named_delimiter(line: bytes) -> str | None:
    """What divides fields, if a line names it: `sep=;`."""
    named = _NAMED_DELIMITER.fullmatch(line)
    return None if named is None else named[1].decode()


def are_plain_lines(lines: Sequence[bytes]) -> bool:
    """Whether each line of plain CSV is one record to every reader."""
    return all(b'"' not in line or _PLAIN_RECORD.match(line.rstrip(b"\r")) for line in lines)


def frame_csv(
    lines: Iterator[tuple[int, bytes]], dialect: CsvDialect
) -> Iterator[tuple[int, bytes]]:
    """The records of numbered lines, with the numbers of their first ones.

    A line whose quotes begin no record that the reader accepts, within the limits of a record, is
    one by itself, and refused later; the next record begins on the line after it.
    """
    return _CsvFramer(lines, dialect).frame()


class _CsvFramer:
    def __init__(self, lines: Iterator[tuple[int, bytes]], dialect: CsvDialect) -> None:
        self._lines = lines
        self._dialect = dialect
        self._pushed_back: deque[tuple[int, bytes]] = deque()
        self._comment = None if dialect.comment is None else dialect.comment.encode()
        self._quote = None if dialect.quote is None else dialect.quote.encode()
        self._escape = None if dialect.escape is None else dialect.escape.encode()
        self._regular = re.compile(regular_record(dialect.delimiter).encode())

    def frame(self) -> Iterator[tuple[int, bytes]]:
        """Raises `SourceDamaged` if the only line has other line ends."""
        is_only_line = False
        while (numbered := self._next_line()) is not None:
            number, line = numbered
            if number == 1 and self._names_delimiter(line):
                continue
            if not line.strip() or (self._comment and line.startswith(self._comment)):
                continue
            if b"\r" in line.rstrip(b"\r") and number == 1:
                following = self._next_line()
                is_only_line = following is None
                self._pushed_back.extend([] if following is None else [following])
            if is_only_line:
                raise SourceDamaged("lines end with carriage returns alone: write line feeds")
            record = line if self._is_record(line) else self._join(numbered)
            yield number, record.rstrip(b"\r")

    def _names_delimiter(self, line: bytes) -> bool:
        """Whether a first line names the delimiter of the next ones, as Excel reads it.

        Raises `SourceDamaged` if it is another one than that of the dialect.
        """
        delimiter = named_delimiter(line)
        if delimiter is not None and delimiter != self._dialect.delimiter:
            raise SourceDamaged(
                f"the first line says that {delimiter!r} divides fields: declare "
                f"`csv: {{delimiter: {delimiter!r}}}`"
            )
        return delimiter is not None

    def _is_record(self, line: bytes) -> bool:
        """Whether a line is certainly a whole record."""
        line = line.rstrip(b"\r")
        if self._escape is not None:
            return False
        if self._quote is None or self._quote not in line:
            return True
        return self._quote == b'"' and self._regular.match(line) is not None

    def _next_line(self) -> tuple[int, bytes] | None:
        if self._pushed_back:
            return self._pushed_back.popleft()
        return next(self._lines, None)

    def _join(self, first: tuple[int, bytes]) -> bytes:
        """The record that begins with a line; the line alone if no record does."""
        consumed: list[tuple[int, bytes]] = []

        def consume() -> Iterator[str]:
            size = 0
            numbered: tuple[int, bytes] | None = first
            while numbered is not None and len(consumed) < MAX_RECORD_LINES:
                consumed.append(numbered)
                size += len(numbered[1]) + 1
                if size > MAX_LINE_BYTES:
                    return
                yield numbered[1].decode("utf-8", "surrogateescape") + "\n"
                numbered = self._next_line()
            if numbered is not None:
                self._pushed_back.appendleft(numbered)

        reader = csv.reader(consume(), **reader_options(self._dialect))
        try:
            next(reader)
        except (csv.Error, StopIteration):
            self._pushed_back.extendleft(reversed(consumed[1:]))
            return first[1]
        return b"\n".join(line for _, line in consumed)
