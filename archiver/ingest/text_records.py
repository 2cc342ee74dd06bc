"""Divide the content of a text file into records, for files that are read as a whole."""

from typing import NamedTuple

from archiver.formats import Format
from archiver.ingest.decoding import RecordSource
from archiver.ingest.source_text import split_lines


class TextRecord(NamedTuple):
    """A record as `decode_lines` takes it, without line end. `line`: its first line, from 1."""

    line: int
    text: bytes


def split_records(content: bytes, record_format: Format) -> list[TextRecord]:
    """The records of a file that are not blank, without its byte order mark.

    Raises `SourceDamaged` for documents that are not complete.
    """
    source = RecordSource(record_format, split_lines(iter([content]), b"\n"))
    numbers, records = source.take(len(content) + 1)  # a document needs no line
    if source.damage is not None:
        raise source.damage
    lines = (record.rstrip(b"\r\n") for record in records)
    return [TextRecord(*pair) for pair in zip(numbers.tolist(), lines, strict=True)]
