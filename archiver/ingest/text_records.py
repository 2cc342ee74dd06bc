"""Divide the content of a text file into records: lines of JSON, or of CSV with quoted line breaks.

For files that are read as a whole; those of streams are read line by line.
"""

import csv
from collections.abc import Iterator
from typing import NamedTuple

from archiver.ingest.decoding import LineFormat
from archiver.ingest.source_units import BYTE_ORDER_MARK


class TextRecord(NamedTuple):
    """A record as `decode_lines` takes it, without line end. `line`: its first line, from 1."""

    line: int
    text: bytes


def split_records(content: bytes, line_format: LineFormat) -> list[TextRecord]:
    """The records of a file that are not blank, without its byte order mark.

    A record of CSV has several lines if line breaks are quoted.
    """
    content = content.removeprefix(BYTE_ORDER_MARK)
    lines = content.split(b"\n")
    if line_format == "csv" and b'"' in content:
        records = _join_quoted_lines(lines)
    else:
        records = (TextRecord(number, line) for number, line in enumerate(lines, 1))
    stripped = (record._replace(text=record.text.rstrip(b"\r\n")) for record in records)
    return [record for record in stripped if record.text.strip()]


def _join_quoted_lines(lines: list[bytes]) -> Iterator[TextRecord]:
    """One record for each that the CSV reader makes; it alone tells which quotes are open."""
    consumed: list[bytes] = []

    def consume() -> Iterator[str]:
        for line in lines:
            consumed.append(line)
            yield line.decode("utf-8", "surrogateescape") + "\n"

    reader = csv.reader(consume(), strict=True)
    first = 1
    while True:
        try:
            next(reader)
        except StopIteration:
            return
        except csv.Error:
            pass  # decoding the record refuses it, with the reason
        yield TextRecord(first, b"\n".join(consumed))
        first += len(consumed)
        consumed.clear()
