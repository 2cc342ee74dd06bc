"""Malformed lines that repeat rows of an earlier declaration."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from archiver.chunks.chunk import FIRST_CHUNK
from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.formats import JSONL
from archiver.ingest.engines.refused_lines import count_archived_lines
from archiver.ingest.engines.stream_appender import StreamAppender
from archiver.ingest.lateness import LateRule
from archiver.ingest.ledger import Counters
from archiver.ingest.open_unit import OpenUnit, decode_slices
from archiver.ingest.source_units import SourceUnit

NONE = timedelta(0)
UNDECLARED = StreamSchema("s", {"ts": "timestamp"}, "ts", None, (), NONE, NONE)
DECLARED = replace(UNDECLARED, columns={"ts": "timestamp", "v": "int"})
END_OF_TIME = 1 << 60  # microseconds
ARCHIVED = b'{"ts": 1, "v": "a"}'


def open_unit(unit_id: int, *lines: bytes) -> OpenUnit:
    unit = SourceUnit("s", "u", JSONL, lambda: iter(lines))
    return OpenUnit(unit, unit_id, LateRule())


def archive(folder: Path) -> StreamAppender:
    """An archive with a row of unit 1 whose field was not declared then."""
    appender = StreamAppender(StreamTable(folder, UNDECLARED))
    slices = list(decode_slices(open_unit(1, ARCHIVED), UNDECLARED, END_OF_TIME, None))
    classified = appender.classify(slices, [FIRST_CHUNK])
    chunk_ids = 0 * classified.ts
    rows = classified.with_archive_columns(chunk_ids)
    appender.append(
        rows,
        classified.entries,
        chunk_ids,
        chunks=[FIRST_CHUNK],
        batch=1,
        fence=lambda: None,
    )
    return StreamAppender(StreamTable(folder, DECLARED))


def test_line_that_comes_again_is_a_duplicate(tmp_path: Path) -> None:
    appender = archive(tmp_path)
    unit = open_unit(2, ARCHIVED, b'{"ts": 1, "v": "b"}', b"broken")
    assert not sum(map(len, decode_slices(unit, appender.schema, END_OF_TIME, None)))
    count_archived_lines(unit, appender, [FIRST_CHUNK])
    assert unit.counters == Counters(read=3, duplicates=1, malformed=2)
    assert [line.line for line in unit.refused_lines] == [2, 3]


def test_line_that_an_interrupted_read_has_archived_counts_as_archived(tmp_path: Path) -> None:
    appender = archive(tmp_path)
    unit = open_unit(1, ARCHIVED)
    assert not sum(map(len, decode_slices(unit, appender.schema, END_OF_TIME, None)))
    count_archived_lines(unit, appender, [FIRST_CHUNK])
    assert unit.counters == Counters(read=1, archived=1, replayed=1)
    assert not unit.refused_lines
